from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.interfaces.snakemake.suite_jobs import compute_shard
from llmchecker.suites.load import load_suite
from llmchecker.suites.runner import select_shard
from llmchecker.trees.shards import Shard
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, wildcards = snakemake.params, snakemake.wildcards
    config = Config.read(*params.config["files"], changes=params.config["changes"])
    file = config.suites[wildcards.suite].file
    shard = Shard(int(wildcards.number) - 1, int(wildcards.shards))
    suite = load_suite(
        file,
        models=[wildcards.model],
        config=config,
        select=lambda suite: select_shard(suite, shard),
    )
    kept = Path(paths.kept_cases(wildcards.suite, wildcards.model))
    results = snakemake.output.results
    compute_shard(suite, shard, snakemake.threads, results, kept, params.whole, work)
