from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.registry import parse_quantifiers
from llmchecker.interfaces.snakemake.score_jobs import score_trees
from llmchecker.utils.job_logging import job_log
from llmchecker.utils.result_cache import ResultCache

with job_log(snakemake.log[0]) as work:
    params, inputs, output = snakemake.params, snakemake.input, snakemake.output
    quantifiers = parse_quantifiers(params.settings, snakemake.config)
    outputs = list(zip(output.scores, output.seconds, strict=True))
    cache = ResultCache(Path(paths.cached_results("scores", params.name)))
    score_trees(
        inputs.trees,
        params.names,
        quantifiers,
        params.states,
        params.codes,
        outputs,
        cache,
        work,
    )
