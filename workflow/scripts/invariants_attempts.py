from llmchecker.fetching.programs import program_files
from llmchecker.invariants import experiments
from llmchecker.invariants.attempts import write_attempts
from llmchecker.invariants.proposals import read_proposals
from llmchecker.logs import job_log
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.verification import Limits

with job_log(snakemake.log[0]) as work:
    params = snakemake.params
    setting = experiments.Setting(
        semantics=Semantics(snakemake.wildcards.semantics),
        limits=Limits(seconds=params.attempting["seconds"]),
        candidates=params.attempting["candidates"],
        tool_seconds=params.attempting["tool_seconds"],
        seed=params.attempting["seed"],
    )
    files = program_files(snakemake.input.programs)
    proposed = snakemake.input.get("proposals")
    proposals = read_proposals(proposed) if proposed else {}
    ways = experiments.EXPERIMENTS[params.experiment]
    if params.served:
        ways = experiments.without_enumeration(ways)
    with work():
        made = list(experiments.attempts(files, ways, setting, proposals))
    write_attempts(made, snakemake.output[0])
