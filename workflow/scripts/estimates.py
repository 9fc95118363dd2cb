from llmchecker.interfaces.snakemake.estimate_jobs import estimate_checks
from llmchecker.interfaces.snakemake.model_params import parse_model
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = TreeBuilder(**parse_model(params.growing, snakemake.input.model, snakemake.threads))
    estimate_checks(grower, params.estimates, params.settings, snakemake.output, work)
