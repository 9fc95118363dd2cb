"""No source of candidates makes a wrong proof, and each finds what it is there for."""

import random
from pathlib import Path

import pytest
from helpers.compiled import needs_gcc, violations
from helpers.grown_loops import loop_program
from helpers.invariant_programs import integers
from helpers.marks import long

from loop_invariants.frontend.translation_unit import parse_program, read_program
from loop_invariants.generation.array_templates import instantiate_templates
from loop_invariants.generation.dynamic import candidates_from_runs, tracked_variables
from loop_invariants.generation.linear_relations import (
    conditional_equalities,
    drift_bounds,
    find_relations,
)
from loop_invariants.generation.polynomials import find_polynomial_equalities
from loop_invariants.generation.syntactic import (
    branch_conditions,
    build_congruences,
    collect_atoms,
    nontermination_guards,
    variables_with_variable_step,
)
from loop_invariants.interpreter.simulation import filter_unrefuted, run_program
from loop_invariants.ir.expressions import (
    Element,
    Identifier,
    Semantics,
    format_c,
    iter_subexpressions,
)
from loop_invariants.ir.statements import iter_expressions
from loop_invariants.verification.houdini import Candidate, Prover, ProverTimeout
from loop_invariants.verification.result import BUILTIN_SOURCES, CandidateSource, Outcome
from loop_invariants.verification.spacer import solve_horn_clauses
from loop_invariants.verification.verifier import VerificationLimits, Verifier

PROGRAMS = Path(__file__).parents[4] / "resources/programs"
DECLARED = """int __VERIFIER_nondet_int(void); void __VERIFIER_assume(int);
void __VERIFIER_assert(int);
"""
each_semantics = pytest.mark.parametrize("semantics", Semantics)

FOUND = {
    CandidateSource.POLYNOMIALS: """int main(void) {
        int a = 0, s = 1, t = 1; int n = __VERIFIER_nondet_int();
        __VERIFIER_assume(n >= 0);
        while (s <= n) { a = a + 1; t = t + 2; s = s + t; }
        __VERIFIER_assert(n < (a + 1) * (a + 1));
    }""",
    CandidateSource.CONGRUENCES: """int main(void) {
        int x = 0;
        while (x < 100000000) { if (x < 10000000) { x = x + 1; } else { x = x + 2; } }
        __VERIFIER_assert(x == 100000000);
    }""",
    CandidateSource.TEMPLATES: """int main(void) {
        int a[100], b[100];
        for (int i = 0; i < 100; i++) { a[i] = __VERIFIER_nondet_int(); b[i] = a[i] + i; }
        for (int i = 0; i < 100; i++) __VERIFIER_assert(b[i] - a[i] == i);
    }""",
    CandidateSource.SPACER: """int main(void) {
        int n = __VERIFIER_nondet_int(), k = __VERIFIER_nondet_int(), j = 0;
        __VERIFIER_assume(n > 0 && k > n);
        while (j < n) { j = j + 1; k = k - 1; }
        __VERIFIER_assert(k >= 0);
    }""",
}


SLOW_SOURCES = (
    CandidateSource.CONGRUENCES,
    CandidateSource.POLYNOMIALS,
    CandidateSource.SPACER,
)


@pytest.mark.long
@pytest.mark.parametrize(
    "source", [*(source for source in FOUND if source not in SLOW_SOURCES), *long(*SLOW_SOURCES)]
)
def test_each_source_proves_what_the_others_do_not(source):
    """With the source a program is verified, and it is named; without it nothing is proven."""
    program = parse_program(DECLARED + FOUND[source], str(source))
    verifier = Verifier(program, Semantics.INTEGERS, VerificationLimits(seconds=20))
    others = tuple(s for s in BUILTIN_SOURCES if s is not source)
    if source is not CandidateSource.SPACER:
        others = tuple(s for s in others if s is not CandidateSource.SPACER)  # it would take long
    assert verifier.verify({}, others).outcome is Outcome.NOT_PROVEN
    result = verifier.verify({})
    assert result.outcome is Outcome.VERIFIED
    assert source in {s for invariant in result.invariants for s in invariant.sources}


