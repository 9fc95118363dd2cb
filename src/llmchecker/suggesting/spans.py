"""The elements of an array that a loop has come by, and those that it has not."""

from dataclasses import dataclass

from llmchecker.programs.expressions import (
    MIRRORED,
    Binary,
    Constant,
    Expression,
    Identifier,
    Quantified,
    negation,
    variables,
)
from llmchecker.suggesting.rounds import linear, placed, simplified


@dataclass(frozen=True)
class Span:
    """Elements from one index to another.

    Attributes:
        low: that the bound variable is not below the least index.
        high: that it is not beyond the greatest one.
    """

    low: Expression
    high: Expression

    def forall(self, body: Expression, bound: Identifier) -> Quantified:
        """That a condition on the bound variable holds of all these elements."""
        outside = Binary("||", negation(self.low), negation(self.high))
        return Quantified("forall", bound.name, Binary("||", outside, body))


@dataclass(frozen=True)
class Counter:
    """A variable that each round of a loop moves by a constant, or leaves.

    Attributes:
        name: the variable.
        step: the constant.
        firsts: what it may begin with, the likeliest first.
        last: how the guard compares it with what does not change, itself on the left; None if it
            does not.
    """

    name: str
    step: int
    firsts: tuple[Expression, ...] = ()
    last: Binary | None = None


class Spans:
    """The elements that a loop has come by, and those that it has not.

    Args:
        counter: the loop's counter.
        index: the index of the element that each round treats, over the state at the loop's head.
        bound: the variable that stands for all indices.

    Attributes:
        factor: the factor of the counter in the index; 0 if the index is no sum of the counter, by
            a factor, and of what does not depend on it.
        place: the counter's value in the round that treats the element of the bound index.
        every: that the bound index is one of those that are treated, if not all are; else None.
    """

    def __init__(self, counter: Counter, index: Expression, bound: Identifier) -> None:
        self._counter, self._index, self._bound = counter, index, bound
        self._variable = Identifier(counter.name)
        factors = linear(index)[0]
        factor = factors.pop(self._variable, 0)
        self.factor = 0 if any(counter.name in variables(part) for part in factors) else factor
        self._up = self.factor * counter.step > 0
        without = self._at(Constant(0))
        if self.factor == -1:
            self.place = simplified(Binary("-", without, bound))
        else:
            place = simplified(Binary("-", bound, without))
            self.place = place if factor == 1 else Binary("/", place, Constant(factor))
        stride = abs(self.factor * counter.step)
        behind = simplified(Binary("-", index, bound))
        within = Binary("%", behind, Constant(stride))
        self.every = Binary("==", within, Constant(0)) if stride > 1 else None

    def done(self, first: Expression) -> Span:
        """What the loop came by since the counter had its first value."""
        return self._span(self._from(self._at(first)), self._before("<", self._index))

    def rest(self, span: Span) -> Span:
        """What the loop has not come by of a span."""
        ahead = self._from(self._index)
        return Span(ahead, span.high) if self._up else Span(span.low, ahead)

    def whole(self, first: Expression) -> Span | None:
        """What the loop came by when it ends; None if its guard does not tell."""
        last = self._counter.last
        if last is None:
            return None
        if last.operator != "!=" and (last.operator[0] == "<") != (self._counter.step > 0):
            return None
        operator = "<=" if last.operator in ("<=", ">=") else "<"
        return self._span(self._from(self._at(first)), self._before(operator, self._at(last.right)))

    def _at(self, value: Expression) -> Expression:
        """The index in the round in which the counter has a value."""
        return placed(self._index, [(self._variable, value)])

    def _from(self, index: Expression) -> Binary:
        """That the bound variable is an index or comes after it, on the way of the counter."""
        return Binary(">=" if self._up else "<=", self._bound, index)

    def _before(self, operator: str, index: Expression) -> Binary:
        return Binary(operator if self._up else MIRRORED[operator], self._bound, index)

    def _span(self, begin: Binary, end: Binary) -> Span:
        return Span(begin, end) if self._up else Span(end, begin)
