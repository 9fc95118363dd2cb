import logging

from llmchecker.fetching.sources import pinned
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work, work():
    params = snakemake.params
    logging.info("locked %s", pinned(params.source, snakemake.output[0], params.kind))
