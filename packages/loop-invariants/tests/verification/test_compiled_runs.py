"""Random runs of compiled texts: violations after very many iterations are found and confirmed."""

import pytest
from helpers.compiled import needs_gcc

from loop_invariants.frontend.original_text import OriginalText, build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, parse_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.compiled_runs import find_violating_inputs, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import Outcome
from loop_invariants.verification.violations import find_violation

pytestmark = needs_gcc

HEADER = """int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int condition);
void __VERIFIER_assume(int condition);
int main(void) { int n = __VERIFIER_nondet_int(), x = 0, y = 0;
"""


def original(body: str, required_property: Property = Property.ASSERT) -> OriginalText:
    return build_original_text("p", f"{HEADER}{body} }}", required_property, SV_COMP, {})


LONG = {
    "a sum wraps around": (
        "while (x < n) { y = y + x; x++; } __VERIFIER_assert(y >= 0);",
        [Semantics.INT32],
    ),
    "a counter wraps around": (
        "__VERIFIER_assume(n > 0 && n < 100); while (n > 0) n = n + 3; __VERIFIER_assert(0);",
        [Semantics.INT32],
    ),
    "a narrow counter": (
        "unsigned char c = 0; while (x < 100000) { c++; x++; } __VERIFIER_assert(c != 160);",
        list(Semantics),
    ),
    "rounds in turn": (
        "while (x < 3000001) { if (x % 2 == 0) y++; else n = y; x++; } "
        "__VERIFIER_assert(y != 1500001);",
        list(Semantics),
    ),
    "a wide number": (
        "long w = 0; while (w < 4000000) w = w + 2; __VERIFIER_assert(w != 4000000);",
        list(Semantics),
    ),
    "a loop in a loop": (
        "for (int i = 0; i < 1000000; i++) { int j = 0; while (j < 3) { j++; y++; } } "
        "__VERIFIER_assert(y != 3000000);",
        list(Semantics),
    ),
}


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "semantics"), [(name, s) for name, (_, over) in LONG.items() for s in over]
)
def test_a_violation_after_very_many_iterations_is_found(name, semantics):
    """The inputs violate the assertion again in a run with all sanitizers."""
    text = original(LONG[name][0])
    program = parse_program(text.source, "p")
    found = find_violation(text, semantics, program, 10)
    assert found is not None
    assert found.outcome is Outcome.FALSE


@pytest.mark.long
def test_an_overflow_after_very_many_iterations_is_found():
    """The sum exceeds its type after 65,536 rounds, although the program never uses it."""
    text = original("while (x < n) { x++; y += x; }", Property.NO_OVERFLOW)
    program = parse_program(text.source, "p", required_property=Property.NO_OVERFLOW)
    assert find_violation(text, Semantics.INT32, program, 10) is not None


@pytest.mark.long
def test_variables_without_a_value_are_inputs():
    """No input is a call: the sum is negative for some values of the limit that nothing sets."""
    text = original("int m; while (x < m) { y = y + x; x++; } __VERIFIER_assert(y >= 0);")
    found = find_violation(text, Semantics.INT32, parse_program(text.source, "p"), 10)
    assert found is not None
    assert found.outcome is Outcome.FALSE


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ("long w = 4294967296; __VERIFIER_assert(w != 0);", Property.ASSERT),
        ("int a[3] = {0}; __VERIFIER_assume(n >= 0); x = a[n]; while (y < 9) y++;", Property.REACH),
        ("int a[3] = {0}; __VERIFIER_assume(n >= 0); x = a[n];", Property.NO_OVERFLOW),
        ("int *p = &x; if (n) p = 0; y = *p;", Property.REACH),
    ],
)
def test_what_the_property_ignores_is_no_violation(body, asked):
    """An index or a pointer out of range violates assertions only; a wide number stays true."""
    text = original(body, asked)
    program = parse_program(text.source, "p", required_property=asked)
    assert find_violation(text, Semantics.INT32, program, 0.3) is None


