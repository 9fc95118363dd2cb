"""Expressions over the variables of a program. They have a value and change nothing.

The statements of programs are built from them, and invariants are written in them. Every expression
is frozen, and two expressions with the same text are equal.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


class Semantics(StrEnum):
    """What the integers of a program are."""

    INTEGERS = "integers"
    """Mathematical integers: nothing signed overflows. Unsigned types wrap around, as C defines."""
    INT32 = "int32"
    """Two's complement of the type's width, 32 bits for int: overflow wraps around."""


@dataclass(frozen=True)
class Type:
    """An integer type of C, or an array of one.

    Attributes:
        bits: the width of the integer, or of each element.
        signed: whether the integer, or each element, is signed.
        length: the number of elements of an array; None for an integer.
    """

    bits: int = 32
    signed: bool = True
    length: "Expression | None" = None

    @property
    def least(self) -> int:
        """The least value of the integer type."""
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def most(self) -> int:
        """The largest value of the integer type."""
        return (1 << self.bits - self.signed) - 1

    @property
    def array(self) -> bool:
        """Whether the type is that of an array."""
        return self.length is not None

    @property
    def element(self) -> "Type":
        """The type of the elements of an array; for an integer, the type itself."""
        return Type(self.bits, self.signed)


INT = Type()
BOOL = Type(bits=1, signed=False)


@dataclass(frozen=True)
class Constant:
    """A whole number."""

    value: int

    def __str__(self) -> str:
        return str(self.value) if self.value >= 0 else f"({self.value})"


@dataclass(frozen=True)
class Identifier:
    """An integer variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Element:
    """An element of an array variable."""

    array: str
    index: "Expression"

    def __str__(self) -> str:
        return f"{self.array}[{_bare(self.index)}]"


@dataclass(frozen=True)
class Nondet:
    """A value that the program does not determine: each evaluation may give another."""

    type: Type = INT

    def __str__(self) -> str:
        return "__VERIFIER_nondet()"


@dataclass(frozen=True)
class Unary:
    """`-`, `!` or `~` of an expression."""

    operator: str
    operand: "Expression"

    def __str__(self) -> str:
        operand = str(self.operand)
        return f"{self.operator}({operand})" if operand[0] == "-" else f"{self.operator}{operand}"


@dataclass(frozen=True)
class Binary:
    """An arithmetic operator, comparison or connective with two operands."""

    operator: str
    left: "Expression"
    right: "Expression"

    def __str__(self) -> str:
        return f"({_bare(self)})"


@dataclass(frozen=True)
class Ternary:
    """`condition ? then : otherwise`."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"

    def __str__(self) -> str:
        return f"({self.condition} ? {self.then} : {self.otherwise})"


@dataclass(frozen=True)
class Cast:
    """The value of an expression, converted to an integer type."""

    type: Type
    operand: "Expression"

    def __str__(self) -> str:
        return f"({c_name(self.type)}){self.operand}"


@dataclass(frozen=True)
class Quantified:
    """The body holds for all int values of the bound variable, or for one of them.

    Attributes:
        quantifier: `forall` or `exists`.
        variable: the name of the bound variable.
        body: the condition on it.
    """

    quantifier: str
    variable: str
    body: "Expression"

    def __str__(self) -> str:
        return f"__ESBMC_{self.quantifier}(&{self.variable}, {_bare(self.body)})"


Expression = Constant | Identifier | Element | Nondet | Unary | Binary | Ternary | Cast | Quantified

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONNECTIVES = ("&&", "||")
ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
"""The comparison that holds where another does not."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Each comparison, with its sides the other way round."""


_WORDS = {8: "char", 16: "short", 32: "int", 64: "long", 128: "__int128"}


def c_name(type_: Type) -> str:
    """The name of an integer type in C; one of 128 bits is gcc's."""
    if type_ == BOOL:
        return "_Bool"
    sign = "unsigned " if not type_.signed else "signed " if type_.bits == 8 else ""
    return sign + _WORDS[type_.bits]


def _bare(expression: "Expression") -> str:
    """C text without the outermost parentheses."""
    if isinstance(expression, Binary):
        return f"{expression.left} {expression.operator} {expression.right}"
    return str(expression)


def c_text(expression: Expression) -> str:
    """The C text of an expression, without parentheses around the whole.

    Expressions with equal texts are equal.
    """
    return _bare(expression)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression, in the order of the text."""
    match expression:
        case Element(index=index):
            return (index,)
        case Unary(operand=operand) | Cast(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Quantified(body=body):
            return (body,)
    return ()


def with_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with each of its direct parts changed."""
    match expression:
        case Element(index=index):
            return replace(expression, index=change(index))
        case Unary(operand=operand) | Cast(operand=operand):
            return replace(expression, operand=change(operand))
        case Binary(left=left, right=right):
            return replace(expression, left=change(left), right=change(right))
        case Ternary():
            return Ternary(*map(change, children(expression)))
        case Quantified(body=body):
            return replace(expression, body=change(body))
    return expression


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all expressions inside it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def replaced(expression: Expression, old: Expression, new: Expression) -> Expression:
    """The expression with `new` in every place where `old` occurs free."""
    if expression == old:
        return new
    again = partial(replaced, old=old, new=new)
    match expression:
        case Quantified(variable=variable) if variable in variables(old) | variables(new):
            # The name is bound here: `old` does not occur free, and `new` would be captured.
            return expression
    return with_children(expression, again)


