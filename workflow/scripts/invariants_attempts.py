from llmchecker.programs.experiments import runner
from llmchecker.programs.experiments.attempts import write_attempts
from llmchecker.programs.ir.expressions import Semantics
from llmchecker.programs.proposals.proposal_set import read_proposals
from llmchecker.programs.sources import find_program_files
from llmchecker.programs.verification.verifier import VerificationLimits
from llmchecker.utils.job_logging import job_log

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
    ways = runner.select_strategies(params.experiment, params.served)
    with work():
        made = list(runner.iter_attempts(files, ways, setting, proposals))
    write_attempts(made, snakemake.output[0])
