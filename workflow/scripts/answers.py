from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.registry import parse_quantifiers
from llmchecker.interfaces.snakemake.answer_jobs import compute_answers
from llmchecker.models.lazy_model import LazyModel
from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.utils.job_logging import job_log
from llmchecker.utils.result_cache import ResultCache

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    directory = Path(snakemake.input.model)
    model = LazyModel(directory=directory, threads=snakemake.threads, **params.model)
    quantifiers = parse_quantifiers(params.settings, snakemake.config)
    check_quantifiers(params.states, quantifiers)
    compute_answers(
        model,
        params.answers,
        params.starts,
        quantifiers,
        params.states,
        params.codes,
        snakemake.output,
        ResultCache(Path(paths.cached_results("answers", directory.name))),
        work,
    )
