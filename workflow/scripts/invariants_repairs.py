from pathlib import Path

from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments.attempts import write_attempts
from loop_invariants.experiments.runner import ExperimentSettings
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.proposal_set import read_proposals
from loop_invariants.proposals.proposers import load_proposer
from loop_invariants.proposals.settings import ProposalSettings, RepairSettings
from loop_invariants.repair.repair_loop import iter_repairs, write_rounds
from loop_invariants.sources import find_program_files
from loop_invariants.verification.verifier import VerificationLimits

with job_log(snakemake.log[0]) as work:
    params, threads = snakemake.params, snakemake.threads
    proposer = load_proposer(
        Path(snakemake.input.model),
        ProposalSettings(**params.asking),
        Path(params.kept),
        threads,
        params.loading,
    )
    setting = ExperimentSettings(
        semantics=Semantics(snakemake.wildcards.semantics),
        limits=VerificationLimits(seconds=params.attempting["seconds"]),
        max_candidates=params.attempting["candidates"],
        max_tool_seconds=params.attempting["tool_seconds"],
        seed=params.attempting["seed"],
    )
    files = find_program_files(snakemake.input.programs)
    proposals = read_proposals(snakemake.input.proposals)
    with work():
        made = list(
            iter_repairs(proposer, files, setting, RepairSettings(**params.repairing), proposals)
        )
    write_attempts([attempt for attempt, _ in made], snakemake.output.attempts)
    write_rounds([one for _, rounds in made for one in rounds], snakemake.output.rounds)
