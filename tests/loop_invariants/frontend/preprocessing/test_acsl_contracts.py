"""Contracts of `main` in remarks: what they give its parameters, and what is refused of them."""

import pytest

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.simulation import run_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.houdini import Candidate, Prover

APART = "/*@\n  @ requires n > 0;\n  @ requires \\separated(a+(0..n-1), b+(0..n-1));\n  @*/\n"


def test_arrays_are_as_long_as_the_contract_says() -> None:
    """An element behind the last one is out of range, and the last one is not."""
    for index, fails in (("n - 1", False), ("n", True)):
        body = f"int main(int *a, int *b, int n) {{ a[{index}] = 1; b[0] = 2; }}\n"
        program = parse_program(APART + body, "case")
        for semantics in Semantics:
            assert (run_program(program, semantics).failure is not None) == fails
            assert Prover(program, semantics, seconds=20).entails_assertions(()) != fails


def test_arrays_that_a_contract_sets_apart_are_apart() -> None:
    """What is stored in one array is not seen in the other; nothing else is known of them."""
    body = "int main(int a[], int *b, int n) { a[0] = 1; b[0] = 2; "
    apart = parse_program(APART + body + "/*@ assert a[0] == 1; */ }", "case")
    assert Prover(apart, Semantics.INT32).entails_assertions(())
    known = parse_program(APART + body + "/*@ assert b[n - 1] == 2; */ }", "case")
    assert run_program(known, Semantics.INT32).failure is not None


def test_what_is_required_is_assumed() -> None:
    """No run begins outside of the contract, whose sums are those of mathematical integers."""
    contract = "//@ requires x + y > 2147483647; requires x < 2147483647;\n"
    body = "int main(int x, int y) { //@ assert y > 0;\n }"
    program = parse_program(contract + body, "case")
    assert Prover(program, Semantics.INT32).entails_assertions(())
    assert run_program(program, Semantics.INT32).failure is None


def test_a_loop_over_the_arrays_is_proven() -> None:
    """Invariants over such arrays are proven as over others."""
    body = (
        "int main(int *a, int *b, int n) {\nfor (int i = 0; i < n; i++) { a[i] = i; }\n"
        "//@ assert a[0] == 0;\n}"
    )
    program = parse_program(APART + body, "case")
    prover = Prover(program, Semantics.INT32, seconds=20)
    stated = tuple(
        Candidate(0, parse_condition(text, program.loops[0].scope, program.types))
        for text in ("i >= 0", "i == 0 || a[0] == 0")
    )
    assert prover.find_inductive_subset(stated) == stated
    assert prover.entails_assertions(stated)


@pytest.mark.parametrize("sum_", ["x * y * x", "x * y + x * y", "2 * x - x - x"])
def test_products_in_remarks_are_those_of_mathematical_integers(sum_: str) -> None:
    """A product of more than 64 bits keeps all its bits."""
    contract = "//@ requires x > 2000000000; requires y > 2000000000;\n"
    body = f"int main(int x, int y) {{ //@ assert {sum_} >= 0;\n }}"
    program = parse_program(contract + body, "case")
    assert run_program(program, Semantics.INT32).failure is None


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        ("requires \\separated(a+(0..n-1), b+(0..n-1));", "the length of the array 'a' of main"),
        ("requires n > 0; requires \\valid(a+(0..n-1)); requires \\valid(b+(0..n-1));",
         "arrays of main that may be the same"),
        ("requires n > 0; requires \\separated(a+(1..n-1), b+(0..n-1));", "the length of"),
        ("requires n > -1; requires \\separated(a+(0..n-1), b+(0..n-1));", "the length of"),
        ("requires n > 0 ==> n > 1;", "this ACSL contract with parameters of main"),
        ("requires \\forall int k; a[k] > 0;", "this ACSL contract with parameters of main"),
        ("behavior one: requires n > 0;", "this ACSL contract with parameters of main"),
        ("requires a[0] > 0;", "an index of 'a', which is not an array in scope,"),
    ],
)  # fmt: skip
def test_contracts_that_are_refused(contract: str, reason: str) -> None:
    """A contract that is not understood wholly is refused, as are arrays of an open length."""
    with pytest.raises(UnsupportedProgram, match=reason):
        parse_program(f"/*@ {contract} */\nint main(int *a, int *b, int n) {{ a[0] = 1; }}", "case")


def test_a_contract_elsewhere_is_none_of_main() -> None:
    """A remark that requires something, but does not stand right before `main`, is refused."""
    for text in ("//@ requires n > 0;\n//@ requires n < 9;\n", "//@ requires n > 0;\nint x;\n"):
        with pytest.raises(UnsupportedProgram, match="this ACSL contract"):
            parse_program(text + "int main(int n) { }", "case")
