"""Index ranges: the processed and the remaining array elements of a loop."""

from dataclasses import dataclass

from loop_invariants.generation.symbolic_step import simplify, substitute
from loop_invariants.ir.expressions import (
    SWAPPED_COMPARISONS,
    Binary,
    Constant,
    Expression,
    Identifier,
    Quantified,
    negate,
    variables,
)
from loop_invariants.ir.polynomials import decompose_linear


@dataclass(frozen=True)
class Range:
    """A range of array elements between two indices.

    Attributes:
        lower_bound: condition that the bound variable is not below the smallest index.
        upper_bound: condition that the bound variable is not above the largest index.
    """

    lower_bound: Expression
    upper_bound: Expression

    def forall(self, body: Expression, bound_variable: Identifier) -> Quantified:
        """Quantify a condition on the bound variable over all elements of the range."""
        is_outside = Binary("||", negate(self.lower_bound), negate(self.upper_bound))
        return Quantified("forall", bound_variable.name, Binary("||", is_outside, body))


@dataclass(frozen=True)
class Counter:
    """A counter: a variable that each iteration moves by a constant, or leaves.

    Attributes:
        variable: the variable.
        step: the constant.
        initial_values: possible first values, the most likely first.
        guard_comparison: the guard's comparison of the counter, on the left, with an unchanged
            expression; None without such a comparison.
    """

    variable: Identifier
    step: int
    initial_values: tuple[Expression, ...] = ()
    guard_comparison: Binary | None = None


class Ranges:
    """Ranges of array elements with respect to a loop's counter.

    Args:
        counter: the loop's counter.
        index: the index of the element that each iteration processes, over the state at the head.
        bound_variable: the bound variable for the index.

    Attributes:
        factor: the factor of the counter in the index; 0 if the index is not a linear expression
            in the counter.
        counter_value: the counter's value in the iteration that processes the bound index.
        stride_condition: condition that an iteration processes the bound index; None if the loop
            processes every index.
    """

    def __init__(self, counter: Counter, index: Expression, bound_variable: Identifier) -> None:
        self._counter, self._index, self._bound_variable = counter, index, bound_variable
        factors = dict(decompose_linear(index))
        factor = factors.pop((counter.variable,), 0)
        # A counter inside another part, such as a product, makes the index nonlinear.
        is_nested = any(
            counter.variable.name in variables(part) for parts in factors for part in parts
        )
        self.factor = 0 if is_nested else factor
        # The counter and the index may move in opposite directions.
        self._is_ascending = self.factor * counter.step > 0
        base_index = self._index_at(Constant(0))
        # Division by -1 is avoided, since the difference expresses it directly.
        if self.factor == -1:
            self.counter_value = simplify(Binary("-", base_index, bound_variable))
        else:
            offset = simplify(Binary("-", bound_variable, base_index))
            self.counter_value = offset if factor == 1 else Binary("/", offset, Constant(factor))
        stride = abs(self.factor * counter.step)
        distance = simplify(Binary("-", index, bound_variable))
        remainder = Binary("%", distance, Constant(stride))
        self.stride_condition = Binary("==", remainder, Constant(0)) if stride > 1 else None

    def processed(self, first: Expression) -> Range:
        """Return the range that the loop has processed since the counter's first value."""
        return self._build_range(
            self._build_start_condition(self._index_at(first)),
            self._build_end_condition("<", self._index),
        )

    def remaining(self, index_range: Range) -> Range:
        """Return the part of a range that the loop has not processed."""
        start_condition = self._build_start_condition(self._index)
        # An ascending loop processes the lower end first.
        return (
            Range(start_condition, index_range.upper_bound)
            if self._is_ascending
            else Range(index_range.lower_bound, start_condition)
        )

    def total(self, first: Expression) -> Range | None:
        """Return the range that the loop has processed at its end; None if it is unknown."""
        comparison = self._counter.guard_comparison
        if comparison is None:
            return None
        # The guard must end the loop in the direction of the counter.
        if comparison.operator != "!=" and (comparison.operator[0] == "<") != (
            self._counter.step > 0
        ):
            return None
        operator = "<=" if comparison.operator in ("<=", ">=") else "<"
        return self._build_range(
            self._build_start_condition(self._index_at(first)),
            self._build_end_condition(operator, self._index_at(comparison.right)),
        )

    def _index_at(self, value: Expression) -> Expression:
        """Return the index in the iteration with the given counter value."""
        return substitute(self._index, [(self._counter.variable, value)])

    def _build_start_condition(self, index: Expression) -> Binary:
        """Build the condition that the bound variable is at or after an index."""
        return Binary(">=" if self._is_ascending else "<=", self._bound_variable, index)

    def _build_end_condition(self, operator: str, index: Expression) -> Binary:
        return Binary(
            operator if self._is_ascending else SWAPPED_COMPARISONS[operator],
            self._bound_variable,
            index,
        )

    def _build_range(self, begin: Binary, end: Binary) -> Range:
        return Range(begin, end) if self._is_ascending else Range(end, begin)
