"""Expressions: their text, names, negations and types."""

import itertools

import pytest

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.interpreter.evaluator import Evaluator
from loop_invariants.ir.expressions import (
    BOOL,
    INT,
    INT_MAX,
    INT_MIN,
    Binary,
    Constant,
    Element,
    Expression,
    Identifier,
    Nondet,
    Quantified,
    Semantics,
    Ternary,
    Type,
    Unary,
    children,
    common_type,
    format_c,
    is_boolean,
    iter_subexpressions,
    negate,
    promote,
    size,
    variables,
)

X, Y = Identifier("x", INT), Identifier("y", INT)
TYPES = {"x": INT, "y": INT, "a": Type(length=Constant(4))}


def parsed(written: str) -> Expression:
    return parse_condition(written, TYPES.keys(), TYPES)


def value(expression: Expression, **state: int) -> int:
    return Evaluator(Semantics.INTEGERS, lambda type_: 0).interpret(expression)(dict(state))


@pytest.mark.parametrize(
    "written",
    [
        "x",
        "-x",
        "!x",
        "-(-x)",
        "!(-x)",
        "x - (-1)",
        "x - (-y)",
        "(x + y) * 2",
        "x - (y - 1)",
        "(x < y) == (y < 3)",
        "(x > 0 ? x : (-x))",
        "a[x + 1] <= 3",
        "__ESBMC_forall(&k, (!(k >= 0)) || (a[k] == x))",
        "__ESBMC_exists(&k, a[k] == x)",
    ],
)
def test_text_keeps_the_meaning(written: str) -> None:
    """What is read and written is read as the same expression again."""
    expression = parsed(written)
    assert parsed(format_c(expression)) == expression


def test_bound_variables_are_not_free() -> None:
    """The names in an expression are its free variables and arrays."""
    assert variables(parsed("__ESBMC_forall(&k, a[k] < x + k)")) == {"a", "x"}


def test_size_counts_every_node() -> None:
    """`size` counts literals, variables and operators, those in indices too."""
    assert size(parsed("x + 1 < a[y]")) == 6
    assert next(iter_subexpressions(X)) == X


@pytest.mark.parametrize(
    "written",
    ["x < y", "x == y && y > 1", "x < 1 || y < 1 && x != y", "!(x < y)", "x", "!x", "x + y", "!!x"],
)
def test_negation_holds_where_the_expression_does_not(written: str) -> None:
    """In every state exactly one of an expression and its negation holds."""
    expression = parsed(written)
    for x, y in itertools.product(range(-2, 3), repeat=2):
        assert bool(value(expression, x=x, y=y)) != bool(value(negate(expression), x=x, y=y))


def test_negation_of_a_comparison_needs_no_operator() -> None:
    """Comparisons are turned round rather than put under a `!`."""
    assert negate(Binary("<", X, Y)) == Binary(">=", X, Y)
    assert negate(Unary("!", Binary("<", X, Y))) == Binary("<", X, Y)


def test_truths_are_0_or_1() -> None:
    """Comparisons, connectives, `!` and quantifiers are truths, arithmetic is none."""
    for written in ("x < y", "x && y", "!x", "__ESBMC_forall(&k, k)"):
        assert is_boolean(parsed(written))
    for written in ("x + y", "-x", "x", "3", "a[0]", "(x ? 1 : 0)"):
        assert not is_boolean(parsed(written))


def test_types_of_literals_and_operators() -> None:
    """Types follow C's promotions and conversions; a bound variable is an int."""
    c, u = Identifier("c", Type(8)), Identifier("u", Type(32, False))
    f, long = Identifier("f", BOOL), Identifier("l", Type(64))
    assert Constant(INT_MAX).type == INT
    assert Constant(INT_MAX + 1).type == Type(64)
    assert Constant(INT_MIN).type == Type(64), "C reads it as the negation of a long"
    assert promote(BOOL) == promote(Type(16, False)) == INT
    assert common_type(INT, Type(32, False)) == Type(32, False)
    assert common_type(Type(32, False), Type(64)) == Type(64)
    assert Unary("-", c).type == Unary("!", long).type == INT
    assert Binary("+", u, c).type == Type(32, False)
    assert Binary("<<", c, long).type == Binary("<", u, long).type == INT
    assert Ternary(X, f, long).type == Type(64)
    assert Element("a", X, TYPES["a"]).type == INT
    assert Nondet(BOOL).type == BOOL
    (bound,) = children(parsed("__ESBMC_forall(&k, k >= 0)").body)[:1]
    assert Quantified("forall", "k", bound).type == bound.type == INT
