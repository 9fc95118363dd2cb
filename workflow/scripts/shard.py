from llmchecker.interfaces.snakemake.model_params import parse_model_params
from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits, grow_shard
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, wildcards = snakemake.params, snakemake.wildcards
    model = parse_model_params(params.growing, snakemake.input.model, snakemake.threads)
    limits = build_growth_limits(snakemake.config["expansion"], snakemake.resources.mem_mb)
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    grow_shard(TreeBuilder(**model, limits=limits), params.tree, shard, snakemake.output.tree, work)
