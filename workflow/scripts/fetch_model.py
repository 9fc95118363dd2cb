from llmchecker.interfaces.snakemake.source_params import parse_model_source
from llmchecker.models.fetch import fetch_model
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    source, lock = parse_model_source(snakemake.params.source), snakemake.input.get("lock")
    fetch_model(source, snakemake.output[0], lock=lock or None)
