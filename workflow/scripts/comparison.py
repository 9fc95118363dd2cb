from pathlib import Path

from llmchecker.reporting import provenance, tables
from llmchecker.reporting.paper import audit, comparison
from llmchecker.reporting.paper.published_table import read_published_rows
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

PUBLISHED = Path(__file__).parents[2] / "resources/published/table2.csv"

with job_log(snakemake.log[0]) as work, work():
    params, inputs = snakemake.params, snakemake.input
    answers = tables.read_answers(params.rows, inputs.verdicts, inputs.get("answers", ()))
    findings = audit.audit(read_published_rows(PUBLISHED))
    footer = provenance.format_footer(read_json_with_digest(inputs.provenance))
    write_table(comparison.build_comparison_table(findings, answers), snakemake.output, footer)