HOLDS = {
    "a sum of mathematical integers": (
        "while (x < n) { y = y + x; x++; } __VERIFIER_assert(y >= 0);",
        Semantics.INTEGERS,
    ),
    "a failure behind an index out of range": (
        "int a[3] = {0}; a[n] = 1; if (n > 2) __VERIFIER_assert(0);",
        Semantics.INT32,
    ),
    "a failure behind an assumption": (
        "__VERIFIER_assume(x > n && x < n); __VERIFIER_assert(0);",
        Semantics.INT32,
    ),
    "a variable without a value": (
        "int u; y = u; while (x < 100) x++; __VERIFIER_assert(u == y);",
        Semantics.INT32,
    ),
    "an endless loop": ("while (1) x++; __VERIFIER_assert(0);", Semantics.INT32),
    "endless output": (
        '__VERIFIER_nondet_int(); while (1) printf("%d", x); __VERIFIER_assert(0);',
        Semantics.INT32,
    ),
    "endless input": (
        "while (1) x = __VERIFIER_nondet_int(); __VERIFIER_assert(0);",
        Semantics.INT32,
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", HOLDS)
def test_a_run_without_violation_has_no_inputs(name):
    """An overflow, a value out of range, an assumption and a time limit end a run."""
    body, semantics = HOLDS[name]
    assert find_violating_inputs(original(body), semantics, 0.3) is None


def test_a_status_of_the_harness_is_not_confirmed(tmp_path):
    """A program that exits like a violating run is not false, since the second run has a token."""
    file = tmp_path / "p.c"
    file.write_text(f"void exit(int);\n{HEADER} if (n > 5) exit(86); __VERIFIER_assert(x == 0); }}")
    result = verify_file(file, FileTask(Semantics.INT32, seconds=10))
    assert result.outcome is Outcome.VERIFIED


def test_a_violation_after_a_jump_between_functions_is_found(tmp_path):
    """A run of `longjmp`, which no proof covers, has the line, kind and inputs of its violation."""
    file = tmp_path / "p.c"
    file.write_text(
        "#include <setjmp.h>\nstatic jmp_buf b;\n"
        "static void f(int x) { if (x > 9) longjmp(b, x); }\n"
        f"{HEADER}\n y = setjmp(b);\n __VERIFIER_assert(y == 0);\n f(n); }}"
    )
    violation = verify_file(file, FileTask(Semantics.INT32, seconds=10)).violation
    assert violation is not None
    assert (violation.kind, violation.line) == ("assertion", 9)
    assert violation.inputs[0] > 9


def test_over_integers_a_run_with_an_overflow_confirms_nothing():
    """The same inputs violate the assertion over machine integers only."""
    text = original("y = n + 1; __VERIFIER_assert(y > n);")
    inputs = RunInputs((2147483647,))
    assert replay_with_gcc(text, inputs, Semantics.INT32)
    assert not replay_with_gcc(text, inputs, Semantics.INTEGERS)


@pytest.mark.long
def test_a_shift_out_of_the_type_is_no_violation_over_integers():
    """The shifted number is negative over machine integers only."""
    text = original("__VERIFIER_assume(n >= 0); y = n << 2; __VERIFIER_assert(y >= n);")
    inputs = RunInputs((1 << 29,))
    assert replay_with_gcc(text, inputs, Semantics.INT32)
    assert not replay_with_gcc(text, inputs, Semantics.INTEGERS)
    negative = original("y = n << 2; __VERIFIER_assert(y > n);")
    assert replay_with_gcc(negative, RunInputs((-1,)), Semantics.INT32)
    assert not replay_with_gcc(negative, RunInputs((-1,)), Semantics.INTEGERS)


@pytest.mark.long
def test_a_conversion_is_no_violation_over_integers(tmp_path):
    """A `short` does not wrap around over mathematical integers, although the compiled one does."""
    file = tmp_path / "p.c"
    file.write_text(
        f"{HEADER} short s = 0; while (x < 200000) {{ s = s + 1; x++; }}"
        " __VERIFIER_assert(s == x); }"
    )
    result = verify_file(file, FileTask(Semantics.INTEGERS, seconds=10))
    assert result.outcome is not Outcome.FALSE
