import logging

from llmchecker.logs import job_log
from llmchecker.sources import pinned

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    logging.info("locked %s", pinned(params.source, snakemake.output[0], params.kind))
