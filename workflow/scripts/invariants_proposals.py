from pathlib import Path

from llmchecker.config.programs import Asking
from llmchecker.fetching.programs import program_files
from llmchecker.invariants.asking import propose_all, proposer_of
from llmchecker.invariants.proposals import write_proposals
from llmchecker.logs import job_log

with job_log(snakemake.log[0]) as work:
    params, threads = snakemake.params, snakemake.threads
    asking = Asking(**params.asking)
    proposer = proposer_of(
        Path(snakemake.input.model), asking, Path(params.kept), threads, params.loading
    )
    with work():
        files = program_files(snakemake.input.programs)
        made = propose_all(proposer, files, asking, at_once=threads)
    write_proposals(made, snakemake.output[0])
