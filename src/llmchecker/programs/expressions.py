"""Expressions over the variables of a program: values, and nothing that changes one.

They are the terms of a program's statements and the language of invariants. Every expression is a
frozen value; two that are written alike are equal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


class Semantics(StrEnum):
    """What the integers of a program are."""

    INTEGERS = "integers"
    """Mathematical integers: nothing overflows."""
    INT32 = "int32"
    """Two's complement of the type's width, 32 bits for int; what overflows wraps around."""


@dataclass(frozen=True)
class Type:
    """An integer type of C, or an array of one.

    `array` says whether it is an array; `length` is its number of elements, None if not an array.
    """

    bits: int = 32
    signed: bool = True
    length: "Expression | None" = None

    @property
    def array(self) -> bool:
        """Whether it is an array."""
        return self.length is not None

    @property
    def element(self) -> "Type":
        """The type of an element of the array; of an integer, the type itself."""
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
    """`-` or `!` of an expression."""

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
class Quantified:
    """`forall` or `exists` an int value of the bound variable, the body holds."""

    quantifier: str
    variable: str
    body: "Expression"

    def __str__(self) -> str:
        return f"__ESBMC_{self.quantifier}(&{self.variable}, {_bare(self.body)})"


Expression = Constant | Identifier | Element | Nondet | Unary | Binary | Ternary | Quantified

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONNECTIVES = ("&&", "||")
ARITHMETIC = ("+", "-", "*", "/", "%")

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
"""The comparison that holds where another does not."""


def _bare(expression: "Expression") -> str:
    """C text without the outermost parentheses."""
    if isinstance(expression, Binary):
        return f"{expression.left} {expression.operator} {expression.right}"
    return str(expression)


def c_text(expression: Expression) -> str:
    """Render as C, without parentheses around the whole; equal texts are equal expressions."""
    return _bare(expression)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions of which it consists, in the order of the text."""
    match expression:
        case Element(index=index):
            return (index,)
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Quantified(body=body):
            return (body,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield it and all expressions in it, outermost first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def replaced(expression: Expression, old: Expression, new: Expression) -> Expression:
    """The expression with one expression in the place of another wherever that occurs free."""
    if expression == old:
        return new
    again = partial(replaced, old=old, new=new)
    match expression:
        case Quantified(variable=variable):
            if variable in variables(old) | variables(new):
                return expression
            return replace(expression, body=again(expression.body))
        case Element(index=index):
            return replace(expression, index=again(index))
        case Unary(operand=operand):
            return replace(expression, operand=again(operand))
        case Binary(left=left, right=right):
            return replace(expression, left=again(left), right=again(right))
        case Ternary():
            return Ternary(*map(again, children(expression)))
    return expression


def variables(expression: Expression) -> frozenset[str]:
    """The names that occur free in it, arrays among them."""
    match expression:
        case Identifier(name=name):
            return frozenset((name,))
        case Element(array=array, index=index):
            return variables(index) | {array}
        case Quantified(variable=variable, body=body):
            return variables(body) - {variable}
    return frozenset().union(*map(variables, children(expression)))


def size(expression: Expression) -> int:
    """The number of literals, variables and operators in it."""
    return sum(1 for _ in walk(expression))


def negation(expression: Expression) -> Expression:
    """An expression that holds exactly where the given one does not, with few `!`."""
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
    """Whether its value is always 0 or 1: a comparison, a connective, `!` or a quantifier."""
    match expression:
        case Binary(operator=op):
            return op in COMPARISONS or op in CONNECTIVES
        case Unary(operator=op):
            return op == "!"
    return isinstance(expression, Quantified)


def promoted(type_: Type) -> Type:
    """The integer promotion of a type (C11 6.3.1.1): what is narrower than int becomes int."""
    return type_ if type_.bits >= INT.bits else INT


def common_type(left: Type, right: Type) -> Type:
    """The usual arithmetic conversion of two integer types (C11 6.3.1.8)."""
    left, right = promoted(left), promoted(right)
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if not left.signed else right


def literal_type(value: int) -> Type:
    """int if the digits fit, else the 64-bit type (C11 6.4.4.1).

    So is INT_MIN, since C reads it as the negation of a number that does not fit.
    """
    return INT if INT_MIN < value <= INT_MAX else Type(bits=64)


def type_of(expression: Expression, types: Mapping[str, Type]) -> Type:
    """The C type of an expression.

    Args:
        types: the type of every variable in it; a name without one, such as a bound variable, is
            an int.
    """
    match expression:
        case Constant(value=value):
            return literal_type(value)
        case Identifier(name=name):
            return types.get(name, INT)
        case Element(array=array):
            return types[array].element
        case Nondet(type=type_):
            return type_
        case Unary(operator=op, operand=operand) if op != "!":
            return promoted(type_of(operand, types))
        case Binary(operator=op, left=left, right=right) if op in ARITHMETIC:
            return common_type(type_of(left, types), type_of(right, types))
        case Ternary(then=then, otherwise=otherwise):
            return common_type(type_of(then, types), type_of(otherwise, types))
    return INT
