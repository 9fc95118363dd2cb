from llmchecker.files import written_whole
from llmchecker.language_models import load
from llmchecker.logs import job_log
from llmchecker.topk import masses, read_prompts

with job_log(snakemake.log[0]) as work:
    model = load(snakemake.input.model, **snakemake.params.loading)
    prompts = read_prompts(snakemake.input.prompts, snakemake.params.column)
    with work():
        table = masses(model, prompts, snakemake.params.maximum_k)
    with written_whole(snakemake.output[0]) as partial:
        table.to_parquet(partial)
