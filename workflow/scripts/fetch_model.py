from llmchecker.logs import job_log
from llmchecker.sources import fetch_model

with job_log(snakemake.log[0]) as work, work():
    lock = snakemake.input.get("lock") or None
    fetch_model(snakemake.params.source, snakemake.output[0], lock=lock)
