from llmchecker.logs import job_log
from llmchecker.publication import provenance, published, tables

with job_log(snakemake.log[0]) as work, work():
    findings = published.audit(published.read(snakemake.input.published))
    tables.write(published.audit_table(findings), snakemake.output, provenance.footer_of_now())
