from llmchecker.reporting import provenance, tables
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    table = tables.build_table1(snakemake.params.start_strings)
    write_table(table, snakemake.output, provenance.format_current_footer())
