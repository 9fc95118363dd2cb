"""Conditions proposed without a model, at random and shortest first.

A comparison with them shows what a model adds.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from llmchecker.programs.expressions import (
    COMPARISONS,
    CONNECTIVES,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    c_text,
    variables,
    walk,
)
from llmchecker.programs.statements import Loop, Program, expressions_in

_ARITHMETIC = ("+", "-", "*")
_DRAWS = 50
"""The most draws for every condition that is wanted; there may be fewer conditions than wanted."""


def random_atoms(program: Program, loop: Loop, budget: int, seed: int) -> tuple[Expression, ...]:
    """Distinct comparisons, drawn at random.

    A side is a variable, an element or a literal; with probability 1/2 it is two of these joined by
    `+`, `-` or `*`. Each comparison and each joined side names a variable, and the two sides of a
    comparison differ.

    Args:
        program: supplies the literals.
        loop: supplies the variables and arrays.
        budget: the most comparisons.
        seed: equal seeds give equal comparisons.
    """
    words = _words(program, loop)
    generator = random.Random(seed)
    found: dict[Expression, None] = {}
    if not words.variables and not words.arrays:
        return ()
    for _ in range(_DRAWS * budget):
        if len(found) == budget:
            break
        left, right = _random_value(words, generator), _random_value(words, generator)
        atom = Binary(generator.choice(COMPARISONS), left, right)
        if left != right and variables(atom):
            found.setdefault(atom)
    return tuple(found)


def shortest_first(program: Program, loop: Loop, budget: int) -> tuple[Expression, ...]:
    """The first conditions by size, and by text among those of one size.

    They are comparisons of values, joined by connectives. Signs and `!` are left out, since other
    operators express them, and so are conditions and sums without a variable. Of two conditions
    that differ only in the order of their sides, the one whose left side has the smaller text
    stands for both.

    Args:
        program: supplies the literals.
        loop: supplies the variables and arrays.
        budget: the most conditions.
    """
    conditions = _Conditions(_words(program, loop))
    found: list[Expression] = []
    size = 3  # of the smallest condition: two sides and a comparison
    while len(found) < budget and conditions.words.variables | conditions.words.arrays:
        wanted = (c for c in conditions.of(size) if variables(c))
        found += heapq.nsmallest(budget - len(found), wanted, key=c_text)
        size += 1
    return tuple(found)


@dataclass(frozen=True)
class _Words:
    """The words of conditions: a loop's variables and arrays, and the program's literals."""

    variables: frozenset[str]
    arrays: frozenset[str]
    literals: tuple[int, ...]

    @property
    def atoms(self) -> tuple[Expression, ...]:
        """Variables and literals."""
        return (*map(Identifier, sorted(self.variables)), *map(Constant, self.literals))


def _words(program: Program, loop: Loop) -> _Words:
    arrays = frozenset(name for name in loop.scope if program.types[name].array)
    nodes = (node for expression in expressions_in(program.body) for node in walk(expression))
    # 0 and 1 stand in many invariants, also of programs that do not write them.
    literals = {abs(node.value) for node in nodes if isinstance(node, Constant)} | {0, 1}
    return _Words(frozenset(loop.scope) - arrays, arrays, tuple(sorted(literals)))


def _random_value(words: _Words, generator: random.Random) -> Expression:
    first = _random_operand(words, generator)
    if generator.random() < 1 / 2:
        return first
    joined = Binary(generator.choice(_ARITHMETIC), first, _random_operand(words, generator))
    return joined if variables(joined) else first


def _random_operand(words: _Words, generator: random.Random) -> Expression:
    operand = generator.choice((*words.atoms, *sorted(words.arrays)))
    if isinstance(operand, str):
        return Element(operand, generator.choice(words.atoms))
    return operand


class _Conditions:
    """All values and conditions by their size."""

    def __init__(self, words: _Words) -> None:
        self.words = words
        # Larger ones are built of smaller ones, which are asked for again and again.
        self._values = cache(lambda size: tuple(self._make_values(size)))
        self._kept = cache(lambda size: tuple(self.of(size)))

    def of(self, size: int) -> Iterator[Expression]:
        """Yield the conditions of a size."""
        yield from _joined(COMPARISONS, self._values, size)
        yield from _joined(CONNECTIVES, self._kept, size)

    def _make_values(self, size: int) -> Iterator[Expression]:
        if size == 1:
            yield from self.words.atoms
            return
        for array in sorted(self.words.arrays):
            yield from (Element(array, index) for index in self._values(size - 1))
        joined = (
            *_joined(("+", "*"), self._values, size),
            *_joined(("-",), self._values, size, ordered=False),
        )
        yield from filter(variables, joined)


def _joined(
    operators: Sequence[str],
    parts: Callable[[int], Sequence[Expression]],
    size: int,
    ordered: bool = True,
) -> Iterator[Expression]:
    """Yield all expressions of a size that join two different parts by an operator.

    Args:
        operators: the operators.
        parts: returns all parts of a size.
        size: the size of the whole; the operator counts 1.
        ordered: whether the text of the left part must come before that of the right part.
    """
    for left_size in range(1, size - 1):
        for left in parts(left_size):
            for right in parts(size - 1 - left_size):
                if c_text(left) < c_text(right) if ordered else left != right:
                    yield from (Binary(operator, left, right) for operator in operators)
