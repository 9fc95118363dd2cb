from llmchecker.logs import job_log
from llmchecker.sources import fetch_dataset

with job_log(snakemake.log[0]) as work, work():
    lock = snakemake.input.get("lock") or None
    fetch_dataset(snakemake.params.dataset, snakemake.output[0], lock=lock)
