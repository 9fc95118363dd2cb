"""Assertions in remarks, `//@ assert x > 0;`, which tools for C's annotation language check.

Their arithmetic is that of mathematical integers, whatever the program's integers are (ACSL 1.20,
2.2.3), and two comparisons in a row mean both. What they say is written in a type that is wide
enough; what no type is wide enough for, or C would read otherwise, is refused.
"""

from collections.abc import Callable, Mapping

from pycparser import c_ast

from llmchecker.programs.expressions import (
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
    is_truth,
    type_of,
)
from llmchecker.translating.syntax import nodes_in

_LONG = Type(64)

Refuse = Callable[[str], Exception]


def refuse_remark(node: c_ast.Node, refuse: Refuse) -> None:
    """Raise what `refuse` makes if the syntax of a remark means something else in C."""
    for part in nodes_in(node, (c_ast.Assignment, c_ast.FuncCall, c_ast.Cast, c_ast.ExprList)):
        raise refuse(f"{type(part).__name__} in a remark")
    for part in nodes_in(node, (c_ast.UnaryOp,)):
        if part.op not in ("-", "+", "!"):
            raise refuse(f"the operator {part.op} in a remark")
    for part in nodes_in(node, (c_ast.BinaryOp,)):
        sides = [side for side in (part.left, part.right) if isinstance(side, c_ast.BinaryOp)]
        if part.op in COMPARISONS and any(side.op in COMPARISONS for side in sides):
            raise refuse("two comparisons in a row in a remark")


def mathematical(expression: Expression, types: Mapping[str, Type], refuse: Refuse) -> Expression:
    """A condition whose value in C is what it means over mathematical integers.

    Args:
        types: the types of the program's variables.
        refuse: makes the error for what cannot be written so.
    """
    return _Widener(types, refuse).widened(expression)[0]


class _Widener:
    def __init__(self, types: Mapping[str, Type], refuse: Refuse) -> None:
        self._types = types
        self._refuse = refuse

    def widened(self, expression: Expression) -> tuple[Expression, int]:
        """The expression in wide types, and the bits of a signed type that its values fit."""
        match expression:
            case Constant(value=value):
                return expression, value.bit_length() + 1
            case Cast(type=type_, operand=Constant(value=value)):
                # A constant with a suffix is a number like any other.
                return self._signed(Constant(value), type_), value.bit_length() + 1
            case Identifier():
                type_ = type_of(expression, self._types)
                return self._signed(expression, type_), type_.bits + (not type_.signed)
            case Element(array=array, index=index):
                type_ = self._types[array].element
                element = Element(array, self.widened(index)[0])
                return self._signed(element, type_), type_.bits + (not type_.signed)
            case Unary(operator="!", operand=operand):
                return Unary("!", self.widened(operand)[0]), 2
            case Unary(operator="-", operand=operand):
                inner, bits = self.widened(operand)
                return Unary("-", self._wide(inner, bits + 1)), bits + 1
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                parts = [self.widened(part) for part in (then, otherwise)]
                chosen = Ternary(self.widened(condition)[0], *(part for part, _ in parts))
                return chosen, max(bits for _, bits in parts)
            case Binary(operator=op) if op in (*COMPARISONS, *CONNECTIVES, *ARITHMETIC):
                return self._binary(expression)
        raise self._refuse("such an operator in a remark")

    def _binary(self, expression: Binary) -> tuple[Expression, int]:
        op = expression.operator
        left, of_left = self.widened(expression.left)
        right, of_right = self.widened(expression.right)
        if op in COMPARISONS or op in CONNECTIVES:
            return Binary(op, left, right), 2
        if op in ("/", "%") and not (isinstance(right, Constant) and right.value != 0):
            raise self._refuse("a division by what may be zero in a remark")
        sums = max(of_left, of_right) + 1
        bits = {"*": of_left + of_right}.get(op, sums)
        return Binary(op, self._wide(left, bits), self._wide(right, bits)), bits

    def _signed(self, expression: Expression, type_: Type) -> Expression:
        """A value as one of a signed type that holds it."""
        if type_.signed or type_.bits < 32:
            return expression
        if type_.bits > 32:
            raise self._refuse("an unsigned long in a remark")
        return Cast(_LONG, expression)

    def _wide(self, operand: Expression, bits: int) -> Expression:
        """An operand in a type that holds results of so many bits."""
        if bits > 64:
            raise self._refuse("a number of more than 64 bits in a remark")
        if bits <= 32 or type_of(operand, self._types).bits == 64:
            return operand
        if is_truth(operand):
            raise self._refuse("a number made of a comparison in a remark")
        return Cast(_LONG, operand)
