"""Bounds of single inputs on a path, which decide most conditions of loops without a solver."""

from typing import Any

import z3

_Ranges = tuple[tuple[int, int], ...]
"""Disjoint ranges of numbers, in order, ends included."""

_MAX_RANGES = 8


class Model:
    """Values of the inputs: those of a model of Z3, and changed ones; all others are 0."""

    def __init__(self, base: Any = None, changed: dict[int, tuple[Any, int]] | None = None) -> None:
        self._base, self._changed = base, changed or {}

    def replace(self, symbol: Any, value: int) -> "Model":
        """Return the model with another value of an input."""
        return Model(self._base, {**self._changed, symbol.get_id(): (symbol, value)})

    def evaluate(self, expression: Any) -> Any:
        """Return the value of an expression."""
        if self._changed:
            pairs = [
                (symbol, z3.BitVecVal(value, symbol.size()))
                for symbol, value in self._changed.values()
            ]
            expression = z3.substitute(expression, *pairs)
        base = z3.Model() if self._base is None else self._base
        return base.eval(expression, model_completion=True)


class Bound:
    """A condition on one input: the ranges in which it holds.

    Attributes:
        symbol: the input.
        signed: whether the numbers are signed.
        ranges: ranges of the numbers.
        full: range of all numbers of the type.
    """

    def __init__(self, symbol: Any, signed: bool, ranges: _Ranges) -> None:
        self.symbol, self.signed, self.ranges = symbol, signed, ranges
        self.full = _full_range(symbol.size(), signed)


def _full_range(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _is_symbol(expression: Any) -> bool:
    if not z3.is_const(expression):
        return False
    return bool(expression.decl().kind() == z3.Z3_OP_UNINTERPRETED)


def parse_bound(condition: Any) -> Bound | None:
    """Return the bound that a simplified condition is; None for another condition."""
    if z3.is_not(condition):
        inner = parse_bound(condition.arg(0))
        if inner is None:
            return None
        return Bound(inner.symbol, inner.signed, subtract((inner.full,), inner.ranges))
    kind = condition.decl().kind()
    if kind not in (z3.Z3_OP_SLEQ, z3.Z3_OP_ULEQ, z3.Z3_OP_EQ) or condition.num_args() != 2:
        return None
    left, right = condition.arg(0), condition.arg(1)
    is_swapped = z3.is_bv_value(left)
    symbol, number = (right, left) if is_swapped else (left, right)
    if not (z3.is_bv(symbol) and _is_symbol(symbol) and z3.is_bv_value(number)):
        return None
    signed = kind != z3.Z3_OP_ULEQ
    value = number.as_signed_long() if signed else number.as_long()
    low, high = _full_range(symbol.size(), signed)
    if kind == z3.Z3_OP_EQ:
        return Bound(symbol, signed, ((value, value),))
    return Bound(symbol, signed, ((value, high),) if is_swapped else ((low, value),))


def intersect(left: _Ranges, right: _Ranges) -> _Ranges:
    """Return the numbers in both."""
    pairs = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return tuple(sorted(pair for pair in pairs if pair[0] <= pair[1]))


def subtract(left: _Ranges, right: _Ranges) -> _Ranges:
    """Return the numbers in the first only."""
    result = left
    for low, high in right:
        rest = []
        for a, b in result:
            rest += [
                pair for pair in ((a, min(b, low - 1)), (max(a, high + 1), b)) if pair[0] <= pair[1]
            ]
        result = tuple(rest)
    return result


def contains(ranges: _Ranges, value: int) -> bool:
    """Return whether a number is in the ranges."""
    return any(low <= value <= high for low, high in ranges)


class PathBounds:
    """The ranges of the inputs of a path that occur in conditions on one input only."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[bool, _Ranges]] = {}
        self._entangled: set[int] = set()

    def copy(self) -> "PathBounds":
        """Copy the bounds for another path."""
        result = PathBounds()
        result._ranges, result._entangled = dict(self._ranges), set(self._entangled)
        return result

    def find(self, bound: Bound) -> _Ranges | None:
        """Return the ranges of a bound's input so far; None if they are not all conditions."""
        key = bound.symbol.get_id()
        if key in self._entangled:
            return None
        signed, ranges = self._ranges.get(key, (bound.signed, (bound.full,)))
        if signed != bound.signed or len(ranges) > _MAX_RANGES:
            return None
        return ranges

    def add(self, condition: Any) -> None:
        """Add a simplified condition of the path."""
        bound = parse_bound(condition)
        if bound is not None:
            ranges = self.find(bound)
            if ranges is not None:
                key = bound.symbol.get_id()
                self._ranges[key] = (bound.signed, intersect(ranges, bound.ranges))
                return
        self._entangled |= _find_symbols(condition)


def _find_symbols(expression: Any) -> set[int]:
    """Return the identifiers of the inputs in an expression."""
    seen, found, pending = set(), set(), [expression]
    while pending:
        item = pending.pop()
        key = item.get_id()
        if key in seen:
            continue
        seen.add(key)
        if _is_symbol(item):
            found.add(key)
        pending += item.children()
    return found
