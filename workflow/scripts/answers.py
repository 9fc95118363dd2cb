from pathlib import Path

from llmchecker.config.registry import parse_quantifiers
from llmchecker.interfaces.snakemake.answer_jobs import compute_answers
from llmchecker.models.lazy_model import LazyModel
from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    directory = Path(snakemake.input.model)
    model = LazyModel(directory=directory, threads=snakemake.threads, **params.model)
    quantifiers = parse_quantifiers(params.settings, snakemake.config)
    check_quantifiers(params.states, quantifiers)
    compute_answers(model, params.answers, params.starts, quantifiers, snakemake.output, work)
    # a network or a judge may have been loaded during the work
    check_quantifiers(params.states, quantifiers)