@pytest.mark.long
@pytest.mark.parametrize("semantics", [Semantics.INTEGERS, *long(Semantics.INT32)])
def test_on_some_program_here_its_atoms_do_not_suffice(semantics):
    """Of the programs that tables are made of, one is not verified by its atoms, but by all."""
    program = read_program(PROGRAMS / "squares_by_odds.c")
    verifier = Verifier(program, semantics, VerificationLimits(seconds=20))
    assert verifier.verify({}, (CandidateSource.ATOMS,)).outcome is Outcome.NOT_PROVEN
    assert verifier.verify({}).outcome is Outcome.VERIFIED


def test_remainders_are_by_the_steps_of_variables():
    """Of steps by 2 and 3 come the remainders of 2 and 3 of what moves, and their comparison."""
    text = """int main(void) {
        int x = 0, y = 0, n = __VERIFIER_nondet_int();
        while (x < n) { x = x + 2; y = y - 3; }
    }"""
    program = parse_program(DECLARED + text, "steps")
    found = {format_c(e) for e in build_congruences(program, program.loops[0])}
    wanted = {f"({v} % {m}) == {r}" for v in "xy" for m in (2, 3) for r in range(m)}
    wanted |= {f"({v} % {m}) != 0" for v in "xy" for m in (2, 3)}
    assert found == wanted | {"(x % 2) == (y % 2)", "(x % 2) != (y % 2)", "(x % 3) == (y % 3)"}


@pytest.mark.long
@each_semantics
def test_a_number_that_stays_odd_may_become_negative(semantics):
    """A sum of two odd numbers is not 1, although an odd number has the remainder 1 or -1."""
    text = """int main(void) {
        int x = 1, y = 1;
        while (__VERIFIER_nondet_int()) {
            x = x + 2 * __VERIFIER_nondet_int();
            y = y + 2 * __VERIFIER_nondet_int();
        }
        __VERIFIER_assert(x + y != 1);
    }"""
    program = parse_program(DECLARED + text, "odd")
    verifier = Verifier(program, semantics, VerificationLimits(seconds=20))
    result = verifier.verify({}, (CandidateSource.CONGRUENCES,))
    assert result.outcome is Outcome.VERIFIED


WRAPPED = {
    "a bound that may be the largest number": """int main(void) {
        int i = 0, s = 0, n = __VERIFIER_nondet_int();
        while (i <= n) { i = i + 1; if (__VERIFIER_nondet_int()) { s = s + 1; } }
        __VERIFIER_assert(s <= i);
    }""",
    "steps of several lengths": """int main(void) {
        int i = 0, k = 0, n = __VERIFIER_nondet_int();
        __VERIFIER_assume(n > 0 && n < 1000);
        while (i < n) { i = i + 1; if (__VERIFIER_nondet_int()) k = k + 300; else k = k + 700; }
        __VERIFIER_assert(k >= 300 * n && k <= 700 * n);
    }""",
    "cases that each hold by themselves": """int main(void) {
        int j = 2, k = 0, t = __VERIFIER_nondet_int();
        while (__VERIFIER_nondet_int()) {
            if (t == 0) { j = j + 4; } else { j = j + 2; k = k + 1; }
        }
        if (k != 0) { __VERIFIER_assert(t != 0 && j == k * 2 + 2); }
    }""",
    "two that take turns": """int main(void) {
        int i = 0, j = 0, b = 1, k = 0, n = __VERIFIER_nondet_int();
        __VERIFIER_assume(n >= 0 && n < 1000000);
        while (k < 2 * n) { k = k + 1; if (b == 1) { b = 0; i++; } else { b = 1; j++; } }
        __VERIFIER_assert(i == j);
    }""",
    "one phase after another": """int main(void) {
        int x = 0, n = __VERIFIER_nondet_int(), m = __VERIFIER_nondet_int(), y = m;
        __VERIFIER_assume(0 <= m && m < n);
        while (x < n) { if (x < m) { x = x + 1; } else { x = x + 1; y = y + 1; } }
        __VERIFIER_assert(y == n);
    }""",
    "a difference that stays although both wrap around": """int main(void) {
        int a = __VERIFIER_nondet_int(), b = __VERIFIER_nondet_int();
        __VERIFIER_assume(0 <= a && a <= 2 && 0 <= b && b <= 2);
        while (__VERIFIER_nondet_int()) { a = a + 7; b = b + 7; }
        if (a == 14) { __VERIFIER_assert(b != 0); }
    }""",
    "a sum of what is counted": """int main(void) {
        int i = 0, s = 0, n = __VERIFIER_nondet_int();
        __VERIFIER_assume(n <= 5000);
        while (i < n && i < 5000) { s = s + i; i = i + 1; }
        __VERIFIER_assert(s >= 0);
    }""",
    "down first and then up": """int main(void) {
        int x = -7, y = __VERIFIER_nondet_int();
        __VERIFIER_assume(y > -300 && y < 300);
        while (x < 0) { x = x + y; y = y + 1; }
        __VERIFIER_assert(y > 0);
    }""",
    "a product that wraps around": """int main(void) {
        int a = __VERIFIER_nondet_int(), b = __VERIFIER_nondet_int(), p = a * b;
        while (__VERIFIER_nondet_int()) { a = a + 3; p = p + 3 * b; }
        __VERIFIER_assert(p == a * b);
    }""",
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRAPPED)
def test_programs_are_verified_although_numbers_wrap_around(name):
    """What is needed over machine integers is found, proven, and confirmed by ESBMC."""
    program = parse_program(DECLARED + WRAPPED[name], "wrapped")
    result = Verifier(program, Semantics.INT32, VerificationLimits(seconds=60)).verify({})
    assert result.outcome is Outcome.VERIFIED, result


