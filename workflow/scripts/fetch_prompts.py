from llmchecker.fetching.datasets import fetch_dataset
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work, work():
    lock = snakemake.input.get("lock") or None
    fetch_dataset(snakemake.params.dataset, snakemake.output[0], lock=lock)
