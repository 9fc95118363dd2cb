from pathlib import Path

from llmchecker.utils.job_logging import job_log
from loop_invariants.proposals.proposal_set import write_proposals
from loop_invariants.proposals.proposers import load_proposer, propose_invariants
from loop_invariants.proposals.settings import ProposalSettings
from loop_invariants.sources import find_program_files

with job_log(snakemake.log[0]) as work:
    params, threads = snakemake.params, snakemake.threads
    asking = ProposalSettings(**params.asking)
    proposer = load_proposer(
        Path(snakemake.input.model), asking, Path(params.kept), threads, params.loading
    )
    with work():
        files = find_program_files(snakemake.input.programs)
        made = propose_invariants(proposer, files, asking, max_workers=threads)
    write_proposals(made, snakemake.output[0])
