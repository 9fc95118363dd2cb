"""Expressions without side effects over the variables of a program.

Statements and invariants contain them. Every expression is immutable, and two expressions with the
same text are equal.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


class Semantics(StrEnum):
    """Semantics of the signed integers of a program."""

    INTEGERS = "integers"
    """Mathematical integers; unsigned types still wrap around, as in C."""
    INT32 = "int32"
    """Two's complement of the type's width; overflow wraps around."""


@dataclass(frozen=True)
class Expression:
    """An expression without side effects."""

    # A subclass has the type as a field or computes it. At run time, dataclasses would take an
    # inherited property for the default value of such a field.
    if TYPE_CHECKING:

        @property
        def type(self) -> "Type":
            """C type of the value."""


@dataclass(frozen=True)
class Type:
    """An integer type of C, or an array of integers.

    Attributes:
        bits: width of the integer, or of each element, in bits.
        signed: whether the integer, or each element, is signed.
        length: number of elements of an array; None for an integer.
    """

    bits: int = 32
    signed: bool = True
    length: Expression | None = None

    @property
    def min_value(self) -> int:
        """Smallest value of the integer type."""
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def max_value(self) -> int:
        """Largest value of the integer type."""
        return (1 << self.bits - self.signed) - 1

    @property
    def is_array(self) -> bool:
        """Whether the type is an array type."""
        return self.length is not None

    @property
    def element_type(self) -> "Type":
        """Type of the elements of an array; for an integer, the type itself."""
        return self.to_array(None)

    def to_array(self, length: Expression | None) -> "Type":
        """Return the type of an array of these integers; without a length, of an integer."""
        return Type(self.bits, self.signed, length)


INT = Type()
BOOL = Type(bits=1, signed=False)


@dataclass(frozen=True)
class Constant(Expression):
    """An integer literal."""

    value: int

    @cached_property
    def type(self) -> Type:
        """Return int if the literal fits, else 64 bits (C11 6.4.4.1).

        INT_MIN has 64 bits, since C reads it as the negation of a number that does not fit.
        """
        return INT if INT_MIN < self.value <= INT_MAX else Type(bits=64)

    def __str__(self) -> str:
        return str(self.value) if self.value >= 0 else f"({self.value})"


@dataclass(frozen=True)
class Identifier(Expression):
    """A variable, also of an array type; its name alone identifies it in a program."""

    name: str
    type: Type = field(compare=False, repr=False)

    def element(self, index: Expression) -> "Element":
        """Return an element of an array variable."""
        return Element(self.name, index, self.type)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Element(Expression):
    """An element of an array variable; names identify arrays within a program."""

    array: str
    index: Expression
    array_type: Type = field(compare=False, repr=False)

    @property
    def type(self) -> Type:
        """Type of the elements of the array."""
        return self.array_type.element_type

    @property
    def length(self) -> Expression:
        """Number of elements of the array: a constant or a variable."""
        assert self.array_type.length is not None
        return self.array_type.length

    def __str__(self) -> str:
        return f"{self.array}[{format_c(self.index)}]"


@dataclass(frozen=True)
class Nondet(Expression):
    """A nondeterministic value: each evaluation may return another."""

    type: Type = INT

    def __str__(self) -> str:
        return "__VERIFIER_nondet()"


@dataclass(frozen=True)
class Unary(Expression):
    """A unary operator applied to an expression: `-`, `!` or `~`."""

    operator: str
    operand: Expression

    @cached_property
    def type(self) -> Type:
        """Type of the promoted operand; int for `!` (C11 6.5.3.3)."""
        return INT if self.operator == "!" else promote(self.operand.type)

    def __str__(self) -> str:
        operand = str(self.operand)
        # Two minus signs in a row would be C's decrement.
        return f"{self.operator}({operand})" if operand[0] == "-" else f"{self.operator}{operand}"


@dataclass(frozen=True)
class Binary(Expression):
    """An arithmetic operator, comparison or connective with two operands."""

    operator: str
    left: Expression
    right: Expression

    @cached_property
    def type(self) -> Type:
        """Common type of the operands; int for truth values (C11 6.5.8p6, 6.5.13p3)."""
        if self.operator in COMPARISONS or self.operator in CONNECTIVES:
            return INT
        # The right operand of a shift does not change the type (C11 6.5.7p3).
        is_shift = self.operator in SHIFTS
        return promote(self.left.type) if is_shift else common_type(self.left.type, self.right.type)

    def __str__(self) -> str:
        return f"({format_c(self)})"


@dataclass(frozen=True)
class Ternary(Expression):
    """A conditional expression: `condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression

    @cached_property
    def type(self) -> Type:
        """Common type of both alternatives (C11 6.5.15p5)."""
        return common_type(self.then.type, self.otherwise.type)

    def __str__(self) -> str:
        return f"({self.condition} ? {self.then} : {self.otherwise})"


@dataclass(frozen=True)
class Cast(Expression):
    """A conversion of an expression to an integer type."""

    type: Type
    operand: Expression

    def __str__(self) -> str:
        return f"({format_type(self.type)}){self.operand}"


@dataclass(frozen=True)
class Quantified(Expression):
    """A quantified condition over all int values of the bound variable.

    Attributes:
        quantifier: `forall` or `exists`.
        variable: name of the bound variable.
        body: condition on the variable.
    """

    quantifier: str
    variable: str
    body: Expression
    type = INT

    def __str__(self) -> str:
        return f"__ESBMC_{self.quantifier}(&{self.variable}, {format_c(self.body)})"


COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONNECTIVES = ("&&", "||")
ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")

NEGATED_COMPARISONS = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
"""Complement of each comparison."""

SWAPPED_COMPARISONS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Comparison with its sides exchanged, for each comparison."""


_C_TYPE_NAMES = {8: "char", 16: "short", 32: "int", 64: "long", 128: "__int128"}


def format_type(type_: Type) -> str:
    """Return the name of an integer type in C; gcc defines the name for 128 bits."""
    if type_ == BOOL:
        return "_Bool"
    # Plain `char` may be unsigned, so `signed` is written for it.
    sign = "unsigned " if not type_.signed else "signed " if type_.bits == 8 else ""
    return sign + _C_TYPE_NAMES[type_.bits]


def format_c(expression: Expression) -> str:
    """Format an expression as C text, without parentheses around the whole.

    Expressions with equal texts are equal.
    """
    if isinstance(expression, Binary):
        return f"{expression.left} {expression.operator} {expression.right}"
    return str(expression)


_Node = TypeVar("_Node", bound=Expression)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct subexpressions, in the order of the text."""
    return tuple(part for part in vars(expression).values() if isinstance(part, Expression))


def with_children(expression: _Node, transform: Callable[[Expression], Expression]) -> _Node:
    """Return a copy of an expression with each direct subexpression transformed."""
    parts = {
        name: transform(part)
        for name, part in vars(expression).items()
        if isinstance(part, Expression)
    }
    return replace(expression, **parts) if parts else expression


def iter_subexpressions(*expressions: Expression) -> Iterator[Expression]:
    """Yield expressions, each followed by all its subexpressions, outermost first."""
    for expression in expressions:
        yield expression
        yield from iter_subexpressions(*children(expression))


def substitute(expression: Expression, old: Expression, new: Expression) -> Expression:
    """Replace every free occurrence of `old` by `new`."""
    if expression == old:
        return new
    match expression:
        case Quantified(variable=variable) if variable in variables(old) | variables(new):
            # The name is bound here: `old` does not occur free, and `new` would be captured.
            return expression
    return with_children(expression, partial(substitute, old=old, new=new))


def variables(expression: Expression) -> frozenset[str]:
    """Return the free names of an expression, including names of arrays."""
    match expression:
        case Identifier(name=name):
            return frozenset((name,))
        case Element(array=array, index=index):
            return variables(index) | {array}
        case Quantified(variable=variable, body=body):
            return variables(body) - {variable}
    return frozenset().union(*map(variables, children(expression)))


def bound_variables(*expressions: Expression) -> frozenset[str]:
    """Return the variables that quantifiers of expressions bind."""
    parts = iter_subexpressions(*expressions)
    return frozenset(part.variable for part in parts if isinstance(part, Quantified))


def size(expression: Expression) -> int:
    """Count the literals, variables and operators of an expression."""
    return sum(1 for _ in iter_subexpressions(expression))


def is_partial(expression: Expression) -> bool:
    """Check for an undefined value in C: the expression divides, indexes or shifts."""
    return any(
        isinstance(node, Element)
        or (isinstance(node, Binary) and node.operator in ("/", "%", *SHIFTS))
        for node in iter_subexpressions(expression)
    )


def has_nondet(expression: Expression) -> bool:
    """Check for a nondeterministic value, which may differ at each evaluation."""
    return any(isinstance(node, Nondet) for node in iter_subexpressions(expression))


def negate(expression: Expression) -> Expression:
    """Negate an expression: the result holds exactly where the argument does not.

    The negation is pushed inwards as far as possible, so that candidates resemble human-written
    text.
    """
    match expression:
        case Binary(operator=op, left=left, right=right) if op in NEGATED_COMPARISONS:
            return Binary(NEGATED_COMPARISONS[op], left, right)
        case Binary(operator="&&" | "||" as op, left=left, right=right):
            return Binary("||" if op == "&&" else "&&", negate(left), negate(right))
        # `!!x` is 0 or 1, so it equals x only where x is a truth value.
        case Unary(operator="!", operand=operand) if is_boolean(operand):
            return operand
    return Unary("!", expression)


def is_boolean(expression: Expression) -> bool:
    """Check for a comparison, connective, `!` or quantifier: the value is 0 or 1."""
    match expression:
        case Binary(operator=op):
            return op in COMPARISONS or op in CONNECTIVES
        case Unary(operator=op):
            return op == "!"
    return isinstance(expression, Quantified)


def promote(type_: Type) -> Type:
    """Apply the integer promotion (C11 6.3.1.1): narrower types become int."""
    return type_ if type_.bits >= INT.bits else INT


def common_type(left: Type, right: Type) -> Type:
    """Apply the usual arithmetic conversions to two integer types (C11 6.3.1.8)."""
    left, right = promote(left), promote(right)
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    # Of two types of one width, the unsigned one wins.
    return left if not left.signed else right


def _divide(left: int, right: int) -> int:
    """Return the quotient, truncated toward zero (C11 6.5.5p6)."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
"""Operations of C on mathematical integers; divisors are not 0."""


def wrap(value: int, type_: Type) -> int:
    """Reduce a value modulo 2 to the power of a type's width, into its range."""
    # The offset is 0 for unsigned types and shifts signed ranges to start at 0.
    return (value - type_.min_value) % (1 << type_.bits) + type_.min_value


def convert_number(value: int, from_type: Type, to_type: Type, semantics: Semantics) -> int:
    """Convert a value from one integer type to another (C11 6.3.1.3; else as gcc).

    Over mathematical integers a signed type is unbounded, except for values from unsigned types.
    """
    # Any nonzero value becomes 1 (C11 6.3.1.2); wrapping would keep the last bit.
    if to_type == BOOL:
        return int(value != 0)
    # A wide unsigned value can exceed the target type, where gcc wraps it around.
    has_range = not to_type.signed or (not from_type.signed and from_type.bits >= to_type.bits)
    if semantics is Semantics.INT32 or has_range:
        return wrap(value, to_type)
    return value
