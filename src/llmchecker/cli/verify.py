"""`llmchecker verify`: verify C programs from the shell, without a model and a workflow.

    llmchecker verify program.c --semantics int32
    llmchecker verify directory/of/programs --jobs 2 --without relations --witness witnesses

Standard output gets one line for every program: its name, the outcome, the seconds, and either the
invariants that its proof needs or what went wrong. Below a program that a run violates stands the
run. The exit status is 0 if every program is verified, 1 if one is false, and else 2.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from llmchecker.errors import ConfigError, UnreadableProgram, UnsupportedProgram
from llmchecker.fetching.programs import program_files
from llmchecker.files import written_whole
from llmchecker.processes import Worker, children_ended
from llmchecker.programs.expressions import Semantics, c_text
from llmchecker.programs.properties import Property
from llmchecker.programs.runs import Drawn, Failure, Head, Repeated
from llmchecker.proving.outcomes import (
    COMPLETION,
    CandidateSource,
    Limit,
    Outcome,
    Verification,
    seconds_within_reason,
)
from llmchecker.publication.drawing import printed

EXIT_FALSE = 1
EXIT_UNKNOWN = 2

_MOST_EVENTS = 24
"""The most lines of a run: of a longer one, its beginning and its end."""


@dataclass(frozen=True)
class Told:
    """What is told of one program.

    Attributes:
        result: how its verification ended.
        lines: the line of each loop, by number.
        witness: the entries of a witness for the verdict; None if there is none.
    """

    result: Verification
    lines: Mapping[int, int] = field(default_factory=dict)
    witness: Sequence[Mapping[str, Any]] | None = None


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
    parser.add_argument(
        "--property",
        type=Property,
        choices=list(Property),
        default=Property.ASSERT,
        help="what must hold: every assertion, no call of reach_error, or no signed overflow and "
        "division by zero (default: %(default)s)",
    )
    parser.add_argument(
        "--witness",
        type=Path,
        metavar="PATH",
        help="where to write a witness in SV-COMP's format 2.0: a file for a C file, a directory "
        "for a directory",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, and nothing else"
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
        ConfigError: the directory holds no C file, overflow is asked of numbers that have none, or
            a witness cannot be written.
        MissingTool: there is no ESBMC.
    """
    path: Path = arguments.path
    files = program_files(path) if path.is_dir() else (path,)
    if arguments.property is Property.NO_OVERFLOW and arguments.semantics is Semantics.INTEGERS:
        raise ConfigError(
            "--property no-overflow: mathematical integers do not overflow; add --semantics int32"
        )
    verify = partial(
        _verify,
        semantics=arguments.semantics,
        seconds=arguments.seconds,
        sources=[source for source in COMPLETION if source not in arguments.without],
        asked=arguments.property,
    )
    outcomes: Counter[Outcome] = Counter()
    records = []
    for number, (file, told) in enumerate(_in_order(verify, files, arguments.jobs), start=1):
        outcomes[told.result.outcome] += 1
        if arguments.witness is not None and told.witness is not None:
            into = arguments.witness / f"{file.stem}.yml" if path.is_dir() else arguments.witness
            _write_witness(told.witness, into)
        if arguments.json:
            records.append(_record(file, told))
        else:
            print(_line(file, told.result), flush=True)
        if len(files) > 1 and sys.stderr.isatty():
            print(f"{number} of {len(files)} programs", file=sys.stderr, end="\r", flush=True)
    if arguments.json:
        asked = {"semantics": arguments.semantics, "property": arguments.property}
        print(json.dumps({**asked, "programs": records}, allow_nan=False))
    elif len(files) > 1:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        print(f"{len(files)} programs over {arguments.semantics}: {counted}")
    if set(outcomes) == {Outcome.VERIFIED}:
        return 0
    return EXIT_FALSE if outcomes[Outcome.FALSE] else EXIT_UNKNOWN


def _line(file: Path, result: Verification) -> str:
    """What is printed of a program; its run, if it is false, stands on lines of its own."""
    # a name may hold what a terminal obeys, or a line that looks like another program's
    limits = f"ended by the limit of: {', '.join(result.limits)}" if result.limits else ""
    parts = (result.message or _invariants(result), limits)
    name, told = printed(file.stem), printed("; ".join(filter(None, parts)))
    line = f"{name}\t{result.outcome}\t{result.seconds:.1f} s\t{told}"
    return "\n".join([line, *(f"    {printed(event)}" for event in _run(result.failure))])


