from llmchecker.logs import job_log
from llmchecker.publication import audit, provenance
from llmchecker.publication.published import read_published_rows
from llmchecker.publication.table_files import write_table

with job_log(snakemake.log[0]) as work, work():
    findings = audit.audit(read_published_rows(snakemake.input.published))
    write_table(audit.audit_table(findings), snakemake.output, provenance.footer_of_now())
