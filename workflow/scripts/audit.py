from pathlib import Path

from llmchecker.reporting import provenance
from llmchecker.reporting.paper import audit
from llmchecker.reporting.paper.published_table import read_published_rows
from llmchecker.reporting.table_io import write_table
from llmchecker.utils.job_logging import job_log

PUBLISHED = Path(__file__).parents[2] / "resources/published/table2.csv"

with job_log(snakemake.log[0]) as work, work():
    findings = audit.audit(read_published_rows(PUBLISHED))
    write_table(
        audit.build_audit_table(findings), snakemake.output, provenance.format_current_footer()
    )
