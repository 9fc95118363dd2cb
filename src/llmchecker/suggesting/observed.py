"""What concrete runs suggest of a loop of a program, from the states in which they reached it."""

from collections.abc import Mapping, Sequence
from functools import partial

from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import Expression, Semantics, Type, variables
from llmchecker.programs.runs import unrefuted
from llmchecker.programs.statements import Loop, Program, changed, conditions
from llmchecker.suggesting.completion import constants, drifting, steps, switches
from llmchecker.suggesting.relations import phases, relations, slopes

_MOST_WATCHED = 40
"""The most variables among which relations are looked for; their number grows with its square."""

_MOST_CONSTANTS = 12
"""The most numbers of a program that are tried as a sum, or as the amount of a drift."""


def related(
    program: Program, loop: Loop, states: Sequence[ConcreteState], semantics: Semantics
) -> tuple[Expression, ...]:
    """The relations of a loop's variables that hold in all states, or in a phase of the loop.

    Args:
        program: the program.
        loop: one of its loops.
        states: those in which runs reached the loop's head.
        semantics: what the integers of the program are.
    """
    names, moved = watched(program, loop), steps(loop)
    named = constants(program)[:_MOST_CONSTANTS]
    wide = semantics is Semantics.INT32
    drifted = sorted(drifting(loop).intersection(names))
    holds = partial(_holds, semantics=semantics, types=program.types)
    return (
        *relations(names, states, moved, wide),
        *slopes(drifted, states, moved, named, wide),
        *phases(names, states, switches(loop), holds, moved, named),
    )


def watched(program: Program, loop: Loop) -> list[str]:
    """The integers in scope at a loop of which runs may suggest relations.

    Of many, those come first that the program's conditions name, then those that the loop changes.
    """
    numbers = [name for name in loop.scope if not program.types[name].array]
    if len(numbers) <= _MOST_WATCHED:
        return numbers
    named = frozenset().union(*map(variables, conditions(program.body)))
    moved = changed((loop,))
    numbers.sort(key=lambda name: (name not in named, name not in moved))
    return numbers[:_MOST_WATCHED]


def _holds(
    condition: Expression, state: ConcreteState, semantics: Semantics, types: Mapping[str, Type]
) -> bool:
    """Whether a condition holds in a state, or has no value there."""
    return bool(unrefuted([condition], [state], semantics, types))
