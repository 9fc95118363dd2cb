"""Counterexamples of failed obligations: their values are what the program says, by hand."""

import pytest

from loop_invariants.frontend.expressions import parse_candidate
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.repair.counterexamples import (
    CounterexampleFinder,
    FailedObligation,
    Obligation,
)
from loop_invariants.verification.houdini import Candidate

GROW = """\
int main(void) {
    int n = __VERIFIER_nondet_int(); int x = 1; int y = 0; int i = 0;
    __VERIFIER_assume(n >= 0 && n <= 9);
    while (i < n) { x = x + y; y = y + 2; i = i + 1; }
    __VERIFIER_assert(x >= 1);
}
"""
TWO = """\
int main(void) {
    int i = 0; int j = 0;
    while (i < 8) i = i + 1;
    while (j < i) j = j + 1;
    __VERIFIER_assert(j == 8);
}
"""


def diagnosed(source: str, semantics: Semantics, *texts: str, loop: int = 0):
    """A diagnosis of a program, and texts as candidates of its loop."""
    program = parse_program(source, "program")
    heads = run_program(program, semantics).head_states
    scope = program.loops[loop].scope
    candidates = [Candidate(loop, parse_candidate(t, scope, program.types)) for t in texts]
    return CounterexampleFinder(program, semantics, heads), candidates


def grown(values: dict[str, int], semantics: Semantics) -> dict[str, int]:
    """The values after a round of the loop of GROW."""
    after = values | {"x": values["x"] + values["y"], "y": values["y"] + 2, "i": values["i"] + 1}
    if semantics is Semantics.INTEGERS:
        return after
    return {name: (value + 2**31) % 2**32 - 2**31 for name, value in after.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
def test_what_a_round_breaks_is_shown_before_and_after(semantics):
    """Of a condition that no run refutes the state is told in which a round makes it false."""
    diagnosis, (candidate,) = diagnosed(GROW, semantics, "x >= 1")
    failed = diagnosis.find_failed_obligation(candidate, ())
    assert failed.obligation is Obligation.STEP
    assert failed.values["x"] >= 1
    assert failed.values["i"] < failed.values["n"]
    assert failed.values_after == grown(dict(failed.values), semantics)
    assert failed.values_after["x"] < 1
    assert failed.describe().startswith("a round may break x >= 1: true with i = ")


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
def test_what_is_proven_excludes_counterexamples(semantics):
    """With the invariants that are proven a state must agree, and none may be left."""
    diagnosis, (candidate, known, both) = diagnosed(
        GROW, semantics, "x >= 1", "y == 2 * i", "i >= 0 && i <= n && n <= 9 && y == 2 * i"
    )
    failed = diagnosis.find_failed_obligation(candidate, [known])
    y, i = failed.values["y"], failed.values["i"]
    assert (y - 2 * i) % (1 if semantics is Semantics.INTEGERS else 2**32) == 0
    if semantics is Semantics.INTEGERS:
        assert y == 2 * i
        assert diagnosis.find_failed_obligation(candidate, [both]) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
def test_a_run_refutes_with_a_state_that_it_reached(semantics):
    """A condition that a run makes false is told with a state of that run."""
    diagnosis, (candidate,) = diagnosed(GROW, semantics, "x < 7")
    failed = diagnosis.find_failed_obligation(candidate, ())
    assert failed.obligation is Obligation.RUN
    i = failed.values["i"]
    assert dict(failed.values) == {
        "n": failed.values["n"],
        "x": 1 + i * (i - 1),
        "y": 2 * i,
        "i": i,
    }
    assert failed.values["x"] >= 7


def test_a_beginning_that_no_run_showed_is_found():
    """A condition that is false for one input in billions fails where the loop begins."""
    source = GROW.replace("n >= 0 && n <= 9", "n >= 0").replace("i < n", "i < n && i < 9")
    diagnosis, (candidate,) = diagnosed(source, Semantics.INTEGERS, "n != 123456789")
    failed = diagnosis.find_failed_obligation(candidate, ())
    assert failed.obligation is Obligation.BASE
    assert dict(failed.values) == {"n": 123456789, "x": 1, "y": 0, "i": 0}
    assert failed.describe().startswith(
        "n != 123456789 is no invariant: it is false where the loop b"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
def test_a_use_is_told_of_every_loop_on_the_way(semantics):
    """A violation that invariants allow has a state at each loop, small where small ones exist."""
    diagnosis, _ = diagnosed(TWO, semantics)
    first, second = diagnosis.find_violation(())
    assert [one.loop for one in (first, second)] == [0, 1]
    assert {one.obligation for one in (first, second)} == {Obligation.USE}
    assert first.values["i"] >= 8
    assert second.values["j"] >= second.values["i"] == first.values["i"]
    assert second.values["j"] != 8
    assert all(abs(value) <= 9 for value in first.values.values())


def test_what_suffices_has_no_counterexample():
    """Where the invariants imply the assertions, nothing is told."""
    diagnosis, outer = diagnosed(TWO, Semantics.INTEGERS, "i <= 8")
    _, inner = diagnosed(TWO, Semantics.INTEGERS, "j <= i", "i == 8", loop=1)
    assert diagnosis.find_violation([*outer, *inner]) == ()


def test_no_more_variables_are_told_than_a_person_reads():
    """Of a loop with many variables those are told that the program's conditions name."""
    names = [f"v{n}" for n in range(30)]
    declared = " ".join(f"int {name} = 0;" for name in names)
    source = f"int main(void) {{ {declared} while (v0 < 3) v0 = v0 + 1; assert(v0 == v29); }}"
    diagnosis, _ = diagnosed(source, Semantics.INTEGERS)
    (failed,) = diagnosis.find_violation(())
    assert set(failed.values) >= {"v0", "v29"}
    assert len(failed.values) == 8


def test_values_are_told_in_one_line():
    """What is told has no line break, so that it is one remark in a prompt."""
    diagnosis, candidates = diagnosed(GROW, Semantics.INTEGERS, "x < 7", "x >= 1")
    told = [
        *(diagnosis.find_failed_obligation(c, ()) for c in candidates),
        *diagnosis.find_violation(()),
    ]
    assert len(told) == 3
    assert all(isinstance(one, FailedObligation) and "\n" not in one.describe() for one in told)
