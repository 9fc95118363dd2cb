from pathlib import Path

from llmchecker.programs.experiments.attempts import write_attempts
from llmchecker.programs.experiments.runner import ExperimentSettings
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.proposals.proposal_set import read_proposals
from llmchecker.programs.proposals.proposers import load_proposer
from llmchecker.programs.proposals.settings import ProposalSettings, RepairSettings
from llmchecker.programs.repair.repair_loop import iter_repairs, write_rounds
from llmchecker.programs.sources import find_program_files
from llmchecker.programs.verification.verifier import VerificationLimits
from llmchecker.utils.job_logging import job_log

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
