from llmchecker.logs import job_log
from llmchecker.sources import fetch_dataset

with job_log(snakemake.log[0]):
    prompts = snakemake.params.prompts
    fetch_dataset(prompts.source, snakemake.output[0], prompts.file, prompts.sha256)
