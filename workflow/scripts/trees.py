from pathlib import Path

from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits, grow_trees, store_masses
from llmchecker.models.lazy_model import LazyModel
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, config = snakemake.params, snakemake.config
    directory = Path(snakemake.input.model)
    limits = build_growth_limits(config["expansion"], snakemake.resources.mem_mb)
    model = LazyModel(directory=directory, threads=snakemake.threads, **params.model)
    grower = TreeBuilder(model, params.caches[0], limits)
    grow_trees(grower, params.trees, snakemake.output.trees, work)
    if model.is_loaded and "topk" in config:
        store_masses(grower, params.prompts, config["topk"], work)
