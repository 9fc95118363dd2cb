from llmchecker import published, tables
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    rows = published.read(snakemake.input.published)
    with work():
        table = published.audit_table(published.audit(rows))
    tables.write(table, snakemake.output)
