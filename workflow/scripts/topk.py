from pathlib import Path

from llmchecker.fetching.prompts import read_prompts
from llmchecker.logs import job_log
from llmchecker.trees.grower import Grower
from llmchecker.trees.topk import stored_masses, write_masses

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    grower = Grower(Path(snakemake.input.model), threads=snakemake.threads, **params.growing)
    prompts = read_prompts(snakemake.input.prompts, params.column)
    table, seconds = stored_masses(grower, prompts, params.maximum_k)
    work.seconds += seconds
    write_masses(table, snakemake.output[0])
