"""Quantified candidates about elements are found, and only true ones lead to verdicts."""

import pytest
from helpers.marks import long

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.generation.array_templates import instantiate_templates
from loop_invariants.ir.expressions import Quantified, Semantics, format_c, iter_subexpressions
from loop_invariants.verification.result import CandidateSource, Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

DECLARED = "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int);\n"
START = DECLARED + "int main(void) { int n = __VERIFIER_nondet_int(); if (n <= 0) return 0; int i; "
CHECK = "for (i = 0; i < n; i++) __VERIFIER_assert("
each_semantics = pytest.mark.parametrize("semantics", Semantics)


def proposed(text, loop=0):
    program = parse_program(text, "elements")
    return [format_c(e) for e in instantiate_templates(program).get(loop, ())]


def spans(low, high, body):
    return f"__ESBMC_forall(&k, (({low}) || ({high})) || ({body}))"


WRITES = {
    "up": ("for (i = 0; i < n; i++) a[i] = 7;", spans("k < 0", "k >= i", "a[k] == 7")),
    "from the second on": (
        "for (i = 1; i < n; i++) a[i] = i - 1;",
        spans("k < 1", "k >= i", "a[k] == (k - 1)"),
    ),
    "down": (
        "for (i = n - 1; i >= 0; i--) a[i] = n;",
        spans("k <= i", "k > (n - 1)", "a[k] == n"),
    ),
    "down, moved first": (
        "i = n; while (i > 0) { i--; a[i] = 1; }",
        spans("k <= (i - 1)", "k > (n - 1)", "a[k] == 1"),
    ),
    "from behind": (
        "for (i = 0; i < n; i++) a[n - 1 - i] = i;",
        spans("k <= ((n - i) - 1)", "k > (n - 1)", "a[k] == ((n - k) - 1)"),
    ),
    "every second one": (
        "for (i = 0; i < n; i = i + 2) a[i] = 8;",
        spans("k < 0", "k >= i", "(((i - k) % 2) != 0) || (a[k] == 8)"),
    ),
    "two in a round": (
        "for (i = 0; i < n; i++) { a[2 * i] = 8; a[2 * i + 1] = 8; }",
        spans("k < 0", "k >= (2 * i)", "a[k] == 8"),
    ),
    "by a second counter": (
        "int j = 5; for (i = 0; i < n; i++) { a[i] = j; j = j + 2; }",
        spans("k < 0", "k >= i", "a[k] == ((2 * k) + 5)"),
    ),
    "one of two": (
        "for (i = 0; i < n; i++) { if (i < 9) a[i] = 3; else a[i] = 4; }",
        spans("k < 0", "k >= i", "((k < 9) && (a[k] == 3)) || ((k >= 9) && (a[k] == 4))"),
    ),
    "any of two": (
        "for (i = 0; i < n; i++) { if (__VERIFIER_nondet_int()) a[i] = 3; else a[i] = 4; }",
        spans("k < 0", "k >= i", "a[k] <= 4"),
    ),
    "what was drawn": (
        "for (i = 0; i < n; i++) { b[i] = __VERIFIER_nondet_int(); a[i] = b[i] + 1; }",
        spans("k < 0", "k >= i", "a[k] == (b[k] + 1)"),
    ),
}


@pytest.mark.parametrize("way", WRITES)
def test_what_a_loop_writes_is_said_of_all_elements_behind_it(way):
    """Whatever way the counter goes, the span ends at it and the value is one of the index."""
    text, wanted = WRITES[way]
    assert wanted in proposed(f"{START} int a[n], b[n]; {text} }}")


def test_what_is_ahead_is_as_before_and_what_is_behind_is_changed():
    """An element that grows is described by what an earlier loop wrote."""
    text = "for (i = 0; i < n; i++) a[i] = 7; for (i = 0; i < n; i++) a[i] = a[i] + i;"
    found = proposed(f"{START} int a[n]; {text} }}", loop=1)
    assert spans("k < i", "k >= n", "a[k] == 7") in found
    assert spans("k < 0", "k >= i", "a[k] == (k + 7)") in found


def test_the_bound_variable_is_no_name_of_the_program():
    """A name that the text uses for anything would be captured where it is declared anew."""
    text = "int k(void); int f(int j) { return j; }" + START
    text += "int a[n]; for (i = 0; i < n; i++) { a[i] = f(3); k(); } }"
    (first, *_) = instantiate_templates(parse_program(text, "names"))[0]
    assert {e.variable for e in iter_subexpressions(first) if isinstance(e, Quantified)} == {"p"}


def test_without_arrays_nothing_is_proposed():
    """A program of integers alone costs nothing."""
    assert (
        instantiate_templates(parse_program(f"{START} for (i = 0; i < n; i++); }}", "none")) == {}
    )


PROGRAMS = {
    "copied": (
        "int a[n], b[n]; for (i = 0; i < n; i++) a[i] = __VERIFIER_nondet_int();"
        "for (i = 0; i < n; i++) b[i] = a[i];" + CHECK + "{});",
        ("b[i] == a[i]", "b[i] == a[0]"),
    ),
    "changed again": (
        "int a[n]; for (i = 0; i < n; i++) a[i] = 1;"
        "for (i = 0; i < n; i++) if (a[i] == 1) a[i] = a[i] + 4; else a[i] = 0;" + CHECK + "{});",
        ("a[i] == 5", "a[i] == 0"),
    ),
    "downwards": (
        "int a[n]; for (i = n - 1; i >= 0; i--) a[i] = i + 3;" + CHECK + "{});",
        ("a[i] - i == 3", "a[i] - i == 4"),
    ),
    "largest": (
        "int a[n], most = 0; for (i = 0; i < n; i++) a[i] = __VERIFIER_nondet_int();"
        "for (i = 0; i < n; i++) if (a[i] > most) most = a[i];" + CHECK + "{});",
        ("a[i] <= most", "a[i] < most"),
    ),
    "looked for": (
        "int a[n]; int x = __VERIFIER_nondet_int();"
        "for (i = 0; i < n; i++) a[i] = __VERIFIER_nondet_int();"
        "i = 0; while (i < n && a[i] != x) i++; int m = i;"
        "for (i = 0; i < m; i++) __VERIFIER_assert({});",
        ("a[i] != x", "a[i] < x"),
    ),
}


@pytest.mark.few(1)
@each_semantics
@pytest.mark.parametrize(
    "name", ["downwards", *long("copied", "largest", "changed again", "looked for")]
)
def test_what_holds_of_elements_is_verified_and_nothing_else(name, semantics):
    """With a true assertion the program is verified by a template, with a false one it is false."""
    text, (true, false) = PROGRAMS[name]
    outcomes = []
    for condition in (true, false):
        program = parse_program(f"{START}{text.replace('{}', condition)} }}", "elements")
        outcomes.append(Verifier(program, semantics, VerificationLimits(seconds=60)).verify({}))
    assert [result.outcome for result in outcomes] == [Outcome.VERIFIED, Outcome.FALSE]
    sources = {s for invariant in outcomes[0].invariants for s in invariant.sources}
    assert CandidateSource.TEMPLATES in sources
