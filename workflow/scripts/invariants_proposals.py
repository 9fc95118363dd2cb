from llmchecker.config.programs import Asking
from llmchecker.fetching.programs import program_files
from llmchecker.invariants.asking import propose_all
from llmchecker.invariants.proposals import write_proposals
from llmchecker.loading.models import load_model
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    model = load_model(snakemake.input.model, threads=snakemake.threads, **params.loading)
    with work():
        files, asking = program_files(snakemake.input.programs), Asking(**params.asking)
        made = propose_all(model, files, asking, at_once=snakemake.threads)
    write_proposals(made, snakemake.output[0])
