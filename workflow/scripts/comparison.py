from pathlib import Path

from llmchecker.reporting import provenance, tables
from llmchecker.reporting.paper import audit, claims, comparison
from llmchecker.reporting.paper.published_table import read_published_figure, read_published_rows
from llmchecker.reporting.table_io import read_csv, write_table
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

PUBLISHED = Path(__file__).parents[2] / "resources/published"

with job_log(snakemake.log[0]) as work, work():
    params, inputs, output = snakemake.params, snakemake.input, snakemake.output
    answers = tables.read_answers(params.rows, inputs.verdicts, inputs.get("answers", ()))
    findings = audit.audit(read_published_rows(PUBLISHED / "table2.csv"))
    footer = provenance.format_footer(read_json_with_digest(inputs.provenance))
    table = comparison.build_comparison_table(findings, answers)
    note = comparison.describe_rows_without_run(findings, table)
    write_table(table, [output.csv, output.md, output.tex], footer, [note])
    figures = {name: read_csv(inputs[name]) for name in ("masses", "nouns") if inputs.get(name)}
    compared = claims.build_claims_table(
        findings,
        answers,
        read_published_figure(PUBLISHED / "figure3.csv", ["model", "k", "mass"]),
        read_published_figure(PUBLISHED / "figure4.csv", ["model", "noun", "value"]),
        **figures,
    )
    write_table(compared, [output.claims, output.claims_md], footer, [claims.NOTE])
