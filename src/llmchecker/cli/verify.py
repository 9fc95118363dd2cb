"""`llmchecker verify`: verify C programs from the shell, without a model and a workflow.

    llmchecker verify program.c --semantics int32
    llmchecker verify directory/of/programs --jobs 2 --without relations

Standard output gets one line for every program: its name, the outcome, the seconds, and either the
invariants that its proof needs or what went wrong. The exit status is 0 if every program is
verified, else 1.
"""

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.fetching.programs import program_files
from llmchecker.programs.expressions import Semantics, c_text
from llmchecker.proving.outcomes import (
    COMPLETION,
    CandidateSource,
    Outcome,
    Verification,
    seconds_within_reason,
)

EXIT_NOT_VERIFIED = 1


def add_verify(commands: argparse._SubParsersAction) -> None:
    """Add the command to a command line."""
    parser = commands.add_parser(
        "verify",
        help="verify C programs with invariants that the programs themselves suggest",
        description="Verify C programs without a model. The programs and their runs suggest loop "
        "invariants, Z3 proves them, and ESBMC confirms the result.",
    )
    parser.add_argument("path", type=Path, help="a C file, or a directory of them")
    parser.add_argument(
        "--semantics",
        type=Semantics,
        choices=list(Semantics),
        default=Semantics.INTEGERS,
        help="mathematical integers, or 32-bit ones that wrap around (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=60.0,
        help="the most time for one program (default: %(default)g)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="programs at a time (default: the machine's cores, here %(default)s)",
    )
    parser.add_argument(
        "--without",
        action="append",
        choices=[str(source) for source in COMPLETION],
        default=[],
        help="a source of candidates to switch off; may be given several times",
    )
    parser.set_defaults(run=run_verify)


def _seconds(text: str) -> float:
    """The argument of `--seconds`."""
    try:
        return seconds_within_reason(float(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify the programs and return the exit status.

    Raises:
        ConfigError: the directory holds no C file.
        MissingTool: there is no ESBMC.
    """
    path: Path = arguments.path
    files = program_files(path) if path.is_dir() else (path,)
    verify = partial(
        _verify,
        semantics=arguments.semantics,
        seconds=arguments.seconds,
        sources=[source for source in COMPLETION if source not in arguments.without],
    )
    outcomes: Counter[Outcome] = Counter()
    for file, result in _in_order(verify, files, arguments.jobs):
        outcomes[result.outcome] += 1
        told = result.message or _invariants(result)
        print(f"{file.stem}\t{result.outcome}\t{result.seconds:.1f} s\t{told}", flush=True)
    if len(files) > 1:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        print(f"{len(files)} programs over {arguments.semantics}: {counted}")
    return 0 if set(outcomes) == {"verified"} else EXIT_NOT_VERIFIED


def _invariants(result: Verification) -> str:
    """The proven invariants with their sources."""
    proven = (f"{c_text(i.expression)} [{', '.join(i.sources)}]" for i in result.invariants)
    return "; ".join(proven)


def _in_order(
    verify: Callable[[Path], Verification], files: Sequence[Path], jobs: int
) -> Iterator[tuple[Path, Verification]]:
    """Yield the results in the order of the files, each as soon as it and all before it exist."""
    with ProcessPoolExecutor(max(1, min(jobs, len(files)))) as pool:
        yield from zip(files, pool.map(verify, files), strict=True)


def _verify(
    file: Path, semantics: Semantics, seconds: float, sources: Sequence[CandidateSource]
) -> Verification:
    # Imported here: the prover takes half a second, for which no other command should wait.
    from llmchecker.programs.parsing import read_program
    from llmchecker.proving.verification import Limits, Verifier

    try:
        verifier = Verifier(read_program(file), semantics, Limits(seconds=seconds))
        return verifier.verify({}, completion=sources)
    except UnsupportedProgram as error:
        return Verification(Outcome.UNSUPPORTED, message=str(error))
    except UnreadableProgram as error:
        return Verification(Outcome.UNREADABLE, message=str(error))
