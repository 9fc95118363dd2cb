"""Runs that make a round anew where it would end them, to come further than chance does."""

import pytest

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.machine import Machine
from loop_invariants.interpreter.simulation import HeadState, NondetValue, run_program
from loop_invariants.ir.expressions import Semantics

NONDET = "extern int __VERIFIER_nondet_int(void);\n"

ENDED_BY = {
    "an assumption": "__VERIFIER_assume(__VERIFIER_nondet_int() == 1 && x >= 0); x = x + 1;",
    "a stop": "if (__VERIFIER_nondet_int() != 1) abort(); x = x + 1;",
    "a return": "if (__VERIFIER_nondet_int() != 1) return 0; x = x + 1;",
    "a break": "if (__VERIFIER_nondet_int() != 1) break; x = x + 1;",
    "the last of many branches": "if (__VERIFIER_nondet_int()) break; "
    "if (__VERIFIER_nondet_int()) break; if (__VERIFIER_nondet_int()) break; "
    "x = x + 1;",
}


def made(body, end=""):
    return parse_program(
        f"{NONDET}int main(void) {{ int x = 0; while (__VERIFIER_nondet_int()) {{ {body} }}"
        f" {end} return 0; }}",
        "ways",
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("name", ENDED_BY)
def test_runs_come_far_through_rounds_that_mostly_end_them(name, semantics):
    """States behind 34 rounds are seen although most values lead out of each."""
    states = run_program(made(ENDED_BY[name]), semantics).head_states[0]
    assert {0, 1, 2, 3, 5, 8, 13, 21, 34} <= {state["x"] for state in states}


@pytest.mark.parametrize("name", ENDED_BY)
def test_what_fails_far_on_is_found_and_told(name):
    """The trace of a failure behind 20 such rounds has the draws of these rounds and no others."""
    program = made(ENDED_BY[name], end="assert(x < 20);")
    if name == "a return":  # which leaves the assertion out
        program = made(ENDED_BY[name] + " assert(x < 20);")
    failure = run_program(program, Semantics.INT32).failure
    heads = [event.values["x"] for event in failure.trace if isinstance(event, HeadState)]
    assert heads[:20] == list(range(20))
    values = iter([event.value for event in failure.trace if isinstance(event, NondetValue)])
    machine = Machine(program, Semantics.INT32, max_iterations=100)
    machine.draw, machine.on_head = lambda type_, name: next(values), lambda *told: None
    assert machine.run(dict.fromkeys(program.types, 0)) == failure.line
    assert next(values, None) is None


def test_a_round_that_draws_nothing_is_not_made_anew():
    """Where no other values can be drawn a run ends as it does, and nothing is repeated."""
    program = parse_program("int main(void) { int x = 0; while (x < 9) { x++; abort(); } }", "ends")
    runs = run_program(program, Semantics.INT32)
    assert [state["x"] for state in runs.head_states[0]] == [0]
    assert runs.failure is None


def test_arrays_are_as_they_were_before_a_round_is_made_anew():
    """What a round wrote before it was given up is not seen by the round in its place."""
    program = parse_program(
        NONDET
        + """int main(void) {
            int a[3] = {0, 0, 0}, i = 0;
            while (i < 30) {
                a[1] = a[1] + 1;
                __VERIFIER_assume(__VERIFIER_nondet_int() == 1);
                i = i + 1;
                assert(a[1] == i);
            }
        }""",
        "array",
    )
    runs = run_program(program, Semantics.INT32)
    assert runs.failure is None
    assert 21 in {state["i"] for state in runs.head_states[0]}
