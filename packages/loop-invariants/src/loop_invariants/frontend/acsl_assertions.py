"""ACSL assertions in annotations, such as `//@ assert x > 0;`.

ACSL computes with mathematical integers, whatever the program's integers are (ACSL 1.20, 2.2.3).
Two comparisons in a row are a conjunction. A condition is written in a type that is wide enough. It
is rejected if no type is wide enough, or if C would give it another meaning.
"""

import re
from collections.abc import Callable

from pycparser import c_ast

from loop_invariants.frontend.syntax_tree import iter_nodes
from loop_invariants.ir.expressions import (
    ARITHMETIC,
    COMPARISONS,
    CONNECTIVES,
    Binary,
    Cast,
    Constant,
    Element,
    Expression,
    Identifier,
    Ternary,
    Type,
    Unary,
    is_boolean,
    with_children,
)

_INT64 = Type(64)
_INT128 = Type(128)

_ErrorBuilder = Callable[[str], Exception]


def has_contract(source: str) -> bool:
    """Check whether a text may have an ACSL contract, such as `/*@ requires n > 0; */`."""
    return re.search(r"\brequires\b", source) is not None


def check_annotation(node: c_ast.Node, build_error: _ErrorBuilder) -> None:
    """Raise an error of `build_error` if an annotation has another meaning in C."""
    # ACSL expressions have no side effects, and its casts and calls are logical.
    for expression in iter_nodes(
        node, (c_ast.Assignment, c_ast.FuncCall, c_ast.Cast, c_ast.ExprList)
    ):
        raise build_error(f"{type(expression).__name__} in a remark")
    for expression in iter_nodes(node, (c_ast.UnaryOp,)):
        if expression.op not in ("-", "+", "!"):
            raise build_error(f"the operator {expression.op} in a remark")
    for expression in iter_nodes(node, (c_ast.BinaryOp,)):
        sides = [
            side for side in (expression.left, expression.right) if isinstance(side, c_ast.BinaryOp)
        ]
        # `a < b < c` is a conjunction in ACSL, and a comparison with 0 or 1 in C.
        if expression.op in COMPARISONS and any(side.op in COMPARISONS for side in sides):
            raise build_error("two comparisons in a row in a remark")


def widen_condition(expression: Expression, build_error: _ErrorBuilder) -> Expression:
    """Return a condition with the same value in C as over mathematical integers.

    Args:
        expression: the condition.
        build_error: builds the error for an inexpressible condition.
    """
    return _Widener(build_error).widen(expression)[0]


class _Widener:
    def __init__(self, build_error: _ErrorBuilder) -> None:
        self._build_error = build_error

    def widen(self, expression: Expression) -> tuple[Expression, int]:
        """Widen an expression; return it with the bits of a signed type for its values."""
        match expression:
            case Constant(value=value):
                return expression, value.bit_length() + 1
            case Cast(type=type_, operand=Constant(value=value)):
                # The suffix of a constant has no meaning over mathematical integers.
                return self._cast_to_signed(Constant(value), type_), value.bit_length() + 1
            case Identifier(type=type_) | Element(type=type_):
                widened = with_children(expression, lambda index: self.widen(index)[0])
                # A signed type needs one bit more for the values of an unsigned type.
                return self._cast_to_signed(widened, type_), type_.bits + (not type_.signed)
            # A truth value is 0 or 1, which needs 2 bits in a signed type.
            case Unary(operator="!", operand=operand):
                return Unary("!", self.widen(operand)[0]), 2
            case Unary(operator="-", operand=operand):
                wide_operand, bits = self.widen(operand)
                # The negation of the smallest value needs one bit more.
                return Unary("-", self._cast_to_width(wide_operand, bits + 1)), bits + 1
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                alternatives = [self.widen(alternative) for alternative in (then, otherwise)]
                choice = Ternary(
                    self.widen(condition)[0], *(alternative for alternative, _ in alternatives)
                )
                return choice, max(bits for _, bits in alternatives)
            case Binary(operator=op) if op in (*COMPARISONS, *CONNECTIVES, *ARITHMETIC):
                return self._widen_binary(expression)
        raise self._build_error("such an operator in a remark")

    def _widen_binary(self, expression: Binary) -> tuple[Expression, int]:
        op = expression.operator
        left, left_bits = self.widen(expression.left)
        right, right_bits = self.widen(expression.right)
        if op in COMPARISONS or op in CONNECTIVES:
            return Binary(op, left, right), 2
        # ACSL leaves a division by zero unspecified, and C leaves it undefined.
        if op in ("/", "%") and not (isinstance(right, Constant) and right.value != 0):
            raise self._build_error("a division by what may be zero in a remark")
        # A sum needs one bit more than the wider operand, a product the sum of both.
        sum_bits = max(left_bits, right_bits) + 1
        bits = {"*": left_bits + right_bits}.get(op, sum_bits)
        return Binary(op, self._cast_to_width(left, bits), self._cast_to_width(right, bits)), bits

    def _cast_to_signed(self, expression: Expression, type_: Type) -> Expression:
        """Convert a value to a signed type that can hold it."""
        # Narrow unsigned types are promoted to int, which is signed.
        if type_.signed or type_.bits < 32:
            return expression
        return Cast(_INT64 if type_.bits == 32 else _INT128, expression)

    def _cast_to_width(self, operand: Expression, bits: int) -> Expression:
        """Convert an operand to a type that can hold results of `bits` bits."""
        if bits > _INT128.bits:
            raise self._build_error(f"a number of more than {_INT128.bits} bits in a remark")
        wide_type = _INT64 if bits <= _INT64.bits else _INT128
        if bits <= 32 or operand.type.bits >= wide_type.bits:
            return operand
        if is_boolean(operand):
            raise self._build_error("a number made of a comparison in a remark")
        return Cast(wide_type, operand)
