"""Interpretation of expressions: the conversion rules of C, in one place.

Concrete execution, Z3 encoding and loop acceleration are interpretations: each defines the
operators for its own kind of values. This module alone selects the type of each operation and the
operands to convert (C11 6.3.1, 6.5).
"""

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


class Interpretation(Generic[_Value, _Truth]):
    """A meaning of expressions, as a fold over their operators.

    A subclass defines the methods below. Operands that are always evaluated are passed as values,
    the left one evaluated first. Operands of `&&`, `||` and `?:` are passed as expressions.

    - `constant(value)`, `variable(name)`, `element(element)`, `nondet(type_)`
    - `convert(value, from_, to)`: a value of one type as a value of another
    - `apply_unary(op, value, type_)`: `-` or `~`, in a promoted type
    - `apply_binary(op, a, b, type_, right)`: arithmetic, bitwise; `right` is the expression of `b`
    - `apply_shift(op, value, places, type_, of_places)`: `of_places` is the type of the shift count
    - `choose(condition, then, otherwise, type_)`: `?:`, converted to `type_`
    - `from_truth(truth)`: 1 or 0, as an int
    - `is_nonzero(value, type_)`, `negate(truth)`, `connect(op, left, right)`: truth values
    - `compare(op, a, b, type_)`, `quantify(expression)`: truth values
    """

    def interpret(self, expression: Expression) -> _Value:
        """Interpret an expression as a value of its own type."""
        if is_boolean(expression):
            return self.from_truth(self.interpret_condition(expression))
        match expression:
            case Constant(value=value):
                return self.constant(value)
            case Identifier(name=name):
                return self.variable(name)
            case Element():
                return self.element(expression)
            case Nondet(type=type_):
                return self.nondet(type_)
            case Cast(type=type_, operand=operand):
                return self.interpret_as(operand, type_)
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                return self.choose(condition, then, otherwise, expression.type)
            case Unary(operator=op, operand=operand):
                type_ = expression.type
                return self.apply_unary(op, self.interpret_as(operand, type_), type_)
            case Binary(operator=op, left=left, right=right) if op in SHIFTS:
                # Each operand of a shift is promoted on its own (C11 6.5.7p3).
                type_, shift_type = expression.type, promote(right.type)
                value, shift_count = (
                    self.interpret_as(left, type_),
                    self.interpret_as(right, shift_type),
                )
                return self.apply_shift(op, value, shift_count, type_, shift_type)
            case Binary(operator=op, right=right):
                return self.apply_binary(op, *self._interpret_operands(expression), right)
        raise TypeError(expression)

    def interpret_condition(self, expression: Expression) -> _Truth:
        """Interpret an expression as a condition: its value is not zero."""
        match expression:
            case Unary(operator="!", operand=operand):
                return self.negate(self.interpret_condition(operand))
            case Quantified():
                return self.quantify(expression)
            case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
                return self.connect(op, left, right)
            case Binary(operator=op) if is_boolean(expression):
                return self.compare(op, *self._interpret_operands(expression))
        return self.is_nonzero(self.interpret(expression), expression.type)

    def interpret_as(self, expression: Expression, to: Type) -> _Value:
        """Interpret an expression and convert the value to an integer type."""
        return self.convert(self.interpret(expression), expression.type, to)

    def _interpret_operands(self, expression: Binary) -> tuple[_Value, _Value, Type]:
        """Interpret both operands in their common type, and return this type too."""
        sides = expression.left, expression.right
        type_ = common_type(*(side.type for side in sides))
        left, right = (self.interpret_as(side, type_) for side in sides)
        return left, right, type_
