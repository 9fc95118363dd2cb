"""Random runs of compiled texts: violations after very many iterations are found and confirmed."""

import pytest
from helpers.compiled import needs_gcc

from loop_invariants.frontend.original_text import OriginalText, build_original_text
from loop_invariants.frontend.translation_unit import SV_COMP
from loop_invariants.ir.expressions import Semantics
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.compiled_runs import find_violating_inputs, replay_with_gcc
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import Outcome

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
    "a loop in a loop": (
        "for (int i = 0; i < 1000000; i++) { int j = 0; while (j < 3) { j++; y++; } } "
        "__VERIFIER_assert(y != 3000000);",
        list(Semantics),
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "semantics"), [(name, s) for name, (_, over) in LONG.items() for s in over]
)
def test_a_violation_after_very_many_iterations_is_found(name, semantics):
    """The inputs violate the assertion again in a run with all sanitizers."""
    text = original(LONG[name][0])
    inputs = find_violating_inputs(text, semantics, 10)
    assert inputs is not None
    assert replay_with_gcc(text, inputs, semantics)


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


@pytest.mark.few(3)
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


def test_over_integers_a_run_with_an_overflow_confirms_nothing():
    """The same inputs violate the assertion over machine integers only."""
    text = original("y = n + 1; __VERIFIER_assert(y > n);")
    inputs = RunInputs((2147483647,))
    assert replay_with_gcc(text, inputs, Semantics.INT32)
    assert not replay_with_gcc(text, inputs, Semantics.INTEGERS)


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
