"""Polynomials with integer coefficients, and their expressions.

`2 * x * y + 3` is `{(x, y): 2, (): 3}`.
"""

from collections.abc import Hashable, Iterable, Mapping
from functools import partial, reduce
from typing import TypeVar

from loop_invariants.ir.expressions import Binary, Constant, Expression

_Variable = TypeVar("_Variable", bound=Hashable)
_Part = TypeVar("_Part", bound=Expression)

Polynomial = Mapping[tuple[_Variable, ...], int]
"""Nonzero coefficient of each product of variables."""


def evaluate(polynomial: Polynomial[_Variable], variables: Mapping[_Variable, int]) -> int:
    """Evaluate a polynomial."""
    total = 0
    for names, coefficient in polynomial.items():
        for name in names:
            coefficient *= variables[name]
        total += coefficient
    return total


def scale(polynomial: Polynomial[_Variable], factor: int) -> Polynomial[_Variable]:
    """Multiply a polynomial by a number."""
    return sum_of({}, polynomial, factor)


def sum_of(
    one: Polynomial[_Variable], other: Polynomial[_Variable], factor: int = 1
) -> Polynomial[_Variable]:
    """Add a multiple of a polynomial to another."""
    total = dict(one)
    for names, coefficient in other.items():
        total[names] = total.get(names, 0) + factor * coefficient
    return {names: coefficient for names, coefficient in total.items() if coefficient}


def decompose_linear(expression: Expression) -> Polynomial[Expression]:
    """Decompose an expression into a polynomial of degree 1 over its parts."""
    match expression:
        case Constant(value=value):
            return {(): value} if value else {}
        case Binary("+" | "-" as operator, left, right):
            sign = 1 if operator == "+" else -1
            return sum_of(decompose_linear(left), decompose_linear(right), sign)
        case Binary("*", left, right):
            for multiplier, multiplicand in ((left, right), (right, left)):
                factor = decompose_linear(multiplier)
                # Only a product with a constant is linear.
                if factor.keys() <= {()}:
                    return scale(decompose_linear(multiplicand), factor.get((), 0))
    return {(expression,): 1}


def build_product(coefficient: int, factors: Iterable[Expression]) -> Expression:
    """Build a product, without a coefficient of 1."""
    factors = tuple(factors)
    # The product of no factors is the coefficient itself.
    if coefficient != 1 or not factors:
        factors = (Constant(coefficient), *factors)
    return reduce(partial(Binary, "*"), factors)


def build_sum(polynomial: Polynomial[_Part]) -> Expression:
    """Build the sum of the products of a polynomial."""
    products = [build_product(coefficient, names) for names, coefficient in polynomial.items()]
    return reduce(partial(Binary, "+"), products) if products else Constant(0)


def build_comparison(operator: str, polynomial: Polynomial[_Part]) -> Binary:
    """Build the comparison of a polynomial with 0, with positive coefficients only."""
    left = {names: coefficient for names, coefficient in polynomial.items() if coefficient > 0}
    right = {names: -coefficient for names, coefficient in polynomial.items() if coefficient < 0}
    return Binary(operator, build_sum(left), build_sum(right))
