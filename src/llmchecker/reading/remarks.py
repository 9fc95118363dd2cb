"""Assertions in remarks, `//@ assert x > 0;`, which tools for C's annotation language check.

Their arithmetic is that of mathematical integers, whatever the program's integers are (ACSL 1.20,
2.2.3), and two comparisons in a row mean both. What they say is written in a type that is wide
enough; what no type is wide enough for, or C would read otherwise, is refused.
"""

from collections.abc import Callable, Mapping, Sequence

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
from llmchecker.programs.statements import Assign, Assume, Forget, Statement
from llmchecker.reading.c_expressions import called
from llmchecker.reading.declarations import DeclarationReader
from llmchecker.reading.effects import EffectReader
from llmchecker.reading.scopes import Names
from llmchecker.translating.contracts import MEMORY
from llmchecker.translating.syntax import nodes_in

_LONG = Type(64)
_LONGEST = Type(128)

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


class Contract:
    """What a remark requires of the parameters of `main`.

    Args:
        clauses: the conditions; the call of a function for each that is about memory.
        names: gets the arrays.
        declarations: reads types.
        reader: reads conditions.
    """

    def __init__(
        self,
        clauses: Sequence[c_ast.Node],
        names: Names,
        declarations: DeclarationReader,
        reader: EffectReader,
    ) -> None:
        memory = [c for c in clauses if isinstance(c, c_ast.FuncCall) and called(c) == MEMORY]
        self._memory = [call.args.exprs for call in memory]
        self._clauses = [clause for clause in clauses if clause not in memory]
        self._names, self._declarations, self._reader = names, declarations, reader

    def given(self, pointers: Sequence[c_ast.Decl]) -> list[Statement]:
        """The assumptions, and the arrays that the pointers among the parameters lead to.

        An array is as long as the contract says. Two arrays are apart if one clause names both.
        """
        conditions = []
        for clause in self._clauses:

            def refuse(what: str, clause: c_ast.Node = clause) -> Exception:
                return self._reader.unsupported(clause, what)

            refuse_remark(clause, refuse)
            done = self._reader.evaluated(clause)
            conditions.append(mathematical(done.value, self._names.types, refuse))
        given: list[Statement] = [Assume(condition) for condition in conditions]
        last = {
            name.name: (clause, first, end)
            for clause in self._memory
            for name, first, end in zip(clause[::3], clause[1::3], clause[2::3], strict=True)
        }
        named = [pointer for pointer in pointers if pointer.name in last]
        apart = any({p.name for p in named} <= {n.name for n in c[::3]} for c in self._memory)
        if len(named) > 1 and not apart:
            raise self._reader.unsupported(named[0], "arrays of main that may be the same")
        for pointer in named:
            given += self._array(pointer, *last[pointer.name][1:], conditions)
        return given

    def _array(
        self,
        pointer: c_ast.Decl,
        first: c_ast.Node,
        last: c_ast.Node,
        conditions: Sequence[Expression],
    ) -> list[Statement]:
        element = self._declarations.type_named(pointer.type.type)
        begin, end = self._reader.read(first), self._reader.read(last)
        match end:
            case Constant(value=value) if begin == Constant(0) and value >= 0:
                self._names.declare(pointer.name, Type(*_kind(element), Constant(value + 1)))
                return [Forget(pointer.name)]
            case Binary(operator="-", left=Identifier() as count, right=Constant(value=1)):
                positive = (Binary(">", count, Constant(0)), Binary(">=", count, Constant(1)))
                if begin == Constant(0) and any(known in conditions for known in positive):
                    length = self._names.length_of(pointer.name)
                    self._names.declare(pointer.name, Type(*_kind(element), length))
                    return [Assign(length, count), Forget(pointer.name)]
        raise self._reader.unsupported(pointer, f"the length of the array {pointer.name!r} of main")


def _kind(element: Type) -> tuple[int, bool]:
    return element.bits, element.signed


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
        return Cast(_LONG if type_.bits == 32 else _LONGEST, expression)

    def _wide(self, operand: Expression, bits: int) -> Expression:
        """An operand in a type that holds results of so many bits."""
        if bits > _LONGEST.bits:
            raise self._refuse(f"a number of more than {_LONGEST.bits} bits in a remark")
        wide = _LONG if bits <= _LONG.bits else _LONGEST
        if bits <= 32 or type_of(operand, self._types).bits >= wide.bits:
            return operand
        if is_truth(operand):
            raise self._refuse("a number made of a comparison in a remark")
        return Cast(wide, operand)
