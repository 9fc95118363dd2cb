from llmchecker.fetching.models import fetch_model
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work, work():
    lock = snakemake.input.get("lock") or None
    fetch_model(snakemake.params.source, snakemake.output[0], lock=lock)