def test_a_loop_may_never_end_where_no_number_is_large_enough():
    """The border must leave room for the last step; strict comparisons with steps by one do."""
    for guard, wanted in (
        ("x <= n", {"n > 2147483646"}),
        ("n >= x", {"n > 2147483646"}),
        ("x < n", set()),
        ("y > n", {"n < (-2147483646)"}),
        ("y >= n", {"n < (-2147483647)", "n < (-2147483645)"}),
    ):
        text = f"""int main(void) {{
            int x = 0, y = 0, n = __VERIFIER_nondet_int();
            while ({guard}) {{ {"x = x + 1" if "x" in guard else "y = y - 3"}; }}
        }}"""
        program = parse_program(DECLARED + text, "borders")
        assert {format_c(e) for e in nontermination_guards(program, program.loops[0])} == wanted, (
            guard
        )


def test_phases_have_equalities_of_their_own():
    """What holds until a guard switches, and what from then on, are found apart."""
    program = parse_program(DECLARED + WRAPPED["one phase after another"], "phases")
    (loop,) = program.loops
    states = [{"x": x, "m": 4, "y": max(4, x)} for x in range(9)]
    found = conditional_equalities(
        integers("xy"),
        states,
        branch_conditions(loop),
        lambda c, s: (s["x"] < s["m"]) == (c.operator == "<"),
    )
    assert {"(x >= m) || (y == 4)", "(x < m) || (y == x)"} <= {format_c(e) for e in found}


