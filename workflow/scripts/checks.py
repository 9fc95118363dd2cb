from llmchecker.interfaces.snakemake.check_jobs import answer_checks
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    answer_checks(
        params.checks,
        params.notes,
        params.definitions,
        params.ranges,
        params.states,
        params.code,
        snakemake.output,
        work,
    )
