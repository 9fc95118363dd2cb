"""Runs whose values are chosen again where an assumption ends them."""

import pytest

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import NondetValue, run_program
from loop_invariants.ir.expressions import Semantics

MANY = parse_program(
    """int main() {
        int a, b, c, d, e, f, x = __VERIFIER_nondet_int(), n;
        assume(a == x); assume(b == a && c == 17); assume(7919 == d);
        assume(e >= 40000); assume(f < e && !(f <= 30000)); assume(n == x || n == 104729);
        while (a < e) { a = a + 20000; }
        assert(f != 30001);
    }""",
    "many",
)


@pytest.mark.parametrize("semantics", Semantics)
def test_assumptions_that_chance_does_not_satisfy_are_satisfied(semantics):
    """Runs come by the loop behind eight assumptions, in states in which each of them holds."""
    states = run_program(MANY, semantics, runs=50).head_states[0]
    assert len(states) > 20
    for s in states:
        assert s["c"] == 17
        assert s["d"] == 7919
        assert s["b"] == s["x"]
        assert s["e"] >= 40000
        assert 30000 < s["f"] < s["e"]
        assert s["n"] in (s["x"], 104729)
    assert len({s["x"] for s in states if s["a"] == s["x"]}) > 5


def test_the_run_that_fails_is_told_with_the_values_that_it_drew_at_last():
    """The trace of a mended run has the drawn values that its assumptions demand."""
    failure = run_program(MANY, Semantics.INTEGERS).failure
    drawn = {event.name: event.value for event in failure.trace if isinstance(event, NondetValue)}
    assert (drawn["f"], drawn["c"], drawn["d"]) == (30001, 17, 7919)
    assert drawn["a"] == drawn["b"]


def test_a_value_that_is_chosen_again_is_one_of_its_type():
    """Where an assumption asks for more than a type holds, a run ends there, and nothing fails."""
    text = """int main() {
        unsigned char c; int i; long l;
        assume(l == 2147483648); assume(c == i); assume(i == 256 || l == i);
        while (i) { i = 0; }
        assert(0);
    }"""
    for semantics in Semantics:
        runs = run_program(parse_program(text, "narrow"), semantics)
        assert runs.head_states[0] == ()
        assert runs.failure is None
