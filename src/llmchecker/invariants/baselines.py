"""Conditions proposed without a model, to tell what a model adds: at random, and shortest first."""

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
"""Draws for every condition that is wanted, at most: there may not be as many."""


def random_atoms(program: Program, loop: Loop, budget: int, seed: int) -> tuple[Expression, ...]:
    """Distinct comparisons drawn at random, at most so many.

    A side is a variable, an element or a literal, or with probability 1/2 two of these joined by
    `+`, `-` or `*`; at least one variable is named in these and in the whole, and the sides differ.
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
    """All conditions by size, those of a size by their texts, at most so many.

    They are comparisons of values, joined by connectives. Left out are signs and `!`, which the
    other operators express, conditions and sums without a variable, and what says the same with
    its sides changed: the left side comes before the right one by its text.
    """
    conditions = _Conditions(_words(program, loop))
    found: list[Expression] = []
    size = 3
    while len(found) < budget and conditions.words.variables | conditions.words.arrays:
        wanted = (c for c in conditions.of(size) if variables(c))
        found += heapq.nsmallest(budget - len(found), wanted, key=c_text)
        size += 1
    return tuple(found)


@dataclass(frozen=True)
class _Words:
    """What conditions are made of: a loop's variables and arrays, and the program's literals."""

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
    """Yield two parts of some size with an operator, of the size together.

    Args:
        ordered: whether the left part has to come before the right one; else they only differ.
    """
    for left_size in range(1, size - 1):
        for left in parts(left_size):
            for right in parts(size - 1 - left_size):
                if c_text(left) < c_text(right) if ordered else left != right:
                    yield from (Binary(operator, left, right) for operator in operators)
