from llmchecker import tables
from llmchecker.logs import job_log

with job_log(snakemake.log[0]):
    tables.write(tables.table1(snakemake.params.start_strings), snakemake.output)
