from llmchecker.logs import job_log
from llmchecker.publication import provenance, tables
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    table = tables.table1(snakemake.params.start_strings)
    write_table(table, snakemake.output, provenance.footer_of_now())
