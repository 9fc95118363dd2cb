from llmchecker.utils.job_logging import job_log
from loop_invariants.sources import ProgramSource, fetch_programs

with job_log(snakemake.log[0]) as work, work():
    fetch_programs(ProgramSource(**snakemake.params.source), snakemake.output[0])
