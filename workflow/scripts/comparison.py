from llmchecker.interfaces.snakemake.table_params import read_job_answers
from llmchecker.reporting import audit, comparison, provenance
from llmchecker.reporting.published_table import read_published_rows
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    answers = read_job_answers(snakemake.params, snakemake.input)
    findings = audit.audit(read_published_rows(snakemake.input.published))
    footer = provenance.format_footer(read_json_with_digest(snakemake.input.provenance))
    write_table(comparison.build_comparison_table(findings, answers), snakemake.output, footer)
