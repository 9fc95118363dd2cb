from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.interfaces.snakemake.suite_jobs import compute_verdicts
from llmchecker.suites.load import load_suite
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params, wildcards = snakemake.params, snakemake.wildcards
    config = Config.read(*params.config["files"], changes=params.config["changes"])
    file = config.suites[wildcards.suite].file
    suite = load_suite(file, models=[wildcards.model], config=config)
    shards = list(snakemake.input.get("shards", []))
    kept = Path(paths.kept_cases(wildcards.suite, wildcards.model))
    compute_verdicts(suite, snakemake.threads, snakemake.output, kept, params.types, work, shards)
