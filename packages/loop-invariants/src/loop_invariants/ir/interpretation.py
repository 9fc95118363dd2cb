"""Interpretation of expressions: the conversion rules of C, in one place.

Concrete execution and Z3 encoding are interpretations: each defines the operators for its own kind
of values. This module alone selects the type of each operation and the operands to convert (C11
6.3.1, 6.5).
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from loop_invariants.ir.expressions import (
    CONNECTIVES,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Ternary,
    Type,
    Unary,
    common_type,
    is_boolean,
    promote,
)

_Value = TypeVar("_Value")
_Truth = TypeVar("_Truth")


class Interpretation(ABC, Generic[_Value, _Truth]):
    """A meaning of expressions, as a fold over their operators.

    Operands that are always evaluated are passed as values, the left one evaluated first. Operands
    of `&&`, `||` and `?:` are passed as expressions.
    """

    def interpret(self, expression: Expression) -> _Value:
        """Interpret an expression as a value of its own type."""
        if is_boolean(expression):
            return self._from_truth(self.interpret_condition(expression))
        match expression:
            case Constant(value=value):
                return self._constant(value)
            case Identifier(name=name):
                return self._variable(name)
            case Element():
                return self._element(expression)
            case Nondet(type=type_):
                return self._nondet(type_)
            case Cast(type=type_, operand=operand):
                return self.interpret_as(operand, type_)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                return self._choose(condition, then, otherwise, expression.type)
            case Unary(operator=op, operand=operand):
                type_ = expression.type
                return self._apply_unary(op, self.interpret_as(operand, type_), type_)
            case Binary(operator=op, left=left, right=right) if op in SHIFTS:
                # Each operand of a shift is promoted on its own (C11 6.5.7p3).
                type_, shift_type = expression.type, promote(right.type)
                shifted = self.interpret_as(left, type_)
                places = self.interpret_as(right, shift_type)
                return self._apply_shift(op, shifted, places, type_, shift_type)
            case Binary(operator=op, right=right):
                return self._apply_binary(op, *self._interpret_operands(expression), right)
        raise TypeError(expression)

    def interpret_condition(self, expression: Expression) -> _Truth:
        """Interpret an expression as a condition: its value is not zero."""
        match expression:
            case Unary(operator="!", operand=operand):
                return self._negate(self.interpret_condition(operand))
            case Quantified():
                return self._quantify(expression)
            case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
                return self._connect(op, left, right)
            case Binary(operator=op) if is_boolean(expression):
                return self._compare(op, *self._interpret_operands(expression))
        return self._is_nonzero(self.interpret(expression), expression.type)

    def interpret_as(self, expression: Expression, to: Type) -> _Value:
        """Interpret an expression and convert the value to an integer type."""
        return self._convert(self.interpret(expression), expression.type, to)

    def _interpret_operands(self, expression: Binary) -> tuple[_Value, _Value, Type]:
        """Interpret both operands in their common type, and return this type too."""
        sides = expression.left, expression.right
        type_ = common_type(*(side.type for side in sides))
        left, right = (self.interpret_as(side, type_) for side in sides)
        return left, right, type_

    @abstractmethod
    def _constant(self, value: int) -> _Value: ...

    @abstractmethod
    def _variable(self, name: str) -> _Value: ...

    @abstractmethod
    def _element(self, element: Element) -> _Value: ...

    @abstractmethod
    def _nondet(self, type_: Type) -> _Value: ...

    @abstractmethod
    def _convert(self, value: _Value, from_: Type, to: Type) -> _Value:
        """Convert a value of one type to another."""

    @abstractmethod
    def _apply_unary(self, op: str, value: _Value, type_: Type) -> _Value:
        """Apply `-` or `~`, in a promoted type."""

    @abstractmethod
    def _apply_binary(
        self, op: str, a: _Value, b: _Value, type_: Type, right: Expression
    ) -> _Value:
        """Apply an arithmetic or bitwise operator; `right` is the expression of `b`."""

    @abstractmethod
    def _apply_shift(
        self, op: str, value: _Value, places: _Value, type_: Type, of_places: Type
    ) -> _Value:
        """Apply a shift; `of_places` is the type of the shift count."""

    @abstractmethod
    def _choose(
        self, condition: Expression, then: Expression, otherwise: Expression, type_: Type
    ) -> _Value:
        """Evaluate `?:`, converted to `type_`."""

    @abstractmethod
    def _from_truth(self, truth: _Truth) -> _Value:
        """Convert a truth value to 1 or 0, as an int."""

    @abstractmethod
    def _is_nonzero(self, value: _Value, type_: Type) -> _Truth: ...

    @abstractmethod
    def _negate(self, truth: _Truth) -> _Truth: ...

    @abstractmethod
    def _connect(self, op: str, left: Expression, right: Expression) -> _Truth:
        """Evaluate `&&` or `||`, with the right side only where the left does not decide."""

    @abstractmethod
    def _compare(self, op: str, a: _Value, b: _Value, type_: Type) -> _Truth: ...

    @abstractmethod
    def _quantify(self, expression: Quantified) -> _Truth: ...
