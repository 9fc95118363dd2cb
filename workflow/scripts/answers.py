from llmchecker.interfaces.snakemake.answer_jobs import compute_answers
from llmchecker.interfaces.snakemake.model_params import parse_model_params
from llmchecker.interfaces.snakemake.quantifier_params import parse_quantifiers
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = TreeBuilder(
        **parse_model_params(params.growing, snakemake.input.model, snakemake.threads)
    )
    quantifiers = parse_quantifiers(params.settings, snakemake.config)
    compute_answers(grower, params.answers, quantifiers, snakemake.output, work)
