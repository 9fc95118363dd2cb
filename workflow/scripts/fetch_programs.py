from llmchecker.fetching.programs import fetch_programs
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work, work():
    fetch_programs(snakemake.params.source, snakemake.output[0])
