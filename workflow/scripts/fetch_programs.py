from llmchecker.programs.sources import ProgramSource, fetch_programs
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    fetch_programs(ProgramSource(**snakemake.params.source), snakemake.output[0])