def _run(failure: Failure | None) -> list[str]:
    """The run that violates a program, an event a line."""
    if failure is None:
        return []
    told = []
    for event in failure.trace:
        match event:
            case Drawn(name=name, value=value):
                told.append(f"{name or 'a call'} draws {value}")
            case Head(line=line, values=values):
                state = ", ".join(f"{name} = {value}" for name, value in values.items())
                told.append(f"line {line}, loop: {state}")
            case Repeated(line=line, rounds=rounds, times=times):
                last = "the last round" if rounds == 1 else f"the last {rounds} rounds"
                told.append(f"line {line}, loop: {last} {times:,} times more")
    if len(told) > _MOST_EVENTS:
        half = _MOST_EVENTS // 2
        told[half:-half] = [f"… {len(told) - 2 * half} more …"]
    where = (
        f"line {failure.line}: the assertion fails"
        if failure.line
        else "a value or a pointer out of range"
    )
    return [*told, where]


def _invariants(result: Verification) -> str:
    """The proven invariants with their sources."""
    proven = (f"{c_text(i.expression)} [{', '.join(i.sources)}]" for i in result.invariants)
    return "; ".join(proven)


_VERDICTS = {Outcome.VERIFIED: "true", Outcome.FALSE: "false"}


def _record(file: Path, told: Told) -> dict[str, Any]:
    """What is told of a program in JSON."""
    result = told.result
    run = []
    for event in result.failure.trace if result.failure else ():
        match event:
            case Drawn(name=name, value=value):
                run.append({"name": name, "draws": value})
            case Head(line=line, values=values):
                run.append({"line": line, "values": dict(values)})
            case Repeated(line=line, rounds=rounds, times=times):
                run.append({"line": line, "rounds": rounds, "repeated": times})
    return {
        "program": file.stem,
        "file": str(file),
        "verdict": _VERDICTS.get(result.outcome, "unknown"),
        "outcome": result.outcome,
        "seconds": result.seconds,
        "message": result.message,
        "limits": list(result.limits),
        "invariants": [
            {
                "line": told.lines.get(i.loop),
                "text": c_text(i.expression),
                "sources": list(i.sources),
            }
            for i in result.invariants
        ],
        "violated": result.failure.line if result.failure else None,
        "run": run,
    }


def _write_witness(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as partial_file:
            text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
            partial_file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--witness: {path} cannot be written: {error}") from error


def _in_order(
    verify: Callable[[Path], Told], files: Sequence[Path], jobs: int
) -> Iterator[tuple[Path, Told]]:
    """Yield the results in the order of the files, each as soon as it and all before it exist.

    When a worker dies, all files of its pool are without a result, and which of them ended it is
    not known. Each is then verified alone, in a worker of its own.
    """
    workers = max(1, min(jobs, len(files)))
    with ProcessPoolExecutor(workers, initializer=Worker()) as pool, children_ended():
        results = [_submitted(pool, verify, file) for file in files]
        for file, result in zip(files, results, strict=True):
            try:
                yield file, result.result()
            except BrokenProcessPool:
                yield file, _alone(verify, file)


def _submitted(
    pool: ProcessPoolExecutor, verify: Callable[[Path], Told], file: Path
) -> Future[Told]:
    try:
        return pool.submit(verify, file)
    except BrokenProcessPool as error:  # a worker died while files were still handed out
        failed: Future[Told] = Future()
        failed.set_exception(error)
        return failed


def _alone(verify: Callable[[Path], Told], file: Path) -> Told:
    began = time.monotonic()
    with ProcessPoolExecutor(1, initializer=Worker()) as pool, children_ended():
        try:
            return pool.submit(verify, file).result()
        except BrokenProcessPool:
            message = "the process that verified it was ended, as happens where memory runs out"
            seconds = time.monotonic() - began
            return Told(Verification(Outcome.KILLED, seconds=seconds, message=message))


def _verify(
    file: Path,
    semantics: Semantics,
    seconds: float,
    sources: Sequence[CandidateSource],
    asked: Property,
) -> Told:
    # Imported here: the prover takes half a second, for which no other command should wait.
    from llmchecker.proving.verification import Limits, Verifier
    from llmchecker.proving.witnesses import witness
    from llmchecker.reading.parsing import read_program

    try:
        program = read_program(file, asked)
        verifier = Verifier(program, semantics, Limits(seconds=seconds))
        result = verifier.verify({}, completion=sources)
    except UnsupportedProgram as error:
        return Told(Verification(Outcome.UNSUPPORTED, message=str(error)))
    except UnreadableProgram as error:
        return Told(Verification(Outcome.UNREADABLE, message=str(error)))
    except MemoryError:
        message = "verifying it takes more memory than there is"
        return Told(Verification(Outcome.KILLED, message=message, limits=(Limit.MEMORY,)))
    lines = {loop.number: loop.line for loop in program.loops}
    return Told(result, lines, witness(program, result, asked, semantics, file))
