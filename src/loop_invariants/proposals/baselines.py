"""Baselines: conditions proposed without a model, at random and in order of size.

A comparison with them measures the contribution of a model.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from loop_invariants.ir.expressions import (
    COMPARISONS,
    CONNECTIVES,
    Binary,
    Constant,
    Expression,
    Identifier,
    format_c,
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


def enumerate_shortest(program: Program, loop: Loop, limit: int) -> tuple[Expression, ...]:
    """Enumerate the smallest conditions, in order of size and then of text.

    They are comparisons of values, joined by connectives. Signs and `!` are excluded, since other
    operators express them, as are conditions and sums without a variable. If two conditions
    differ only in the order of their sides, the result contains the smaller left side.

    Args:
        program: the program with the literals.
        loop: the loop with the variables and arrays.
        limit: maximum number of conditions.
    """
    conditions = _ConditionsBySize(_collect_terminals(program, loop))
    result: list[Expression] = []
    size = 3  # the size of the smallest condition: two sides and a comparison
    while len(result) < limit and (conditions.terminals.variables or conditions.terminals.arrays):
        candidates = (c for c in conditions.iter_conditions(size) if variables(c))
        # A size may have far more conditions than needed, so only the smallest are sorted.
        result += heapq.nsmallest(limit - len(result), candidates, key=format_c)
        size += 1
    return tuple(result)


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


class _ConditionsBySize:
    """An enumeration of all values and conditions by size."""

    def __init__(self, terminals: _Terminals) -> None:
        self.terminals = terminals
        # Larger expressions consist of smaller ones, which are needed repeatedly.
        self._values = cache(lambda size: tuple(self._iter_values(size)))
        self._conditions = cache(lambda size: tuple(self.iter_conditions(size)))

    def iter_conditions(self, size: int) -> Iterator[Expression]:
        """Yield the conditions of a size."""
        yield from _iter_binary(COMPARISONS, self._values, size)
        yield from _iter_binary(CONNECTIVES, self._conditions, size)

    def _iter_values(self, size: int) -> Iterator[Expression]:
        if size == 1:
            yield from self.terminals.scalar_terms
            return
        for array in self.terminals.arrays:
            yield from map(array.element, self._values(size - 1))
        expressions = (
            *_iter_binary(("+", "*"), self._values, size),
            *_iter_binary(("-",), self._values, size, is_commutative=False),
        )
        # Sums of literals alone are excluded, but elements with constant indices are not.
        yield from filter(variables, expressions)


def _iter_binary(
    operators: Sequence[str],
    parts: Callable[[int], Sequence[Expression]],
    size: int,
    is_commutative: bool = True,
) -> Iterator[Expression]:
    """Yield all expressions of a size that join two different parts by an operator.

    Args:
        operators: the operators.
        parts: returns all parts of a size.
        size: size of the joined expression; the operator counts 1.
        is_commutative: whether the text of the left part must precede that of the right part.
    """
    for left_size in range(1, size - 1):
        for left in parts(left_size):
            for right in parts(size - 1 - left_size):
                # A commutative operator yields each unordered pair once.
                if format_c(left) < format_c(right) if is_commutative else left != right:
                    yield from (Binary(operator, left, right) for operator in operators)
