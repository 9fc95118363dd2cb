"""Inputs that Z3 finds along the paths of runs: rare branches are reached, and states recorded."""

import pytest

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.path_inputs import find_path_inputs
from loop_invariants.verification.verifier import VerificationLimits, Verifier

HEAD = "#include <assert.h>\nint __VERIFIER_nondet_int(void);\nlong __VERIFIER_nondet_long(void);\n"

RARE = {
    "an equality": "int m = __VERIFIER_nondet_int(); assert(m - 400000000 != 16041631);",
    "two equalities": (
        "int a = __VERIFIER_nondet_int(), b = __VERIFIER_nondet_int(); "
        "if (a == 3 * b + 7) if (b == 1234567) assert(0);"
    ),
    "an index": (
        "int a[2] = {0}; int k = __VERIFIER_nondet_int(); if (k >= 0 && k < 2) { a[k] = "
        "__VERIFIER_nondet_int(); assert(a[1] != 987654); }"
    ),
    "an index out of range": (
        "int a[5] = {0}; int k = __VERIFIER_nondet_int(); if (k > 777000 && k < 777009) a[k] = 1;"
    ),
    "a divisor": "int k = __VERIFIER_nondet_int(); int y = 5 / (k - 7654321); assert(y < 9);",
    "the right operand": (
        "int k = __VERIFIER_nondet_int(); if (k > 500000 && __VERIFIER_nondet_int() == k + 2) "
        "assert(0);"
    ),
    "a choice": (
        "int k = __VERIFIER_nondet_int(); int y = k == 424242 ? __VERIFIER_nondet_int() : 1; "
        "assert(y != 535353);"
    ),
    "an assumption": (
        "int k = __VERIFIER_nondet_int(); __VERIFIER_assume(k * 3 == 1234569 * 3); assert(k < 0);"
    ),
    "an iteration": (
        "int x = 0; for (int i = 0; i < 4; i++) if (__VERIFIER_nondet_int() == 1000 * i + 77) x++; "
        "assert(x != 4);"
    ),
    "a wide number": "long m = __VERIFIER_nondet_long(); assert(m != 123456789012345);",
    "an unset variable": "int u; if (u + 5 == 600005) assert(0);",
    "an unset element": "int a[3]; if (a[1] == 600005) assert(0);",
}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("kind", RARE)
def test_rare_inputs_are_found(kind, semantics):
    """A violation that random values miss is found in a run with the values of a solution."""
    made = parse_program(f"{HEAD}int main(void) {{ {RARE[kind]} return 0; }}", "p")
    assert Verifier(made, semantics, VerificationLimits(seconds=60)).runs.failure is not None


@pytest.mark.parametrize("semantics", Semantics)
def test_solved_inputs_add_states(semantics):
    """The states after a rare branch refute candidates that no random run refutes."""
    made = parse_program(
        f"{HEAD}int main(void) {{ int k = __VERIFIER_nondet_int(); int x = 0; "
        "if (k - 400000000 == 16041631) x = 7; for (int i = 0; i < 3; i++) x = x; assert(x < 9); }",
        "p",
    )
    random_runs = run_program(made, semantics)
    assert {state["x"] for state in random_runs.head_states[0]} == {0}
    runs = Verifier(made, semantics).runs
    assert {state["x"] for state in runs.head_states[0]} == {0, 7}


def test_a_program_without_inputs_has_one_path():
    """Without an input no decision has another side, so that the search ends at once."""
    made = parse_program(
        f"{HEAD}int main(void) {{ int i = 0; while (i < 5) i++; assert(i); }}", "p"
    )
    assert len(list(find_path_inputs(made, Semantics.INT32, 60.0))) <= 1


@pytest.mark.long
def test_an_endless_search_ends_in_time():
    """A loop with an input in each iteration has more paths than there is time."""
    made = parse_program(
        f"{HEAD}int main(void) {{ int x = 0; while (__VERIFIER_nondet_int()) x ^= "
        "__VERIFIER_nondet_int() * x + 1; assert(x >= 0 || x < 0); }",
        "p",
    )
    assert len(list(find_path_inputs(made, Semantics.INT32, 1.0))) < 100
