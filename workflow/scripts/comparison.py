from llmchecker.files import read_sealed_json
from llmchecker.logs import job_log
from llmchecker.publication import audit, comparison, provenance, tables
from llmchecker.publication.published import read_published_rows
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    answers = tables.read_answers(
        snakemake.params.rows,
        snakemake.input.verdicts,
        snakemake.params.models,
        snakemake.params.start_strings,
    )
    findings = audit.audit(read_published_rows(snakemake.input.published))
    footer = provenance.footer(read_sealed_json(snakemake.input.provenance))
    write_table(comparison.comparison_table(findings, answers), snakemake.output, footer)
