import logging
from pathlib import Path

from llmchecker.logs import job_log, node_progress
from llmchecker.trees.grower import Grower
from llmchecker.trees.shards import Shard
from llmchecker.trees.text_tree import Truncation

with job_log(snakemake.log[0]) as work:
    wildcards, params = snakemake.wildcards, snakemake.params
    truncation = Truncation(float(wildcards.alpha), int(wildcards.k), int(wildcards.L))
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    grower = Grower(
        Path(snakemake.input.model),
        threads=snakemake.threads,
        limits=params.limits,
        **params.growing,
    )
    name = f"{wildcards.model}/{wildcards.start} {truncation}, {shard}"
    path = snakemake.output.tree
    _, growth = grower.grow(path, *params.start, truncation, node_progress(name), shard)
    work.seconds += growth.seconds
    logging.info("%s: %s", name, growth)
