"""Dynamic invariant detection: candidates from concrete runs."""

from collections.abc import Sequence
from functools import partial

from loop_invariants.generation.linear_relations import (
    conditional_equalities,
    drift_bounds,
    find_relations,
)
from loop_invariants.generation.syntactic import (
    branch_conditions,
    find_constant_steps,
    variables_with_variable_step,
)
from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.interpreter.simulation import filter_unrefuted
from loop_invariants.ir.expressions import Expression, Identifier, Semantics, variables
from loop_invariants.ir.statements import (
    Loop,
    Program,
    collect_constants,
    find_modified_variables,
    iter_conditions,
)

_MAX_TRACKED_VARIABLES = 40
"""Maximum number of variables to relate; the number of relations is quadratic in it."""

_MAX_CONSTANTS = 12
"""Maximum number of constants that are tried as sums or as drift factors."""


def candidates_from_runs(
    program: Program, loop: Loop, states: Sequence[ConcreteState], semantics: Semantics
) -> tuple[Expression, ...]:
    """Find relations that hold in all states, or in a phase of the loop.

    Args:
        program: the program.
        loop: a loop of the program.
        states: the states in which runs reached the loop head.
        semantics: the semantics of the program's integers.
    """
    tracked, steps = tracked_variables(program, loop), find_constant_steps(loop)
    constants = collect_constants(program.body)[:_MAX_CONSTANTS]
    # Sums of machine integers are computed in 64 bits, where they do not wrap around.
    wide = semantics is Semantics.INT32
    moving_variables = variables_with_variable_step(loop)
    drift_variables = sorted(moving_variables.intersection(tracked), key=str)
    is_satisfied = partial(_is_satisfied, semantics=semantics)
    return (
        *find_relations(tracked, states, steps, wide),
        *drift_bounds(drift_variables, states, steps, constants, wide),
        *conditional_equalities(
            tracked, states, branch_conditions(loop), is_satisfied, steps, constants
        ),
    )


def tracked_variables(
    program: Program, loop: Loop, limit: int = _MAX_TRACKED_VARIABLES
) -> list[Identifier]:
    """Return the integers in scope at a loop, at most as many as the limit.

    If they are too many, variables in the program's conditions come first, then those that the
    loop changes.
    """
    tracked = [v for v in map(program.variable, loop.scope) if not v.type.is_array]
    if len(tracked) <= limit:
        return tracked
    condition_variables = frozenset().union(*map(variables, iter_conditions(program.body)))
    modified_variables = find_modified_variables((loop,))
    tracked.sort(
        key=lambda v: (v.name not in condition_variables, v.name not in modified_variables)
    )
    return tracked[:limit]


def _is_satisfied(condition: Expression, state: ConcreteState, semantics: Semantics) -> bool:
    """Check whether a state does not refute a condition; without a value, it does not."""
    return bool(filter_unrefuted([condition], [state], semantics))
