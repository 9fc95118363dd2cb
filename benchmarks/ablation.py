"""Measure what each part of loop_invariants decides:

    .venv/bin/python benchmarks/ablation.py "own programs" resources/programs --semantics int32

Each program is verified once with all parts, and once again without each part that took part in its
verdict. A program that then has no verdict counts for the part. The counts become rows of
resources/measured/ablation.csv and replace the rows of the same set and semantics;
`docs/measured_pages.py` writes the page. A part of more than --reruns verdicts is not switched off.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from verifying import read_commit

from llmchecker.errors import ProgramError, UnsupportedProgram
from llmchecker.utils.atomic_files import atomic_write
from loop_invariants.ir.expressions import Semantics
from loop_invariants.sources import find_program_files
from loop_invariants.verification import esbmc, houdini
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import BUILTIN_SOURCES, Outcome

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "resources/measured/ablation.csv"
KEYS = ["set", "semantics"]
COLUMNS = [*KEYS, "seconds", "kind", "part", "verdicts", "lost", "names", "commit"]
_MAX_CLOCK_FACTOR = 20
_MAX_NAMES = 8

_PACKAGE = "loop_invariants"


@dataclass(frozen=True)
class Part:
    """A part of the package: a function, and what takes its place.

    Attributes:
        kind: what the part does.
        name: name in the table.
        module: module of the function, within the package.
        function: name of the function, or of a class and its method.
        takes_part: whether a call takes part in the verdict, from its result and its arguments.
        without: builds the function that takes its place.
    """

    kind: str
    name: str
    module: str
    function: str
    takes_part: Callable[..., bool]
    without: Callable[[Callable[..., Any]], Callable[..., Any]]

    @contextmanager
    def replaced(self, build: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
        """Replace the function by what `build` makes of it."""
        owner: Any = import_module(f"{_PACKAGE}.{self.module}")
        *classes, name = self.function.split(".")
        for class_name in classes:
            owner = getattr(owner, class_name)
        with patch.object(owner, name, build(getattr(owner, name))):
            yield


def always(result: Any, *arguments: Any) -> bool:
    return True


def has_result(result: Any, *arguments: Any) -> bool:
    return result is not None


def refuse(function: Callable[..., Any]) -> Callable[..., Any]:
    def raise_error(*arguments: Any) -> Any:
        raise UnsupportedProgram(f"{function.__name__}: the part is switched off; switch it on")

    return raise_error


def give(value: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda function: lambda *arguments, **options: value


def _drop_failure(run_program: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **options: replace(run_program(*arguments, **options), failure=None)


PARTS = (
    Part(
        "violation",
        "runs of the interpreter",
        "verification.verifier",
        "run_program",
        lambda result, *arguments: result.failure is not None,
        _drop_failure,
    ),
    Part(
        "violation",
        "compiled runs",
        "verification.violations",
        "find_violating_inputs",
        has_result,
        give(None),
    ),
    Part(
        "violation",
        "ESBMC's search",
        "verification.portfolio",
        "_search",
        lambda result, *arguments: result.outcome is Outcome.FALSE,
        lambda function: lambda result, *arguments: result,
    ),
    Part(
        "violation",
        "replay by the interpreter",
        "verification.violations",
        "replay_inputs",
        has_result,
        give(None),
    ),
    Part(
        "violation",
        "replay by gcc",
        "verification.violations",
        "replay_with_gcc",
        lambda result, *arguments: result,
        give(False),
    ),
    Part(
        "transformation",
        "forward and backward jumps",
        "frontend.statements",
        "StatementReader._read_interval",
        always,
        refuse,
    ),
    *(
        Part("transformation", name, module, function, always, refuse)
        for name, module, function in (
            ("functions inlined", "frontend.calls", "CallReader._inline"),
            ("assertions of ACSL", "frontend.calls", "CallReader._read_acsl_assertion"),
            ("switch", "frontend.statements", "StatementReader._read_switch"),
            ("do once", "frontend.statements", "StatementReader._read_do_once"),
            ("pointers", "frontend.pointer_binding", "BindingReader.declare_pointer"),
            ("pointers as parameters", "frontend.pointer_binding", "BindingReader.bind_parameter"),
            ("pointers as results", "frontend.pointer_binding", "BindingReader.create_result"),
            ("targets by condition", "frontend.pointer_binding", "BindingReader._bind_conditional"),
            ("allocated memory", "frontend.aggregates", "AllocationReader._create_object"),
            ("structures", "frontend.aggregates", "_AggregateReader._select_field"),
            (
                "arrays of arrays",
                "frontend.aggregates",
                "_AggregateReader._read_multi_array_element",
            ),
        )
    ),
    Part(
        "transformation",
        "undefined functions",
        "frontend.calls",
        "CallReader._read_undefined_call",
        has_result,
        give(None),
    ),
    Part(
        "transformation",
        "attributes of gcc",
        "frontend.preprocessing.translation_phases",
        "_remove_attributes",
        lambda result, text: result != text,
        lambda function: lambda text: text,
    ),
)
"""The parts that are functions; sources of candidates and solvers have switches of their own."""


@contextmanager
def _without_solver(solver: str) -> Iterator[None]:
    shares = {
        difficulty: {name: share for name, share in solvers.items() if name != solver}
        for difficulty, solvers in esbmc._SOLVER_TIME_SHARES.items()
    }
    with patch.object(esbmc, "_SOLVER_TIME_SHARES", shares):
        yield


@contextmanager
def _without_encoding(attribute: str) -> Iterator[None]:
    original = houdini.Prover.__init__

    def build(self: houdini.Prover, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self._encodings = [
            encoding for encoding in self._encodings if not getattr(encoding._encoder, attribute)
        ]

    with patch.object(houdini.Prover, "__init__", build):
        yield


_ENCODINGS = {
    "bit vectors": "_has_bit_vectors",
    "wrapping integers": "_has_wrapping_integers",
}
"""Attributes of the encoders of machine integers."""


def _switch_off(kind: str, name: str, stack: ExitStack) -> None:
    """Switch off a part that is no source until the end of a stack."""
    if kind == "solver of ESBMC":
        stack.enter_context(_without_solver(name))
    elif kind == "encoding":
        stack.enter_context(_without_encoding(_ENCODINGS[name]))
    else:
        part = next(part for part in PARTS if part.name == name)
        stack.enter_context(part.replaced(part.without))


def _record_parts(stack: ExitStack, taken: set[tuple[str, str]]) -> None:
    """Record the parts that take part in a verification."""
    for part in PARTS:

        def build(function: Callable[..., Any], part: Part = part) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                result = function(*arguments, **options)
                if part.takes_part(result, *arguments):
                    taken.add((part.kind, part.name))
                return result

            return call

        stack.enter_context(part.replaced(build))

    def run_text(source: str, options: list[str], *arguments: Any) -> esbmc.EsbmcVerdict:
        verdict = original_run(source, options, *arguments)
        if verdict.answer is esbmc.EsbmcAnswer.SUCCESSFUL and "--loop-invariant-check" in options:
            taken.add(("solver of ESBMC", options[-1]))
        return verdict

    def assume(self: houdini.Encoding, candidate: houdini.Candidate) -> Any:
        for name, attribute in _ENCODINGS.items():
            if getattr(self._encoder, attribute):
                taken.add(("encoding", name))
        return original_assume(self, candidate)

    original_run, original_assume = esbmc.run_text, houdini.Encoding.encode_assumption
    stack.enter_context(patch.object(esbmc, "run_text", run_text))
    stack.enter_context(patch.object(houdini.Encoding, "encode_assumption", assume))


def _verify(file: Path, task: FileTask, off: tuple[str, str] | None, results: Connection) -> None:
    """Verify a program without a part; send the outcome and the parts that took part."""
    taken: set[tuple[str, str]] = set()
    with ExitStack() as stack:
        if off is None:
            _record_parts(stack, taken)
        elif off[0] == "source":
            sources = [source for source in task.sources if source != off[1]]
            task = replace(task, sources=sources)
        else:
            _switch_off(*off, stack)
        try:
            result = verify_file(file, task)
        except ProgramError:
            results.send((Outcome.UNSUPPORTED, []))
            return
    taken |= {("source", str(s)) for i in result.invariants for s in i.sources}
    # A violation needs none of the parts of a proof, and the other way round.
    unused = ("source", "encoding", "solver of ESBMC")
    if result.outcome is not Outcome.FALSE:
        unused = () if result.outcome is Outcome.VERIFIED else unused
        taken = {t for t in taken if t[0] != "violation"}
    results.send((result.outcome, sorted(t for t in taken if t[0] not in unused)))


def verify(
    file: Path, task: FileTask, off: tuple[str, str] | None = None
) -> tuple[Outcome, list[tuple[str, str]]]:
    """Verify a program in a process of its own, which memory or time may end."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_verify, args=(file, task, off, sender))
    process.start()
    sender.close()
    try:
        has_result = receiver.poll(_MAX_CLOCK_FACTOR * task.seconds)
        return receiver.recv() if has_result else (Outcome.KILLED, [])
    except EOFError:
        return Outcome.KILLED, []
    finally:
        process.kill()
        process.join()


