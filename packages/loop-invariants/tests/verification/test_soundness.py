"""Nothing false is ever proven: over changed programs, and over wrong invariants.

A program counts as false, and an invariant as wrong, where a concrete run shows it. The programs
are those of `mutations` and of resources/programs.
"""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from helpers.mutations import (
    Mutant,
    Original,
    candidates,
    mutants,
    random_condition,
    vary_originals,
)

from llmchecker.errors import UnsupportedProgram
from loop_invariants.interpreter.simulation import _SimulationResult, filter_unrefuted, run_program
from loop_invariants.ir.expressions import Constant, Semantics, format_c
from loop_invariants.ir.statements import Program
from loop_invariants.verification.esbmc import EsbmcAnswer, Mode, run_esbmc
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.houdini import Candidate, Prover

PROGRAMS = Path(__file__).parents[4] / "resources/programs"
SHIPPED = tuple(Original(p.stem, p.read_text(), ()) for p in sorted(PROGRAMS.rglob("*.c")))

MOST_OF_A_KIND = 4
"""Falsified mutants of one program that are tried, of each kind."""

MOST_OF_SHIPPED = 1
"""Falsified mutants of one program in resources/programs that are tried."""

SETS = 3
WRONG_IN_A_SET = 4

each_original = vary_originals()
each_shipped = pytest.mark.parametrize("original", SHIPPED, ids=lambda o: o.name)
each_semantics = pytest.mark.parametrize("semantics", Semantics)


@cache
def falsified(
    original: Original, semantics: Semantics
) -> tuple[tuple[Mutant, _SimulationResult], ...]:
    """The mutants of which a concrete run violates an assertion or a range, with the runs."""
    found = []
    kinds: Counter[str] = Counter()
    for mutant in mutants(original):
        if kinds[mutant.kind] == MOST_OF_A_KIND:
            continue
        runs = run_program(mutant.program, semantics, runs=30, max_iterations=150, max_states=30)
        if runs.failure is not None:
            kinds[mutant.kind] += 1
            found.append((mutant, runs))
    return tuple(found)


def prove(program: Program, semantics: Semantics, tried: list[Candidate]) -> tuple:
    """What is inductive of the candidates, and whether the assertions follow from it."""
    prover = Prover(program, semantics, seconds=2)
    proven = prover.find_inductive_subset(tried)
    return proven, prover.entails_assertions(proven)


@cache
def prove_original(original: Original, semantics: Semantics) -> tuple:
    """What is proven of a program before it is changed."""
    program = original.program
    return prove(program, semantics, candidates(program, original.invariants))


@cache
def prove_falsified(original: Original, semantics: Semantics) -> list[tuple]:
    """What is proven of each mutant that a run falsifies."""
    return [
        prove(mutant.program, semantics, candidates(mutant.program, original.invariants))
        for mutant, _ in falsified(original, semantics)
    ]


def refuted(
    proven: tuple[Candidate, ...], runs: _SimulationResult, program: Program, semantics: Semantics
) -> Iterator[str]:
    """Those of the candidates that a state at the head of their loop shows to be wrong."""
    for candidate in proven:
        states = runs.head_states[candidate.loop]
        if not filter_unrefuted((candidate.expression,), states, semantics):
            yield format_c(candidate.expression)


@pytest.mark.few(3)
@each_semantics
@each_original
def test_the_programs_that_are_changed_are_proven_before(original, semantics):
    """The same candidates prove each program unchanged: its mutants are not refused idly."""
    proven, verified = prove_original(original, semantics)
    assert verified
    assert proven


@pytest.mark.few(1)
@each_semantics
@each_original
def test_no_program_that_a_run_falsifies_is_verified(original, semantics):
    """A changed guard, body, assertion or assumption that a run shows to be false is refused."""
    found = falsified(original, semantics)
    assert len(found) > MOST_OF_A_KIND
    proofs = prove_falsified(original, semantics)
    for (mutant, runs), (proven, verified) in zip(found, proofs, strict=True):
        assert not verified, mutant
        assert not list(refuted(proven, runs, mutant.program, semantics)), mutant


