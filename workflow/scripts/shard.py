from pathlib import Path

from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits, grow_shard
from llmchecker.models.lazy_model import LazyModel
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, wildcards = snakemake.params, snakemake.wildcards
    directory = Path(snakemake.input.model)
    limits = build_growth_limits(snakemake.config["expansion"], snakemake.resources.mem_mb)
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    model = LazyModel(directory=directory, threads=snakemake.threads, **params.model)
    grower = TreeBuilder(model, params.caches[0], limits)
    grow_shard(grower, params.tree, shard, snakemake.output.tree, work)
