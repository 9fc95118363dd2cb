"""The prover, against an exhaustive interpreter and on programs small enough to reason about."""

import itertools
from functools import cache

import pytest
from helpers.exhaustive import Interpreter, RandomProgram, largest_inductive, where
from helpers.marks import long
from helpers.mutations import candidates, vary_originals

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import Constant, Semantics
from loop_invariants.verification.houdini import Candidate, Prover, ProverTimeout

CHUNK = 15
RANDOM = range(0, 75, CHUNK)

each_chunk = pytest.mark.parametrize("first", [RANDOM[0], *long(*RANDOM[1:])])
each_semantics = pytest.mark.parametrize("semantics", Semantics)


@cache
def random_case(seed):
    """A random program, conditions, what of them is inductive, and whether it suffices."""
    made = RandomProgram(seed)
    numbers = [loop.number for loop in made.program.loops for _ in range(6)]
    tried = list(dict.fromkeys((number, made.condition()) for number in numbers))
    return made.program, tried, *largest_inductive(made.program, tried)


@cache
def found_in_random_case(seed):
    """The prover of a random program, and the candidates that it finds to be inductive."""
    program, tried, _, _ = random_case(seed)
    prover = Prover(program, Semantics.INT32)
    return prover, prover.find_inductive_subset(itertools.starmap(Candidate, tried))


def proven(body, *conditions, semantics=Semantics.INT32, loop=0):
    """The texts of the conditions that are inductive at a loop, and whether assertions follow."""
    program = parse_program(f"int main(void) {{ {body} }}", "program")
    scope = program.loops[loop].scope
    types = program.types
    tried = {c: Candidate(loop, parse_condition(c, scope, types)) for c in conditions}
    prover = Prover(program, semantics)
    found = prover.find_inductive_subset(tried.values())
    return [c for c in conditions if tried[c] in found], prover.entails_assertions(found)


@each_chunk
def test_the_largest_inductive_subset_is_found(first):
    """On random programs, what is inductive and whether it suffices is as brute force says."""
    for seed in range(first, first + CHUNK):
        program, _, inductive, suffices = random_case(seed)
        prover, found = found_in_random_case(seed)
        assert [(c.loop, c.expression) for c in found] == inductive, program
        assert prover.entails_assertions(found) == suffices, program


@each_chunk
def test_what_is_proven_holds_in_every_reachable_state(first):
    """No state that a run reaches refutes what is proven, or fails what follows from it."""
    for seed in range(first, first + CHUNK):
        prover, found = found_in_random_case(seed)
        reached = Interpreter(random_case(seed)[0])
        for candidate in found:
            assert holds(candidate.expression, reached.arrivals[candidate.loop])
        assert not (prover.entails_assertions(found) and reached.failed)


def holds(condition, states):
    """Whether it is true in all the states."""
    return not where(condition, states, False)


@pytest.mark.long
def test_the_random_programs_are_varied():
    """Some are true and some false, some loops are unreached, and conditions are kept and lost."""
    cases = [random_case(seed) for first in RANDOM for seed in range(first, first + CHUNK)]
    runs = [Interpreter(program) for program, *_ in cases]
    unreached = [not run.arrivals[n] for run in runs for n in list(run.arrivals)]
    assert sum(suffices for *_, suffices in cases) >= 20
    assert sum(run.failed for run in runs) >= 20
    assert sum(unreached) >= 5
    assert sum(len(program.loops) > 1 for program, *_ in cases) >= 20
    kept = sum(len(inductive) for _, _, inductive, _ in cases)
    assert 150 <= kept <= sum(len(tried) for _, tried, _, _ in cases) - 150


@each_chunk
def test_needed_is_the_least_that_suffices(first):
    """What is needed is inductive by itself, proves the assertions, and no subset does both."""
    for seed in range(first, first + CHUNK):
        program, _, inductive, suffices = random_case(seed)
        if not suffices:
            continue
        prover = Prover(program, Semantics.INT32)
        needed = prover.minimize(list(itertools.starmap(Candidate, inductive)))
        pairs = [(c.loop, c.expression) for c in needed]
        assert set(pairs) <= set(inductive)
        assert largest_inductive(program, pairs) == (pairs, True)
        for without in range(len(pairs)):
            fewer = [pair for at, pair in enumerate(pairs) if at != without]
            assert not largest_inductive(program, fewer)[1], (program, pairs)


@pytest.mark.few(1)
@each_semantics
@vary_originals()
def test_needed_drops_what_proofs_of_programs_do_not_use(original, semantics):
    """Of all that is proven of a program, what is needed is few, and proves it by itself."""
    prover = Prover(original.program, semantics)
    found = prover.find_inductive_subset(candidates(original.program, original.invariants))
    needed = prover.minimize(found)
    assert prover.find_inductive_subset(needed) == needed
    assert prover.entails_assertions(needed)
    assert len(needed) <= 7
    for candidate in needed:
        assert not prover.entails_assertions(
            prover.find_inductive_subset(c for c in needed if c != candidate)
        )


@each_semantics
def test_false_neither_survives_nor_helps_others(semantics):
    """The condition 0 is dropped at a loop that is reached, and proves nothing at another."""
    program = parse_program(
        "int main(void) { int x = 0; while (x < 3) x++; while (x < 9) x++; assert(x == 7); }", "p"
    )
    false = [Candidate(loop, Constant(0)) for loop in (0, 1)]
    bounds = [Candidate(n, parse_condition(f"x <= {b}", ("x",))) for n, b in ((0, 3), (1, 9))]
    wrong = Candidate(1, parse_condition("x <= 7", ("x",)))
    prover = Prover(program, semantics)
    assert prover.find_inductive_subset([*false, *bounds, wrong]) == tuple(bounds)
    assert not prover.entails_assertions(bounds)


