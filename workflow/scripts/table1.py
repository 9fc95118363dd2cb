from llmchecker import tables
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    with work():
        table = tables.table1(snakemake.params.start_strings)
    tables.write(table, snakemake.output)
