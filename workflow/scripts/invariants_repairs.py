from pathlib import Path

from llmchecker.config.programs import Asking, Repairing
from llmchecker.fetching.programs import program_files
from llmchecker.invariants.asking import proposer_of
from llmchecker.invariants.attempts import write_attempts
from llmchecker.invariants.experiments import Setting
from llmchecker.invariants.proposals import read_proposals
from llmchecker.logs import job_log
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.verification import Limits
from llmchecker.repairing.rounds import repairs, write_rounds

with job_log(snakemake.log[0]) as work:
    params, threads = snakemake.params, snakemake.threads
    proposer = proposer_of(
        Path(snakemake.input.model),
        Asking(**params.asking),
        Path(params.kept),
        threads,
        params.loading,
    )
    setting = Setting(
        semantics=Semantics(snakemake.wildcards.semantics),
        limits=Limits(seconds=params.attempting["seconds"]),
        candidates=params.attempting["candidates"],
        tool_seconds=params.attempting["tool_seconds"],
        seed=params.attempting["seed"],
    )
    files = program_files(snakemake.input.programs)
    proposals = read_proposals(snakemake.input.proposals)
    with work():
        made = list(repairs(proposer, files, setting, Repairing(**params.repairing), proposals))
    write_attempts([attempt for attempt, _ in made], snakemake.output.attempts)
    write_rounds([one for _, rounds in made for one in rounds], snakemake.output.rounds)
