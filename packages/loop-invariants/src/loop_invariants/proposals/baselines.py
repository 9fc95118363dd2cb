"""The baseline of chance: random conditions, with which the proposals of a model are compared."""

import random
from dataclasses import dataclass

from loop_invariants.ir.expressions import (
    COMPARISONS,
    Binary,
    Constant,
    Expression,
    Identifier,
    variables,
)
from loop_invariants.ir.statements import Loop, Program, collect_constants

_ARITHMETIC = ("+", "-", "*")
_MAX_DRAWS_PER_CONDITION = 50
"""Maximum number of draws per condition; the result may therefore be smaller."""


def sample_atoms(program: Program, loop: Loop, limit: int, seed: int) -> tuple[Expression, ...]:
    """Sample distinct random comparisons.

    A side is a variable, an element or a literal; with probability 1/2 it joins two of these by
    `+`, `-` or `*`. Each comparison and each joined side contains a variable, and the two sides
    of a comparison differ.

    Args:
        program: the program with the literals.
        loop: the loop with the variables and arrays.
        limit: maximum number of comparisons.
        seed: the seed; equal seeds give equal comparisons.
    """
    terminals = _collect_terminals(program, loop)
    generator = random.Random(seed)
    atoms: dict[Expression, None] = {}
    # Without any name in scope, no comparison contains a variable.
    if not terminals.variables and not terminals.arrays:
        return ()
    for _ in range(_MAX_DRAWS_PER_CONDITION * limit):
        if len(atoms) == limit:
            break
        left, right = _sample_value(terminals, generator), _sample_value(terminals, generator)
        atom = Binary(generator.choice(COMPARISONS), left, right)
        # Comparisons of constants, or of equal sides, describe no state.
        if left != right and variables(atom):
            atoms.setdefault(atom)
    return tuple(atoms)


@dataclass(frozen=True)
class _Terminals:
    """The terminals: a loop's variables and arrays, and the program's literals."""

    variables: tuple[Identifier, ...]
    arrays: tuple[Identifier, ...]
    literals: tuple[int, ...]

    @property
    def scalar_terms(self) -> tuple[Expression, ...]:
        """The variables and literals."""
        return (*self.variables, *map(Constant, self.literals))


def _collect_terminals(program: Program, loop: Loop) -> _Terminals:
    scope = [program.variable(name) for name in sorted(loop.scope)]
    arrays = tuple(variable for variable in scope if variable.type.is_array)
    # 0 and 1 occur in many invariants, even if the program does not contain them.
    literals = {0, 1, *map(abs, collect_constants(program.body))}
    integers = tuple(variable for variable in scope if not variable.type.is_array)
    return _Terminals(integers, arrays, tuple(sorted(literals)))


def _sample_value(terminals: _Terminals, generator: random.Random) -> Expression:
    first = _sample_operand(terminals, generator)
    if generator.random() < 1 / 2:
        return first
    expression = Binary(generator.choice(_ARITHMETIC), first, _sample_operand(terminals, generator))
    # A joined side of constants alone would be another literal.
    return expression if variables(expression) else first


def _sample_operand(terminals: _Terminals, generator: random.Random) -> Expression:
    operand = generator.choice((*terminals.scalar_terms, *terminals.arrays))
    # The terminal of an array is its name, which needs an index.
    if isinstance(operand, Identifier) and operand.type.is_array:
        return operand.element(generator.choice(terminals.scalar_terms))
    return operand
