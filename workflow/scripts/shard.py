import logging
from pathlib import Path

from llmchecker.logs import job_log, node_progress
from llmchecker.trees.grower import Grower
from llmchecker.trees.shards import Shard

with job_log(snakemake.log[0]) as work:
    wildcards, params = snakemake.wildcards, snakemake.params
    (tree,) = params.tree
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    grower = Grower(
        Path(snakemake.input.model),
        threads=snakemake.threads,
        limits=params.limits,
        **params.growing,
    )
    name = f"{tree}, {shard}"
    path = snakemake.output.tree
    asking = grower.decoded(tree.decoding)
    _, growth = asking.grow(path, *params.start, tree.truncation, node_progress(name), shard)
    work.seconds += growth.seconds
    logging.info("%s: %s", name, growth)