def variables(expression: Expression) -> frozenset[str]:
    """The names that occur free in an expression, those of arrays included."""
    match expression:
        case Identifier(name=name):
            return frozenset((name,))
        case Element(array=array, index=index):
            return variables(index) | {array}
        case Quantified(variable=variable, body=body):
            return variables(body) - {variable}
    return frozenset().union(*map(variables, children(expression)))


def size(expression: Expression) -> int:
    """The number of literals, variables and operators in an expression."""
    return sum(1 for _ in walk(expression))


def is_partial(expression: Expression) -> bool:
    """Whether C leaves some value of an expression undefined: it divides, indexes or shifts."""
    return any(
        isinstance(part, Element)
        or (isinstance(part, Binary) and part.operator in ("/", "%", *SHIFTS))
        for part in walk(expression)
    )


def is_open(expression: Expression) -> bool:
    """Whether an expression draws a value, so that it may have another one each time."""
    return any(isinstance(part, Nondet) for part in walk(expression))


def negation(expression: Expression) -> Expression:
    """An expression that holds exactly where the given one does not.

    It pushes the negation inwards as far as it can, so that candidates read like what people write.
    """
    match expression:
        case Binary(operator=op, left=left, right=right) if op in NEGATED:
            return Binary(NEGATED[op], left, right)
        case Binary(operator="&&", left=left, right=right):
            return Binary("||", negation(left), negation(right))
        case Binary(operator="||", left=left, right=right):
            return Binary("&&", negation(left), negation(right))
        case Unary(operator="!", operand=operand) if is_truth(operand):
            return operand
    return Unary("!", expression)


def is_truth(expression: Expression) -> bool:
    """Whether an expression is a comparison, a connective, `!` or a quantifier, thus 0 or 1."""
    match expression:
        case Binary(operator=op):
            return op in COMPARISONS or op in CONNECTIVES
        case Unary(operator=op):
            return op == "!"
    return isinstance(expression, Quantified)


def promoted(type_: Type) -> Type:
    """The integer promotion of a type (C11 6.3.1.1): a type narrower than int becomes int."""
    return type_ if type_.bits >= INT.bits else INT


def common_type(left: Type, right: Type) -> Type:
    """The usual arithmetic conversion of two integer types (C11 6.3.1.8)."""
    left, right = promoted(left), promoted(right)
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if not left.signed else right


def wrapped_to(value: int, type_: Type) -> int:
    """The number of an integer type that is equal to the value modulo 2 to its width."""
    return (value - type_.least) % (1 << type_.bits) + type_.least


def converted_number(value: int, from_: Type, to: Type, semantics: Semantics) -> int:
    """A value of one integer type as a value of another (C11 6.3.1.3; gcc where that is open).

    Over mathematical integers a signed type has no borders, unless an unsigned value comes in.
    """
    if to == BOOL:
        return int(value != 0)
    bounded = not to.signed or (not from_.signed and from_.bits >= to.bits)
    if semantics is Semantics.INT32 or bounded:
        return wrapped_to(value, to)
    return value


def literal_type(value: int) -> Type:
    """The type of a literal: int if its digits fit, else the 64-bit type (C11 6.4.4.1).

    INT_MIN has 64 bits, since C reads it as the negation of a number that does not fit.
    """
    return INT if INT_MIN < value <= INT_MAX else Type(bits=64)


def type_of(expression: Expression, types: Mapping[str, Type]) -> Type:
    """The C type of an expression.

    Args:
        types: the type of every variable in it. A name without a type, such as a bound variable,
            is an int.
    """
    match expression:
        case Constant(value=value):
            return literal_type(value)
        case Identifier(name=name):
            return types.get(name, INT)
        case Element(array=array):
            return types[array].element
        case Nondet(type=type_) | Cast(type=type_):
            return type_
        case Unary(operator=op, operand=operand) if op != "!":
            return promoted(type_of(operand, types))
        case Binary(operator=op, left=left, right=right) if op in (*ARITHMETIC, *BITWISE):
            return common_type(type_of(left, types), type_of(right, types))
        case Binary(operator=op, left=left) if op in SHIFTS:
            return promoted(type_of(left, types))
        case Ternary(then=then, otherwise=otherwise):
            return common_type(type_of(then, types), type_of(otherwise, types))
    return INT


def without_steps(expression: Expression) -> Expression:
    """The expression without `+ 1 - 1` and `- 1 + 1`, which do nothing in a promoted type."""
    match expression:
        case Binary("-", Binary("+", inner, Constant(1)), Constant(1)):
            return without_steps(inner)
        case Binary("+", Binary("-", inner, Constant(1)), Constant(1)):
            return without_steps(inner)
        case Binary(operator, left, right):
            return Binary(operator, without_steps(left), without_steps(right))
    return expression