@pytest.mark.long
@each_semantics
@each_shipped
def test_no_changed_program_of_the_project_is_verified(original, semantics):
    """A mutant of a program in resources/programs that a run shows to be false is refused."""
    try:
        Prover(original.program, semantics)
    except UnsupportedProgram:
        pytest.skip("not covered in these semantics")
    found = (
        (m, run_program(m.program, semantics, runs=20, max_states=20)) for m in mutants(original)
    )
    false = ((mutant, runs) for mutant, runs in found if runs.failure is not None)
    for mutant, runs in islice(false, MOST_OF_SHIPPED):
        proven, verified = prove(mutant.program, semantics, candidates(mutant.program, ()))
        assert not verified, mutant
        assert not list(refuted(proven, runs, mutant.program, semantics)), mutant


@cache
def wrong_invariants(original: Original, semantics: Semantics) -> tuple[Candidate, ...]:
    """Random conditions, each of which a state at the head of its loop refutes; `0` among them."""
    generator = random.Random(f"wrong {original.name}")
    program = original.program
    heads = run_program(program, semantics, runs=60, max_iterations=150).head_states
    wrong: dict[Candidate, None] = {}
    while len(wrong) < SETS * WRONG_IN_A_SET:
        loop = generator.choice(program.loops)
        condition = random_condition(program, loop, generator)
        if len(wrong) == 0:
            condition = Constant(0)
        if not filter_unrefuted((condition,), heads[loop.number], semantics):
            wrong[Candidate(loop.number, condition)] = None
    return tuple(wrong)


def beside(original: Original, generator: random.Random) -> list[Candidate]:
    """A random selection of right and of random conditions."""
    program = original.program
    known = candidates(program, original.invariants)
    made = [
        Candidate(loop.number, random_condition(program, loop, generator))
        for loop in program.loops
        for _ in range(4)
    ]
    return generator.sample(known, min(len(known), 8)) + made


@pytest.mark.few(1)
@each_semantics
@each_original
def test_no_invariant_that_a_state_refutes_is_proven(original, semantics):
    """A condition that is false in a state at the loop's head survives beside no others."""
    generator = random.Random(f"beside {original.name}")
    wrong = wrong_invariants(original, semantics)
    for first in range(0, len(wrong), WRONG_IN_A_SET):
        some = wrong[first : first + WRONG_IN_A_SET]
        tried = [*some, *beside(original, generator)]
        generator.shuffle(tried)
        proven, _ = prove(original.program, semantics, tried)
        assert not set(some) & set(proven)


@pytest.mark.few(1)
@each_semantics
@each_original
def test_esbmc_verifies_no_program_that_a_run_falsifies(original, semantics):
    """ESBMC, told what is proven of a program with a false assertion, does not call it true."""
    found = zip(falsified(original, semantics), prove_falsified(original, semantics), strict=True)
    mutant, proven = next((m, proven) for (m, runs), (proven, _) in found if runs.failure.line)
    assert answer_of_esbmc(mutant.program, proven, semantics) is not EsbmcAnswer.SUCCESSFUL, mutant


@pytest.mark.long
@each_semantics
@each_original
def test_esbmc_refutes_no_invariant_that_is_needed(original, semantics):
    """ESBMC agrees that what is needed is inductive and proves a true program."""
    program = original.program
    needed = Prover(program, semantics).minimize(prove_original(original, semantics)[0])
    assert answer_of_esbmc(program, needed, semantics) is EsbmcAnswer.SUCCESSFUL


@pytest.mark.few(1)
@each_semantics
def test_ranges_are_refused_by_the_proof_alone(semantics):
    """An index out of range, which ESBMC is not asked about, is refused by the prover."""
    source = "int main(void) { int a[3]; int i = 0; while (i <= 3) { a[i] = 1; i = i + 1; } }"
    program = Original("beyond", source, (("i >= 0", "i <= 4"),)).program
    proven, verified = prove(program, semantics, candidates(program, (("i >= 0", "i <= 4"),)))
    assert answer_of_esbmc(program, proven, semantics) is EsbmcAnswer.SUCCESSFUL
    assert not verified


def answer_of_esbmc(program: Program, proven: tuple, semantics: Semantics) -> EsbmcAnswer:
    """What ESBMC says of a program, told what is proven of its loops."""
    # A loop without any would be unrolled.
    stated = {
        loop.number: [c.expression for c in proven if c.loop == loop.number] or [Constant(1)]
        for loop in program.loops
    }
    return run_esbmc(annotate(program, stated), Mode.INVARIANTS, semantics, seconds=20).answer
