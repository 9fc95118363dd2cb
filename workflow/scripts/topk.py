from pathlib import Path

from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.sources.prompt_set import read_prompts
from llmchecker.trees.top_k_mass import load_or_compute_masses, write_masses
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    directory = Path(snakemake.input.model)
    prompts = read_prompts(snakemake.input.prompts, params.column)
    model = LazyModel(directory=directory, threads=snakemake.threads, **params.model)
    table, work.seconds = load_or_compute_masses(model, params.caches[0], prompts, params.maximum_k)
    write_masses(table, snakemake.output[0], model.files)
