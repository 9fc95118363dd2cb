"""ACSL assertions in annotations, such as `//@ assert x > 0;`, and contracts.

ACSL computes with mathematical integers, whatever the program's integers are (ACSL 1.20, 2.2.3).
Two comparisons in a row are a conjunction. A condition is written in a type that is wide enough. It
is rejected if no type is wide enough, or if C would give it another meaning.
"""

from collections.abc import Callable, Sequence

from pycparser import c_ast

from loop_invariants.frontend.declarations import DeclarationReader
from loop_invariants.frontend.expressions import callee_name
from loop_invariants.frontend.preprocessing.acsl_contracts import MEMORY_FUNCTION
from loop_invariants.frontend.side_effects import EffectReader
from loop_invariants.frontend.symbol_table import SymbolTable
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
from loop_invariants.ir.statements import Assign, Assume, Havoc, Statement

_INT64 = Type(64)
_INT128 = Type(128)

_ErrorBuilder = Callable[[str], Exception]


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


class Contract:
    """The ACSL contract of `main`, which restricts its parameters.

    Args:
        clauses: conditions; a clause about memory is the call of a function.
        symbols: symbol table that receives the arrays.
        declarations: reads types.
        reader: reads conditions.
    """

    def __init__(
        self,
        clauses: Sequence[c_ast.Node],
        symbols: SymbolTable,
        declarations: DeclarationReader,
        reader: EffectReader,
    ) -> None:
        memory = [
            c
            for c in clauses
            if isinstance(c, c_ast.FuncCall) and callee_name(c) == MEMORY_FUNCTION
        ]
        self._memory_clauses = [call.args.exprs for call in memory]
        self._clauses = [clause for clause in clauses if clause not in memory]
        self._symbols, self._declarations, self._reader = symbols, declarations, reader

    def build_assumptions(self, pointers: Sequence[c_ast.Decl]) -> list[Statement]:
        """Build the assumptions, and the arrays that the pointer parameters point to.

        An array has the length in the contract. Two arrays are disjoint if one clause contains
        both.
        """
        conditions = []
        for clause in self._clauses:
            # The default argument binds the clause of this iteration.
            def describe_error(what: str, clause: c_ast.Node = clause) -> Exception:
                return self._reader.build_error(clause, what)

            check_annotation(clause, describe_error)
            evaluation = self._reader.evaluate(clause)
            conditions.append(widen_condition(evaluation.value, describe_error))
        assumptions: list[Statement] = [Assume(condition) for condition in conditions]
        ranges = {
            name.name: (clause, first, end)
            for clause in self._memory_clauses
            for name, first, end in zip(clause[::3], clause[1::3], clause[2::3], strict=True)
        }
        range_pointers = [pointer for pointer in pointers if pointer.name in ranges]
        are_separated = any(
            {p.name for p in range_pointers} <= {n.name for n in c[::3]}
            for c in self._memory_clauses
        )
        # Two pointers without a separation clause could share an array.
        if len(range_pointers) > 1 and not are_separated:
            raise self._reader.build_error(range_pointers[0], "arrays of main that may be the same")
        for pointer in range_pointers:
            assumptions += self._declare_array(pointer, *ranges[pointer.name][1:], conditions)
        return assumptions

    def _declare_array(
        self,
        pointer: c_ast.Decl,
        first: c_ast.Node,
        last: c_ast.Node,
        conditions: Sequence[Expression],
    ) -> list[Statement]:
        element = self._declarations.read_type(pointer.type.type)
        first_index, last_index = self._reader.read(first), self._reader.read(last)
        match last_index:
            case Constant(value=value) if first_index == Constant(0) and value >= 0:
                # The range from 0 to `value` has one element more.
                self._symbols.declare(pointer.name, element.to_array(Constant(value + 1)))
                return [Havoc(pointer.name)]
            case Binary(operator="-", left=Identifier() as count, right=Constant(value=1)):
                positivity_conditions = (
                    Binary(">", count, Constant(0)),
                    Binary(">=", count, Constant(1)),
                )
                # A length must be positive, which an earlier condition guarantees.
                if first_index == Constant(0) and any(
                    condition in conditions for condition in positivity_conditions
                ):
                    length = self._symbols.create_length_variable(pointer.name)
                    self._symbols.declare(pointer.name, element.to_array(length))
                    return [Assign(length, count), Havoc(pointer.name)]
        raise self._reader.build_error(pointer, f"the length of the array {pointer.name!r} of main")


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
