"""Conditions proposed without a model."""

import pytest
from helpers.invariant_programs import ARRAY, COUNTER, is_condition

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.ir.expressions import Constant, format_c, iter_subexpressions, variables
from loop_invariants.proposals.baselines import sample_atoms


@pytest.mark.parametrize("program", [COUNTER, ARRAY], ids=lambda p: p.name)
def test_what_is_proposed_is_well_formed(program):
    """Distinct conditions over variables in scope read back as written."""
    loop = program.loops[0]
    found = sample_atoms(program, loop, 200, 1)
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
    found = sample_atoms(COUNTER, loop, 300, 1)
    numbers = {n.value for c in found for n in iter_subexpressions(c) if isinstance(n, Constant)}
    assert numbers == {0, 1, 5}
