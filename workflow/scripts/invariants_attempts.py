from llmchecker.utils.job_logging import job_log
from loop_invariants.experiments import runner
from loop_invariants.experiments.attempts import write_attempts
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.proposal_set import read_proposals
from loop_invariants.sources import find_program_files
from loop_invariants.verification.verifier import VerificationLimits

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    setting = runner.ExperimentSettings(
        semantics=Semantics(snakemake.wildcards.semantics),
        limits=VerificationLimits(seconds=params.attempting["seconds"]),
        max_candidates=params.attempting["candidates"],
        max_tool_seconds=params.attempting["tool_seconds"],
        seed=params.attempting["seed"],
    )
    files = find_program_files(snakemake.input.programs)
    proposed = snakemake.input.get("proposals")
    proposals = read_proposals(proposed) if proposed else {}
    ways = runner.EXPERIMENTS[snakemake.wildcards.experiment]
    with work():
        made = list(runner.iter_attempts(files, ways, setting, proposals))
    write_attempts(made, snakemake.output[0])
