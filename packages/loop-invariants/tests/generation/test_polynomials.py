"""Polynomial equalities of concrete states."""

import random

import pytest
from helpers.invariant_programs import integers

from loop_invariants.generation.polynomials import find_polynomial_equalities
from loop_invariants.ir.expressions import format_c, variables


def python(expression) -> str:
    """An equality as Python's own arithmetic reads it: the operators are the same."""
    return format_c(expression)


def states(of, count: int = 60) -> list[dict[str, int]]:
    """States of some values of n."""
    return [of(n) for n in range(count)]


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (lambda n: {"n": n, "s": n * (n + 1) // 2}, "((n * n) + n) == (2 * s)"),
        (
            lambda n: {"n": n, "s": n * (n + 1) * (2 * n + 1) // 6},
            "((((2 * n) * n) * n) + ((3 * n) * n)) + n == 6 * s",
        ),
        (lambda n: {"n": n, "y": n * n, "z": 2 * n + 5}, "z == 2 * n + 5"),
    ],
)
def test_known_sums_are_found(of, wanted):
    """The closed forms of sums are among the equalities, up to the order of their sides."""
    found = find_polynomial_equalities(integers(of(0)), states(of))
    points = [{**of(n), **{"n": n}} for n in range(100)] + [{"n": 3, "s": 4, "y": 9, "z": 0}]
    same = [
        all(eval(python(e), {}, p) == eval(wanted, {}, p) for p in points if set(p) >= variables(e))
        for e in found
    ]
    assert any(same)


def test_what_is_found_holds_in_every_state_and_nothing_is_found_twice():
    """Of Bezout's coefficients the five quadratic equalities are found, and no multiple of them."""
    source = random.Random(1)
    seen = []
    for _ in range(60):
        x, y = source.randint(1, 30), source.randint(1, 30)
        a, b, p, q, r, s = x, y, 1, 0, 0, 1
        while a != b:
            seen.append({"a": a, "b": b, "p": p, "q": q, "r": r, "s": s, "x": x, "y": y})
            if a > b:
                a, p, r = a - b, p - q, r - s
            else:
                b, q, s = b - a, q - p, s - r
    found = find_polynomial_equalities(integers("abpqrsxy"), seen)
    assert len(found) == 5
    for equality in found:
        assert all(eval(python(equality), {}, state) for state in seen)


def test_points_without_structure_have_no_equality():
    """Random values satisfy none, though a few of them always lie on some surface."""
    source = random.Random(2)
    for count in (3, 8, 25, 80):
        drawn = [{n: source.randint(-50, 50) for n in "xyz"} for _ in range(count)]
        assert find_polynomial_equalities(integers("xyz"), drawn) == ()


def test_large_values_are_exact():
    """What is equal only modulo the prime that is computed with is no equality."""
    near = [{"x": n, "y": n**2 - (2**31 - 1)} for n in range(47_000, 47_040)]
    assert find_polynomial_equalities(integers("xy"), near) == ()