def is_decided(outcome: Outcome) -> bool:
    """Return whether an outcome is a verdict."""
    return outcome in (Outcome.FALSE, Outcome.VERIFIED)


def measure(files: Sequence[Path], task: FileTask, max_reruns: int) -> list[dict[str, Any]]:
    """Return the number of verdicts of each part, and the programs that are lost without it."""
    users: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for file in files:
        start = time.monotonic()
        outcome, taken = verify(file, task)
        seconds = time.monotonic() - start
        print(json.dumps([file.stem, outcome, round(seconds, 1), taken]), flush=True)
        for part in taken if is_decided(outcome) else ():
            users[part].append(file)
    known = [("source", str(source)) for source in BUILTIN_SOURCES]
    known += [("encoding", name) for name in _ENCODINGS]
    known += [("solver of ESBMC", name) for name in ("--bitwuzla", "--boolector", "--z3")]
    known += [(part.kind, part.name) for part in PARTS]
    rows = []
    for part in known:
        lost = []
        if len(users[part]) <= max_reruns:
            lost = [f for f in users[part] if not is_decided(verify(f, task, part)[0])]
            print(json.dumps([*part, len(users[part]), [f.stem for f in lost]]), flush=True)
        rows.append(_build_row(part, len(users[part]), lost, max_reruns))
    return rows


