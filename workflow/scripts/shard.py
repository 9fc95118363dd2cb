from pathlib import Path

from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits, grow_shard
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, wildcards = snakemake.params, snakemake.wildcards
    directory = Path(snakemake.input.model)
    limits = build_growth_limits(snakemake.config["expansion"], snakemake.resources.mem_mb)
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    grower = TreeBuilder(
        directory=directory, threads=snakemake.threads, limits=limits, **params.model
    )
    grow_shard(grower, params.tree, shard, snakemake.output.tree, work)