@each_semantics
def test_loops_that_are_never_reached_are_no_obstacle(semantics):
    """Behind a return or a false condition anything is an invariant, also 0, and only there."""
    program = parse_program(
        """int main(void) {
             int x = 0;
             while (x < 3) x++;
             if (x == 4) { while (x > 0) x--; assert(0); }
             if (x == 3) return 0;
             abort();
             while (x < 5) x++;
             assert(0); }""",
        "p",
    )
    least = Candidate(0, parse_condition("x <= 3", ("x",)))
    others = [Candidate(loop, Constant(0)) for loop in (1, 2)]
    prover = Prover(program, semantics)
    assert prover.find_inductive_subset([*others, least, Candidate(0, Constant(0))]) == (
        *others,
        least,
    )
    assert prover.entails_assertions((least,))
    assert prover.minimize([*others, least]) == (least,)


@each_semantics
def test_a_loop_whose_body_never_ends_has_no_step(semantics):
    """Where every path through the body leaves the loop, holding at first is enough."""
    body = "int x = 0; while (1) { x = x + 1; if (x > 0) break; return 0; } assert(x == 1);"
    assert proven(body, "x == 0", semantics=semantics) == (["x == 0"], True)


@each_semantics
def test_the_step_of_for_follows_continue(semantics):
    """After `continue` the step runs, and what ignores it is not proven."""
    body = """int s = 0; int i;
              for (i = 0; i < 9; i++) { if (i % 3 == 0) continue; s = s + 1; }
              assert(i == 9);"""
    assert proven(body, "i == 0", "s == 0", "s <= i", "i <= 9", semantics=semantics) == (
        ["s <= i", "i <= 9"],
        True,
    )


@each_semantics
def test_quantified_invariants_stand_beside_wrong_ones(semantics):
    """A universal invariant survives when wrong candidates beside it are dropped."""
    body = """int a[6]; int i = 0;
              while (i < 6) { a[i] = 7; i = i + 1; }
              assert(a[2] == 7);"""
    filled = "__ESBMC_forall(&k, !(k >= 0 && k < i) || a[k] == 7)"
    beyond = "__ESBMC_forall(&k, !(k >= 0 && k <= i) || a[k] == 7)"
    found, suffices = proven(
        body, "a[2] <= 7", filled, beyond, "i >= 0", "a[0] == 7", "i <= 6", semantics=semantics
    )
    assert found == [filled, "i >= 0", "i <= 6"]
    assert suffices


@each_semantics
def test_existential_invariants_are_proven(semantics):
    """That some element is the largest one so far is proven of a search for the maximum."""
    body = """int a[4]; int m = a[0]; int i = 1;
              while (i < 4) { if (a[i] > m) m = a[i]; i = i + 1; }
              assert(m >= a[0]);"""
    some = "__ESBMC_exists(&k, k >= 0 && k < i && a[k] == m)"
    none = "__ESBMC_exists(&k, k >= 0 && k < i && a[k] > m)"
    found, suffices = proven(body, some, none, "m >= a[0]", "i >= 1", semantics=semantics)
    assert found == [some, "m >= a[0]", "i >= 1"]
    assert suffices


def test_a_question_without_an_answer_proves_nothing():
    """What the solver cannot decide in its time is left out, and no assertion is proven."""
    body = """int x = __VERIFIER_nondet_int(); int y = __VERIFIER_nondet_int(); int i = 0;
              while (i < 9) { i = i + 1; x = x * x * y + y; y = y * x * x - i; }
              assert(x * x * x + y * y * y != 3 * x * y + 114);"""
    program = parse_program(f"int main(void) {{ {body} }}", "p")
    hard = Candidate(
        0, parse_condition("x * x * x * y != y * y * x + 7919 * i + 4", ("i", "x", "y"))
    )
    prover = Prover(program, Semantics.INTEGERS, seconds=0.001)
    assert prover.find_inductive_subset([hard]) == ()
    assert not prover.entails_assertions(())


def test_alone_finds_what_needs_no_other():
    """Of three candidates one holds by itself, and two need each other, unless one is known."""
    text = """int main(void) { int x = 0, y = 0;
        while (x < 9) { int t = x; x = y; y = t; } assert(x >= 0 || y < 0); }"""
    program = parse_program(text, "swap")
    scope = program.loops[0].scope
    made = {c: Candidate(0, parse_condition(c, scope)) for c in ("x >= 0", "y >= 0", "x + y >= 0")}
    prover = Prover(program, Semantics.INTEGERS)
    assert prover.prove_individually(made.values(), ()) == (made["x + y >= 0"],)
    assert set(prover.find_inductive_subset(made.values())) == set(made.values())


def test_what_is_alone_after_the_deadline_is_what_was_known():
    """Without time nothing is added to the invariants that are known, and none of them is lost."""
    program = parse_program("int main(void) { int x = 0; while (x < 9) { x = x + 1; } }", "count")
    known, other = (Candidate(0, parse_condition(c, ("x",))) for c in ("x >= 0", "x <= 9"))
    late = Prover(program, Semantics.INT32, deadline=0.0)
    assert late.prove_individually([other], [known]) == (known,)


def test_after_the_deadline_nothing_is_proven():
    """A deadline that has passed is said, and no partial result is given."""
    program = parse_program("int main(void) { int x = 0; while (x < 3) x++; assert(x == 3); }", "p")
    prover = Prover(program, Semantics.INT32, deadline=0)
    with pytest.raises(ProverTimeout):
        prover.find_inductive_subset([Candidate(0, parse_condition("x <= 3", ("x",)))])
    with pytest.raises(ProverTimeout):
        prover.entails_assertions(())
