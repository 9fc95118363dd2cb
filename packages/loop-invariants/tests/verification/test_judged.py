"""Verdicts on programs with every construct, beside gcc's sanitizers and ESBMC by itself."""

import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.compiled import needs_gcc
from helpers.judged_c import (
    OVERFLOW,
    TRAPPING,
    WRAPPING,
    Compiled,
    Condition,
    ExactProgram,
    JudgedProgram,
    Run,
    conditions,
    drawn,
)

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import Failure, NondetValue
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.esbmc import find_binary
from loop_invariants.verification.houdini import Prover
from loop_invariants.verification.result import Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

SEEN, MORE = 12, 80
"""Runs from which assertions are made, and those that then try a proof."""

# No check of shifts: that of ESBMC takes for a violation what only overflows, and gcc has one.
_ESBMC = ("--unwind", "6", "--no-unwinding-assertions", "--force-malloc-success", "--z3")
_ESBMC += ("--no-pointer-check", "--memlimit", "2g", "--timeout", "10")


@dataclass(frozen=True)
class Case:
    """A program with an assertion at its end, and its number among those compiled together."""

    program: JudgedProgram
    number: int
    condition: Condition
    text: str


def cases(
    kind: type[JudgedProgram],
    seeds: range,
    asked: Property,
    options: tuple[str, ...],
    folder: Path,
) -> tuple[Compiled, list[Case]]:
    """The programs of some seeds that are covered, compiled, and two assertions for each."""
    covered = []
    for seed in seeds:
        program = kind(seed)
        try:
            parse_program(program.with_end("1"), "case")
        except UnsupportedProgram:
            continue
        covered.append(program)
    compiled = Compiled(covered, asked, options, folder)
    source = random.Random(f"seen {seeds}")
    runs = compiled.runs([(n, drawn(source)) for n in range(len(covered)) for _ in range(SEEN)])
    made = []
    for number, program in enumerate(covered):
        seen = runs[number * SEEN : (number + 1) * SEEN]
        for condition in conditions(program, seen, source) or [Condition("1", [], False)]:
            text = program.with_end(condition.text)
            made.append(Case(program, number, condition, text))
    return compiled, made


def violates(run: Run, case: Case, asked: Property, semantics: Semantics) -> bool:
    """Whether a run of gcc's violates what is asked.

    Legitimate differences: over mathematical integers a run in which something overflows says
    nothing. Under `no-overflow` assertions only end runs, and so does what is out of range, but a
    proof must still show that it is not. A negative number that is shifted is no overflow of ours.
    """
    if run.report:
        if semantics is Semantics.INTEGERS:
            return not any(word in run.report for word in OVERFLOW)
        return "left shift of negative" not in run.report
    if asked is Property.NO_OVERFLOW:
        return False
    if run.failed:
        return True
    named = case.condition.text != "1"
    return named and run.values is not None and not case.condition.holds(run.values)


def inputs_of(case: Case, failure: Failure) -> tuple[int, ...]:
    """What a failing run of ours draws, the parameter of `main` first."""
    events = failure.trace
    named = [
        e.value for e in events if isinstance(e, NondetValue) and e.name == case.program.parameter
    ]
    values = [e.value for e in events if isinstance(e, NondetValue) and e.name == ""]
    return ((named or [0])[0], *values[:4000])


def esbmc_fails(text: str, asked: Property, folder: Path) -> bool:
    """Whether ESBMC finds a violation in the text as it was written, within few rounds."""
    (folder / "alone.c").write_text(text)
    options = ("--overflow-check",) if asked is Property.NO_OVERFLOW else ()
    done = subprocess.run(
        [find_binary(), "alone.c", *_ESBMC, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return re.search(r"^VERIFICATION FAILED", done.stdout + done.stderr, re.MULTILINE) is not None


def differences(
    kind: type[JudgedProgram],
    seeds: range,
    semantics: Semantics,
    asked: Property,
    folder: Path,
    told: Counter,
) -> Iterator[str]:
    """Verdicts that gcc or ESBMC contradicts; `told` counts the verdicts."""
    wrapping = semantics is Semantics.INT32 and asked is not Property.NO_OVERFLOW
    options = WRAPPING if wrapping else TRAPPING
    compiled, made = cases(kind, seeds, asked, options, folder)
    for case in made:
        name = f"{kind.__name__}({case.program.seed}) {semantics} {asked}\n{case.text}"
        try:
            program = parse_program(case.text, "case", required_property=asked)
            verifier = Verifier(program, semantics, VerificationLimits(seconds=1, runs=60))
        except UnsupportedProgram:
            told["refused"] += 1
            continue
        verification = verifier.verify({})
        outcome = verification.outcome
        told[outcome] += 1
        if outcome is Outcome.FALSE:
            inputs = inputs_of(case, verification.failure)
            run = compiled.runs([(case.number, inputs)])[0]
            overflowed = not wrapping and any(word in run.report for word in OVERFLOW)
            agreed = violates(run, case, asked, semantics) or overflowed
            if semantics is Semantics.INTEGERS:
                # Mathematical inputs may be such that gcc's are others.
                agreed = agreed or any(not -(2**31) <= value < 2**31 for value in inputs)
            elif asked is Property.NO_OVERFLOW:
                # gcc takes `x + x != 1` for true, and never adds.
                agreed = agreed or esbmc_fails(case.text, asked, folder)
            if not agreed:
                yield f"false, but {run} of {name}"
        alone = outcome is Outcome.VERIFIED
        if outcome is Outcome.FALSE:
            # The proof by itself, as if no run had shown it.
            alone = Prover(program, semantics, seconds=0.2).entails_assertions(())
            if alone:
                yield f"proven, but a run of ours fails: {name}"
        if outcome is Outcome.VERIFIED:
            source = random.Random(f"more {case.program.seed}")
            runs = compiled.runs([(case.number, drawn(source)) for _ in range(MORE)])
            bad = [run for run in runs if violates(run, case, asked, semantics)]
            if bad:
                yield f"verified, but {bad[0]} of {name}"
            # ESBMC has other numbers than `integers`, and takes `--x` of a `short` for an overflow.
            if wrapping:
                told["asked ESBMC"] += 1
                if esbmc_fails(case.text, asked, folder):
                    yield f"verified, but ESBMC fails: {name}"


ASKED = [
    (JudgedProgram, Semantics.INT32, Property.ASSERT),
    (ExactProgram, Semantics.INTEGERS, Property.ASSERT),
    (JudgedProgram, Semantics.INT32, Property.REACH),
    (JudgedProgram, Semantics.INT32, Property.NO_OVERFLOW),
]


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize(("kind", "semantics", "asked"), ASKED)
def test_neither_gcc_nor_esbmc_contradicts_a_verdict(kind, semantics, asked, tmp_path):
    """No run that a sanitizer reports, and no violation that ESBMC finds, is of what is proven."""
    told: Counter = Counter()
    # no-overflow has so many obligations that a few programs take as long
    seeds = range(1000, 1006 if asked is Property.NO_OVERFLOW else 1012)
    assert not list(differences(kind, seeds, semantics, asked, tmp_path, told))
    assert told[Outcome.VERIFIED] + told[Outcome.FALSE] > 3
