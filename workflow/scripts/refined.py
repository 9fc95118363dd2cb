from llmchecker.interfaces.snakemake.model_params import parse_model
from llmchecker.interfaces.snakemake.refine_jobs import refine_trees
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = TreeBuilder(**parse_model(params.growing, snakemake.input.model, snakemake.threads))
    refine_trees(grower, params.trees, params.settings, snakemake.output.trees, work)