def _build_row(
    part: tuple[str, str], verdicts: int, lost: Sequence[Path], max_reruns: int
) -> dict[str, Any]:
    names = [file.stem for file in lost]
    if len(names) > _MAX_NAMES:
        names[_MAX_NAMES:] = ["…"]
    return {
        "kind": part[0],
        "part": part[1].removeprefix("--"),
        "verdicts": verdicts,
        "lost": len(lost) if verdicts <= max_reruns else None,
        "names": " ".join(names),
    }


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows to the record, in place of those of the same set and semantics."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    if path.exists():
        old = pd.read_csv(path, dtype={"commit": str, "names": str, "lost": "Int64"})
        keys = set(zip(table["set"], table["semantics"], strict=True))
        keep = [key not in keys for key in zip(old["set"], old["semantics"], strict=True)]
        table = pd.concat([old[keep], table])
    table = table.astype({"lost": "Int64"})
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial_file:
        table.to_csv(partial_file, index=False, float_format="%g")


def main(arguments: list[str] | None = None) -> None:
    """Measure a set of programs and record what each part decides."""
    parser = argparse.ArgumentParser(prog="ablation.py", description=__doc__)
    parser.add_argument("set", help="name of the set on the page")
    parser.add_argument("directories", type=Path, nargs="+", help="directories of C files")
    parser.add_argument("--semantics", choices=list(Semantics), type=Semantics, required=True)
    parser.add_argument("--seconds", type=float, default=5, help="time limit of each program")
    parser.add_argument("--reruns", type=int, default=40, help="maximum number for each part")
    parser.add_argument("--output", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    files = [file for folder in options.directories for file in find_program_files(folder)]
    rows = measure(files, FileTask(options.semantics, seconds=options.seconds), options.reruns)
    key = {"set": options.set, "semantics": str(options.semantics), "seconds": options.seconds}
    commit = read_commit()
    write_rows([key | row | {"commit": commit} for row in rows], options.output)


if __name__ == "__main__":
    sys.exit(main())
