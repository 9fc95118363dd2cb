from llmchecker.interfaces.snakemake.suite_jobs import build_suites_table
from llmchecker.reporting import provenance
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    table = build_suites_table(snakemake.input.results, params.labels, params.digests)
    footer = provenance.format_footer(read_json_with_digest(snakemake.input.provenance))
    write_table(table, [snakemake.output.csv, snakemake.output.md], footer)
