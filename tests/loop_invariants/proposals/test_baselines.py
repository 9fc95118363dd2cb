"""Conditions proposed without a model."""

import itertools

import pytest
from helpers.invariant_programs import ARRAY, COUNTER, is_condition

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import (
    COMPARISONS,
    Binary,
    Constant,
    format_c,
    iter_subexpressions,
    size,
    variables,
)
from loop_invariants.proposals.baselines import enumerate_shortest, sample_atoms


@pytest.mark.parametrize("program", [COUNTER, ARRAY], ids=lambda p: p.name)
def test_what_is_proposed_is_well_formed(program):
    """Both propose distinct conditions over variables in scope that read back as written."""
    loop = program.loops[0]
    for found in (sample_atoms(program, loop, 200, 1), enumerate_shortest(program, loop, 200)):
        assert len(found) == len(set(found)) == 200
        for condition in found:
            assert is_condition(condition, program.types)
            assert set() < variables(condition) <= set(loop.scope)
            assert parse_condition(format_c(condition), loop.scope, program.types) == condition


def test_random_atoms_follow_the_seed():
    """Equal seeds draw the same, a larger budget more of it, and another seed something else."""
    loop = COUNTER.loops[0]
    drawn = sample_atoms(COUNTER, loop, 50, 1)
    assert sample_atoms(COUNTER, loop, 20, 1) == drawn[:20]
    assert sample_atoms(COUNTER, loop, 50, 2) != drawn


def test_literals_are_those_of_the_program():
    """The numbers in proposals are 0, 1 and those of the program."""
    loop = COUNTER.loops[0]
    for found in (sample_atoms(COUNTER, loop, 300, 1), enumerate_shortest(COUNTER, loop, 300)):
        numbers = {
            n.value for c in found for n in iter_subexpressions(c) if isinstance(n, Constant)
        }
        assert numbers == {0, 1, 5}


def test_shortest_first_is_all_conditions_in_order():
    """First come all comparisons of two different words, once and sorted; then longer ones."""
    loop = COUNTER.loops[0]
    words = [parse_condition(word, loop.scope) for word in ("0", "1", "5", "n", "x", "y")]
    small = {
        Binary(op, *pair)
        for pair in itertools.combinations(words, 2)
        for op in COMPARISONS
        if any(variables(word) for word in pair)
    }
    found = enumerate_shortest(COUNTER, loop, 2000)
    assert list(found[: len(small)]) == sorted(small, key=format_c)
    assert [size(c) for c in found] == sorted(size(c) for c in found)
    assert enumerate_shortest(COUNTER, loop, 10) == found[:10]
    assert {"n < (x + y)", "(n - 1) < x"} <= {format_c(c) for c in found}


@pytest.mark.long
def test_connectives_are_among_the_longer():
    """Comparisons joined by connectives come among the conditions of seven words and operators."""
    program = parse_program("int main() { int x = 0; while (x < 1) x = x + 1; }", "small")
    found = enumerate_shortest(program, program.loops[0], 5000)
    joined = next(c for c in found if format_c(c) == "(0 < x) && (1 != x)")
    assert size(joined) == 7


def test_elements_are_among_the_shortest():
    """An element of an array in scope counts with its index."""
    found = {format_c(c) for c in enumerate_shortest(ARRAY, ARRAY.loops[0], 300)}
    assert "7 == a[i]" in found
