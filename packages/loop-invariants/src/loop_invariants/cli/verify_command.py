"""The run of the command line: verify C programs without a model and a workflow.

    loop-invariants program.c
    loop-invariants directory/of/programs --jobs 2 --without relations

Standard output contains one line for each program: its name, the outcome, the seconds, and the
invariants of its proof or the problem. The violating run follows the line of a false program. The
exit status is 0 if every program is verified, 1 if a program is false, and 2 otherwise. A program
without an assertion is not verified.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, MissingTool, UnreadableProgram
from llmchecker.interfaces.cli.output import is_terminal
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.json_lines import format_line
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker.utils.processes import WorkerInitializer, kill_children_on_error
from loop_invariants.cli.verdict_log import VerdictLog, compute_digest
from loop_invariants.frontend.error_names import parse_error_names
from loop_invariants.interpreter.simulation import Failure, HeadState, NondetValue
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.limits import Limit
from loop_invariants.proposals.settings import ProposalSettings
from loop_invariants.reporting.witness import explain_no_witness, write_witness
from loop_invariants.sources import find_program_files
from loop_invariants.verification.given_invariants import parse_given_invariant
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import BUILTIN_SOURCES, Outcome, VerificationResult

_ANSWERS = 10
"""Answers of a model to each kind of prompt, by default."""
_MAX_EVENTS = 24
"""Maximum number of lines of a run; a longer run is cut in its middle."""


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify the programs and return the exit status.

    Raises:
        ConfigError: the directory contains no C file, no-overflow is combined with mathematical
            integers, or the file of --resume is unusable.
        KeyboardInterrupt: Ctrl-C, after the verdicts so far are printed.
    """
    path: Path = arguments.path
    for option in ("invariant", "witness"):
        if getattr(arguments, option) and path.is_dir():
            raise ConfigError(f"--{option}: it belongs to one program; name a file")
    for option in ("answers", "seed"):
        if getattr(arguments, option) is not None and arguments.model is None:
            raise ConfigError(f"--{option}: no model answers; add --model")
    files = find_program_files(path) if path.is_dir() else (path,)
    if arguments.property is Property.NO_OVERFLOW and arguments.semantics is Semantics.INTEGERS:
        raise ConfigError(
            "--property no-overflow: mathematical integers do not overflow; use --semantics int32"
        )
    log = None if arguments.resume is None else VerdictLog(arguments.resume)
    task = FileTask(
        arguments.semantics,
        arguments.property,
        parse_error_names(arguments.errors),
        arguments.seconds,
        [source for source in BUILTIN_SOURCES if source not in arguments.without],
        [parse_given_invariant(text) for text in arguments.invariant],
    )
    settings = [str(task.semantics), str(task.required_property), arguments.errors]
    settings += [f"{task.seconds:g}", *map(str, task.sources), *arguments.invariant]
    if arguments.model is not None:
        asking = ProposalSettings(arguments.answers or _ANSWERS, arguments.seed or 0)
        settings += [f"{arguments.model} {asking}"]
    digests = {file: compute_digest(file, settings) for file in files}
    records: dict[Path, dict[str, Any]] = {}
    for file in files:
        record = None if log is None else log.find(file, digests[file])
        if record is not None:
            records[file] = record
    stored_count = len(records)
    pending_files = [file for file in files if file not in records]
    if arguments.model is not None and pending_files:
        # Imported here, because torch takes seconds to load.
        from loop_invariants.cli.model_proposals import sample_candidates

        task = replace(task, sampled=sample_candidates(arguments.model, pending_files, asking))
    interrupt: KeyboardInterrupt | None = None
    try:
        for file, result in _iter_results(
            partial(_verify_file, task=task), pending_files, arguments.jobs
        ):
            records[file] = record = _build_record(file, result, task.semantics) | {
                "digest": digests[file]
            }
            if log is not None:
                log.add(record)
            if arguments.witness is not None:
                _write_witness(file, task, result, arguments.witness)
            if arguments.jsonl:
                print(format_line(record), flush=True)
            # One JSON object holds all programs, so that it is printed at the end.
            elif not arguments.json:
                _print_program(file, result, task.semantics)
            # Only a person at a terminal sees the counter; a log would collect its lines.
            if len(files) > 1 and sys.stderr.isatty():
                print(
                    f"{len(records)} of {format_count(len(files), 'program')}",
                    file=sys.stderr,
                    end="\r",
                    flush=True,
                )
    # The verdicts so far are right, so they precede the interrupt.
    except KeyboardInterrupt as error:
        interrupt = error
    # in the order of the files, so that equal outcomes give equal summaries
    found = [file for file in files if file in records]
    outcomes = Counter(Outcome(records[file]["outcome"]) for file in found)
    if arguments.json:
        fields = {"semantics": arguments.semantics, "property": arguments.property}
        fields |= {"complete": interrupt is None, "summary": dict(outcomes)}
        fields["programs"] = [records[file] for file in found]
        print(json.dumps(fields, allow_nan=False))
    elif len(files) > 1 or stored_count:
        stored = f", {stored_count:,} of them from {arguments.resume}" if stored_count else ""
        counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        # without a verdict there is nothing to count
        counts = f": {counts}" if counts else ""
        total = format_count(len(files), "program")
        if interrupt is not None:
            total = f"interrupted: {len(found):,} of {total} have a verdict"
        # Each line of --jsonl is a program, so that a person reads the summary elsewhere.
        print(
            f"{total} over {arguments.semantics}{stored}{counts}",
            file=sys.stderr if arguments.jsonl else sys.stdout,
        )
    if interrupt is not None:
        raise interrupt
    if set(outcomes) <= {Outcome.VERIFIED}:
        return ExitStatus.SUCCESS
    # A false program outweighs unknown ones.
    return ExitStatus.VIOLATED if outcomes[Outcome.FALSE] else ExitStatus.UNKNOWN


