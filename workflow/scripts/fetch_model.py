from llmchecker.logs import job_log
from llmchecker.serving.connecting import fetch_source

with job_log(snakemake.log[0]) as work, work():
    lock = snakemake.input.get("lock") or None
    fetch_source(snakemake.params.source, snakemake.output[0], lock=lock)
