"""Small programs that several tests of invariants share, and what a condition over them is."""

from collections.abc import Iterable, Mapping

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import (
    COMPARISONS,
    CONNECTIVES,
    INT,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Type,
    Unary,
)

COUNTER = parse_program(
    """int main() {
        int n = __VERIFIER_nondet_int(); int x = 0; int y = 5;
        __VERIFIER_assume(n >= 0);
        while (x < n) { x = x + 1; }
        __VERIFIER_assert(x == n);
    }""",
    "counter",
)
ARRAY = parse_program(
    """int main() {
        int a[4]; int i = 0;
        while (i < 4) { a[i] = 7; i = i + 1; }
        assert(a[2] == 7);
    }""",
    "array",
)
TWO_LOOPS = parse_program(
    """int main() {
        int i = 0; int j = 0;
        while (i < 8) i = i + 1;
        for (int k = 0; k < i; k++) j = j + 1;
        assert(j == 8);
    }""",
    "two_loops",
)


def integers(names: Iterable[str]) -> list[Identifier]:
    """Int variables with these names."""
    return [Identifier(name, INT) for name in names]


def is_value(expression: Expression, types: Mapping[str, Type]) -> bool:
    """Whether an expression is in the grammar as a value, by its syntax tree."""
    match expression:
        case Constant():
            return True
        case Identifier(name=name):
            return not types[name].is_array
        case Element(array=array, index=index):
            return types[array].is_array and is_value(index, types)
        case Unary(operator="-", operand=operand):
            return is_value(operand, types)
        case Binary(operator="+" | "-" | "*", left=left, right=right):
            return is_value(left, types) and is_value(right, types)
    return False


def is_condition(expression: Expression, types: Mapping[str, Type]) -> bool:
    """Whether an expression is in the grammar as a condition, by its syntax tree."""
    match expression:
        case Unary(operator="!", operand=operand):
            return is_condition(operand, types)
        case Binary(operator=op, left=left, right=right) if op in COMPARISONS:
            return is_value(left, types) and is_value(right, types)
        case Binary(operator=op, left=left, right=right) if op in CONNECTIVES:
            return is_condition(left, types) and is_condition(right, types)
    return False