def _write_witness(file: Path, task: FileTask, result: VerificationResult, target: Path) -> None:
    """Write the witness of a proof, or say why there is none."""
    if (reason := explain_no_witness(task, result)) is not None:
        print(f"--witness: {target} is not written: {reason}", file=sys.stderr)
    else:
        write_witness(file, task, result, target)


def _print_program(file: Path, result: VerificationResult, semantics: Semantics) -> None:
    """Print the outcome of a program, and its run if it is false."""
    if not is_terminal():
        print(_format_line(file, result, semantics), flush=True)
        return
    # Imported here, because an answer in a pipe needs no rich.
    from llmchecker.interfaces.cli.terminal import BAD, GOOD, OPEN, print_outcome

    style = {"true": GOOD, "false": BAD}.get(_VERDICTS.get(result.outcome, ""), OPEN)
    name = f"{file.stem}  {result.seconds:.1f} s  {semantics}"
    print_outcome(
        (result.outcome, style), name, _format_details(result), lines=_format_run(result.failure)
    )


def _format_line(file: Path, result: VerificationResult, semantics: Semantics) -> str:
    """Format the line of a program, and the lines of its run if it is false."""
    # A name may contain control characters, or a line that looks like another program's.
    name, details = map(escape_unprintable, (file.stem, _format_details(result)))
    line = f"{name}\t{result.outcome}\t{result.seconds:.1f} s\t{semantics}\t{details}"
    return "\n".join(
        [line, *(f"    {escape_unprintable(event)}" for event in _format_run(result.failure))]
    )


def _format_details(result: VerificationResult) -> str:
    """Format the problem or the invariants of a program, and its limits."""
    limits = f"ended by the limit of: {', '.join(result.limits)}" if result.limits else ""
    depth = (
        f"no violation of the original text in {result.searched_depth} rounds"
        if result.searched_depth
        else ""
    )
    runs = "all runs searched" if result.is_exhaustive else ""
    assumptions = f"assuming that {', and that '.join(result.assumptions)}"
    parts = (
        result.message or _format_invariants(result),
        runs,
        limits,
        depth,
        assumptions if result.assumptions else "",
    )
    return "; ".join(filter(None, parts))


def _format_run(failure: Failure | None) -> list[str]:
    """Format the run that violates a program, one line for each event."""
    # A false program without a trace has no run to print.
    if failure is None:
        return []
    lines = []
    for event in failure.trace:
        match event:
            case NondetValue(name=name, value=value):
                lines.append(f"{name or 'a call'} draws {value}")
            case HeadState(line=line, values=values):
                state = ", ".join(f"{name} = {value}" for name, value in values.items())
                lines.append(f"line {line}, loop: {state}")
    # The beginning shows the inputs, and the end shows the violation.
    if len(lines) > _MAX_EVENTS:
        half = _MAX_EVENTS // 2
        lines[half:-half] = [f"… {len(lines) - 2 * half} more …"]
    location = (
        f"line {failure.line}: the assertion fails"
        # Line 0 marks a failure outside of the assertions.
        if failure.line
        else "a value or a pointer out of range"
    )
    return [*lines, location]


