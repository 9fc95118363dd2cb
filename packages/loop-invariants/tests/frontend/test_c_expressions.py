"""Conditions in C: what is read, and what is refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.expressions import MAX_NESTING, parse_condition
from loop_invariants.ir.expressions import (
    INT,
    Binary,
    Constant,
    Expression,
    Identifier,
    Type,
    Unary,
    format_c,
    variables,
)

TYPES = {
    "x": INT,
    "y": INT,
    "u": Type(32, False),
    "a": Type(length=Constant(4)),
    "hidden": Type(64),
}
SCOPE = ("a", "u", "x", "y")


def parsed(written: str) -> Expression:
    return parse_condition(written, SCOPE, TYPES)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("x<y", "x < y"),
        ("x + y * 2 == 7", "(x + (y * 2)) == 7"),
        ("x - y - 1", "(x - y) - 1"),
        ("x < 1 || y < 1 && x", "(x < 1) || ((y < 1) && x)"),
        ("!x == y", "!x == y"),
        ("-x % 3", "-x % 3"),
        ("+x", "x"),
        ("- 5", "(-5)"),
        ("x ? y : 1", "(x ? y : 1)"),
        ("a[x + 1]", "a[x + 1]"),
        ("'a'", "97"),
        ("0x1F + 010 + 0b11", "(31 + 8) + 3"),
        ("3000000000L", "3000000000"),
        ("true || false", "1 || 0"),
        ("(((x)))", "x"),
        ("__ESBMC_forall(&k, a[k] == k)", "__ESBMC_forall(&k, a[k] == k)"),
        ("__ESBMC_exists(&x, x > y)", "__ESBMC_exists(&x, x > y)"),
    ],
)
def test_conditions_are_read(written: str, expected: str) -> None:
    """Precedence, constants of every base, arrays and quantifiers are read as in C."""
    assert format_c(parsed(written)) == expected


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("z > 0", "'z', which is not a variable in scope"),
        ("hidden > 0", "'hidden', which is not a variable in scope"),
        ("hidden[0]", "'hidden', which is not an array in scope"),
        ("x[0]", "'x', which is not an array in scope"),
        ("a > 0", "the array 'a' without an index"),
        ("a[0][1]", "an array of arrays"),
        ("x = 1", "an assignment inside an expression"),
        ("x++ < 3", "an increment inside an expression"),
        ("--x", "an increment inside an expression"),
        ("f(x)", "the call of f"),
        ("__VERIFIER_nondet_int()", "the call of __VERIFIER_nondet_int"),
        ("(x)(y)", "the call of x"),
        ("*x", "a pointer"),
        ("&x", "the address of a variable"),
        ("~x", "the operator ~"),
        ("x & y", "the operator &"),
        ("x << 1", "the operator <<"),
        ("(long)x", "a cast"),
        ("sizeof x", "sizeof"),
        ("x.y", "a structure"),
        ("x, y", "the comma operator"),
        ("1.5", "the constant 1.5"),
        ("1u", "the unsigned constant 1u"),
        ("0xFFFFFFFF", "the unsigned constant 0xFFFFFFFF"),
        ("1L", "the constant 1L"),
        ("9223372036854775808", "the constant 9223372036854775808"),
        ("'ab'", "the constant 'ab'"),
        ("L'a'", "the constant L'a'"),
        ('"text"', 'the constant "text"'),
        ("__ESBMC_forall(&hidden, hidden > 0)", "a quantifier over 'hidden'"),
        ("__ESBMC_forall(&u, u > 0)", "a quantifier over 'u'"),
        ("__ESBMC_forall(&a, a[0])", "a quantifier over 'a'"),
        ("__ESBMC_forall(k, k)", "a quantifier without a variable and a body"),
        ("__ESBMC_forall()", "a quantifier without a variable and a body"),
        ("", "is not a C expression"),
        ("x <", "is not a C expression"),
        ("x; y", "is not a C expression"),
        ("1); (void)(2", "is not a C expression"),
        ("1); } int g(void) { (void)(2", "is not one expression"),
        ("x) + (y", "is not one expression"),
        ("x\0", "is not a C expression"),
        ("x >= 0 and y >= 0", "is not a C expression"),
        ("(" * 5000 + "x" + ")" * 5000, "is not a C expression"),
        ("+".join(["x"] * 2000), f"nesting deeper than {MAX_NESTING}"),
    ],
)
def test_what_is_no_condition_is_refused(written: str, reason: str) -> None:
    """Whatever changes a variable, names what is not in scope or is no C is refused by name."""
    with pytest.raises(UnsupportedProgram) as raised:
        parsed(written)
    assert reason in str(raised.value)


def test_deepest_conditions_are_usable() -> None:
    """What is just not too deep can be written, compared and searched without a full stack."""
    deep = "+".join(["x"] * (MAX_NESTING - 2))
    expression = parsed(deep)
    assert variables(expression) == {"x"}
    assert parsed(format_c(expression)) == expression
    assert hash(expression) == hash(parsed(deep))


def test_minus_of_a_number_is_a_number() -> None:
    """`-3` is a literal; `-x` and `x - 3` are operators."""
    assert parsed("-3") == Constant(-3)
    assert parsed("-x") == Unary("-", Identifier("x", INT))
    assert parsed("x - 3") == Binary("-", Identifier("x", INT), Constant(3))


TOKENS = st.sampled_from(
    "x y a u k ( ) [ ] { } ; , + - * / % < <= == = && || ! & ? : 0 1 0x 07 1.5 1u \"s\" 'c' "
    "__ESBMC_forall(& int if while ++ -- -> . # // /* */ \\ \n".split(" ")
)


@given(st.lists(TOKENS, max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_text_is_read_or_refused(written: str) -> None:
    """A text that a model wrote is an expression over the scope, or UnsupportedProgram."""
    try:
        expression = parsed(written)
    except UnsupportedProgram:
        return
    assert variables(expression) <= set(SCOPE)
    assert parsed(format_c(expression)) == expression
