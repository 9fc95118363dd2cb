from llmchecker.interfaces.snakemake.source_params import parse_dataset
from llmchecker.models.sources.datasets import fetch_dataset
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work, work():
    dataset, lock = parse_dataset(snakemake.params.dataset), snakemake.input.get("lock")
    fetch_dataset(dataset, snakemake.output[0], lock=lock or None)