def test_slopes_are_those_of_the_steps():
    """Of variables that move by 2 and by 3 or 5, the sums that keep still are bounded."""
    states = [{"i": 2 * n, "k": 3 * n + 2 * (n // 2)} for n in range(8)]
    i, k = integers("ik")
    found = {format_c(e) for e in find_relations([i, k], states, {i: {2}, k: {3, 5}})}
    assert {"((3 * i) - (2 * k)) <= 0", "((5 * i) - (2 * k)) >= 0"} <= found


def test_a_drift_is_bounded_by_constants_of_the_program():
    """Of a variable that moves by up to 9, the distance to nine times a counter is bounded."""
    states = [{"i": i, "s": sum(range(i))} for i in range(10)]
    i, s = integers("is")
    found = {format_c(e) for e in drift_bounds([s], states, {i: {1}}, [9, 2])}
    assert found >= {"(s - (9 * i)) <= 0", "(s + (9 * i)) >= 0", "(s + (2 * i)) >= 0"}
    # what a run exceeds at first, and what is not extreme at first, is not proposed
    assert not any("2 * i)) <=" in text and "-" in text for text in found)
    wide = {format_c(e) for e in drift_bounds([s], states, {i: {1}}, [9], wide=True)}
    assert "((long)s - (9 * (long)i)) <= 0" in wide
    assert "((long)s - (long)i) >= (-1073741824)" in wide
    program = parse_program(DECLARED + WRAPPED["a sum of what is counted"], "drift")
    assert variables_with_variable_step(program.loops[0]) == {s}


MIXED = """int main(void) {
    unsigned u = __VERIFIER_nondet_uint(); long sum = 0; char c = 3; unsigned char a[9];
    for (unsigned short i = 0; i < 9; i = i + 1) {
        a[i] = c; sum = sum + 2 * (long)i;
        if (u > 5) u = u - 1;
    }
    __VERIFIER_assert(sum >= 0 && a[c] == 3);
}"""


@pytest.mark.few(1)
@each_semantics
def test_candidates_have_the_declared_types(semantics):
    """Every variable of a program's expressions and candidates has its declared type."""
    program = parse_program(DECLARED + "unsigned __VERIFIER_nondet_uint(void);" + MIXED, "mixed")
    (loop,) = program.loops
    states = run_program(program, semantics, runs=30).head_states[0]
    tracked = tracked_variables(program, loop)
    candidates = [
        *collect_atoms(program, loop),
        *candidates_from_runs(program, loop, states, semantics),
        *find_polynomial_equalities(tracked, states),
        *instantiate_templates(program)[0],
        *build_congruences(program, loop),
        *solve_horn_clauses(program, semantics, 1).get(0, ()),
    ]
    used = set()
    for expression in (*iter_expressions(program.body), *candidates):
        for part in iter_subexpressions(expression):
            match part:
                case Identifier(name, type_) | Element(name, _, type_) if name != "k":
                    assert type_ == program.types[name], format_c(expression)
                    used.add(name)
    assert used == {"u", "sum", "c", "a", "i"}


@pytest.mark.few(2)
@each_semantics
@pytest.mark.parametrize("seed", [0, 4, *long(1, 2, 3, *range(5, 12))])
def test_what_is_proven_holds_in_other_runs(seed, semantics):
    """Of what few runs and Spacer suggest, only what holds in many other runs is proven."""
    program = parse_program(loop_program(seed), f"loop_{seed}")
    few = run_program(program, semantics, runs=4, max_iterations=12)
    many = run_program(program, semantics, runs=300, seed=7)
    (loop,) = program.loops
    tried = [
        *find_polynomial_equalities(tracked_variables(program, loop), few.head_states[0]),
        *solve_horn_clauses(program, semantics, 1).get(0, ()),
    ]
    tried += build_congruences(program, loop)
    prover = Prover(program, semantics, seconds=0.3)
    try:
        proven = prover.find_inductive_subset(Candidate(0, condition) for condition in tried)
    except ProverTimeout:
        return
    held = [candidate.expression for candidate in proven]
    for runs in (few, many):
        kept = filter_unrefuted(held, runs.head_states[0], semantics)
        assert [format_c(e) for e in kept] == [format_c(e) for e in held]
    if prover.entails_assertions(proven):
        assert many.failure is None


@pytest.mark.few(1)
@needs_gcc
@each_semantics
@pytest.mark.parametrize("seed", [0, 1, *long(*range(2, 12))])
def test_no_verdict_on_a_generated_loop_is_contradicted_by_gcc(seed, semantics, tmp_path):
    """Loops with products, remainders and phases: what is verified fails in no run of gcc's."""
    text = loop_program(seed)
    result = Verifier(parse_program(text, "loop"), semantics, VerificationLimits(seconds=2)).verify(
        {}
    )
    if result.outcome is Outcome.VERIFIED:
        assert violations(text, semantics, tmp_path, runs=100) == 0


@pytest.mark.long
def test_of_very_many_variables_only_small_sets_are_related():
    """Equalities of two and three of 40 variables are found, and none of four are sought."""
    names = [f"v{number}" for number in range(40)]
    draw = random.Random(4)
    states = []
    for _ in range(60):
        state = {name: draw.randint(0, 1000) for name in names}
        state["v2"] = 2 * state["v1"] + 1
        state["v5"] = state["v3"] + state["v4"]
        state["v9"] = state["v6"] + state["v7"] + state["v8"]
        states.append(state)
    found = {format_c(e) for e in find_relations(integers(names), states) if "==" in format_c(e)}
    assert found == {"v2 == ((2 * v1) + 1)", "v5 == (v3 + v4)"}
    few = {format_c(e) for e in find_relations(integers(names[6:10]), states)}
    assert "v9 == ((v6 + v7) + v8)" in few
