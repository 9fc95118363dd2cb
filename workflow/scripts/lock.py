import logging

from llmchecker.models.sources.source_spec import parse_source, pin_source
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    source = parse_source(snakemake.params.source)
    logging.info("locked %s", pin_source(source, snakemake.output[0], snakemake.params.kind))