def _format_invariants(result: VerificationResult) -> str:
    """Format the proven invariants with their sources; empty without a proof by invariants."""
    texts = [f"{i.text} [{', '.join(i.sources)}]" for i in result.invariants]
    if not texts and result.outcome is Outcome.VERIFIED and not result.is_exhaustive:
        return "no invariant is needed"
    return "; ".join(texts)


_VERDICTS = {Outcome.VERIFIED: "true", Outcome.FALSE: "false"}


def _build_record(file: Path, result: VerificationResult, semantics: Semantics) -> dict[str, Any]:
    """Build the JSON record of a program."""
    run = []
    for event in result.failure.trace if result.failure else ():
        match event:
            case NondetValue(name=name, value=value):
                run.append({"name": name, "draws": value})
            case HeadState(line=line, values=values):
                run.append({"line": line, "values": dict(values)})
    return {
        "program": file.stem,
        "semantics": semantics,
        "file": str(file),
        "verdict": _VERDICTS.get(result.outcome, "unknown"),
        "outcome": result.outcome,
        "seconds": result.seconds,
        "message": result.message,
        "limits": list(result.limits),
        "searched_depth": result.searched_depth,
        "invariants": [
            {"line": i.line, "text": i.text, "sources": list(i.sources)} for i in result.invariants
        ],
        "violated": _find_violated_line(result),
        "kind": result.violation.kind if result.violation else None,
        "inputs": list(result.violation.inputs) if result.violation else None,
        "all_runs": result.is_exhaustive,
        "assumptions": list(result.assumptions),
        "run": run,
    }


def _find_violated_line(result: VerificationResult) -> int | None:
    if result.violation is not None:
        return result.violation.line
    return result.failure.line if result.failure else None


def _iter_results(
    verify: Callable[[Path], VerificationResult], files: Sequence[Path], jobs: int
) -> Iterator[tuple[Path, VerificationResult]]:
    """Yield the result of each file as soon as it is known.

    When a worker dies, all files of its pool lose their results, and the file at fault is unknown.
    Each of these files is then verified in a worker of its own.
    """
    # A pool needs at least one worker, even without files.
    workers = max(1, min(jobs, len(files)))
    with (
        ProcessPoolExecutor(workers, initializer=WorkerInitializer()) as pool,
        kill_children_on_error(),
    ):
        results = {_submit(pool, verify, file): file for file in files}
        for result in as_completed(results):
            try:
                yield results[result], result.result()
            except BrokenProcessPool:
                yield results[result], _verify_in_own_process(verify, results[result])


def _submit(
    pool: ProcessPoolExecutor, verify: Callable[[Path], VerificationResult], file: Path
) -> Future[VerificationResult]:
    try:
        return pool.submit(verify, file)
    # The pool is broken, so that it accepts no further file.
    except BrokenProcessPool as error:  # a worker died during the submission of files
        future: Future[VerificationResult] = Future()
        future.set_exception(error)
        return future


def _verify_in_own_process(
    verify: Callable[[Path], VerificationResult], file: Path
) -> VerificationResult:
    start_time = time.monotonic()
    with ProcessPoolExecutor(1, initializer=WorkerInitializer()) as pool, kill_children_on_error():
        try:
            return pool.submit(verify, file).result()
        except BrokenProcessPool:
            message = "the verifying process was killed, probably because memory ran out"
            seconds = time.monotonic() - start_time
            return VerificationResult(Outcome.KILLED, seconds=seconds, message=message)


def _verify_file(file: Path, task: FileTask) -> VerificationResult:
    try:
        return verify_file(file, task)
    except UnreadableProgram as error:
        return VerificationResult(Outcome.UNREADABLE, message=str(error))
    # Other programs may be decided without ESBMC, so that they go on.
    except MissingTool as error:
        return VerificationResult(Outcome.ESBMC_ERROR, message=str(error))
    except MemoryError:
        message = "verification needs more memory than the machine has"
        return VerificationResult(Outcome.KILLED, message=message, limits=(Limit.MEMORY,))
