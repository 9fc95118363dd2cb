"""Polynomial equalities that hold in all states of concrete runs.

The polynomials that vanish on a set of points are an ideal. Buchberger and Möller's algorithm
(1982) finds a Gröbner basis of it, degree by degree, by linear algebra on the values of monomials.
So no equality is found twice, and none that follows from others of a lower degree by
multiplication. That is done modulo a prime, where it is fast; the coefficients are then made
rational numbers again, and those that do not hold exactly are dropped. Equalities that runs suggest
are those of Sharma et al. (2013) and of NumInv (Nguyen et al. 2017).
"""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from math import lcm, prod

import numpy as np

from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import Binary, Constant, Expression, Identifier

_PRIME = 2**31 - 1
_LARGEST_COEFFICIENT = 1000
"""The largest coefficient: larger ones come from chance, where states are too few."""
_MOST_TERMS = 12
"""The most products in an equality, for the same reason."""
_LARGEST_VALUE = 10**9
_MOST_MONOMIALS = 130
_MOST_STATES = 400
_SPARE = 5
"""So many states more than monomials are wanted."""

Monomial = tuple[str, ...]
"""The variables of a product, sorted; one that stands twice is squared."""


def polynomials(
    names: Sequence[str], states: Sequence[ConcreteState], degree: int = 3
) -> tuple[Expression, ...]:
    """Equalities of polynomials that hold in every state, those of low degrees first.

    Each is a sum of products with whole coefficients on both sides, such as `2 * s == n * n + n`.
    Those of lower degree are not multiplied into others. The degree is the largest at which there
    are more states than monomials.

    Args:
        names: the variables to relate.
        states: from runs at one loop head; those with very large values are left out.
        degree: the highest degree.
    """
    points = [[s[name] for name in names] for s in states]
    points = [p for p in points if all(abs(value) <= _LARGEST_VALUE for value in p)]
    # Distinct points only: others tell nothing, and small values come first in the runs' order.
    points = [list(p) for p in dict.fromkeys(map(tuple, points))]
    points = points[:: max(1, -(-len(points) // _MOST_STATES))]
    found = []
    for polynomial in _vanishing(len(names), points, degree):
        named = {tuple(names[v] for v in m): c for m, c in polynomial.items()}
        if 1 < len(polynomial) <= _MOST_TERMS and _vanishes(polynomial, points):
            found.append(_equality(named))
    return tuple(found)


def _vanishing(
    width: int, points: Sequence[Sequence[int]], degree: int
) -> Iterator[dict[tuple[int, ...], int]]:
    """Polynomials that are zero modulo the prime at each point, as coefficients of monomials."""
    if len(points) <= _SPARE:
        return
    values = np.array([[v % _PRIME for v in p] for p in points], dtype=np.int64)
    rows: list[np.ndarray] = []  # reduced vectors, each with a one at its pivot
    pivots: list[int] = []
    combinations: list[dict[tuple[int, ...], int]] = []  # how each row is made of monomials
    leading: list[tuple[int, ...]] = []
    for size in range(degree + 1):
        monomials = [
            m
            for m in combinations_with_replacement(range(width), size)
            if not any(_divides(lead, m) for lead in leading)
        ]
        room = min(_MOST_MONOMIALS, len(points) - _SPARE)
        if len(rows) + len(monomials) > room:
            return
        for monomial in monomials:
            vector = np.ones(len(points), dtype=np.int64)
            for variable in monomial:
                vector = vector * values[:, variable] % _PRIME
            combination = {monomial: 1}
            for row, pivot, made in zip(rows, pivots, combinations, strict=True):
                factor = int(vector[pivot])
                if factor:
                    vector = (vector - factor * row) % _PRIME
                    for m, c in made.items():
                        combination[m] = (combination.get(m, 0) - factor * c) % _PRIME
            nonzero = np.flatnonzero(vector)
            if len(nonzero) == 0:
                leading.append(monomial)
                whole = _whole({m: c for m, c in combination.items() if c})
                if whole is not None:
                    yield whole
                continue
            pivot = int(nonzero[0])
            inverse = pow(int(vector[pivot]), -1, _PRIME)
            rows.append(vector * inverse % _PRIME)
            pivots.append(pivot)
            combinations.append({m: c * inverse % _PRIME for m, c in combination.items() if c})


def _divides(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(one.count(v) <= other.count(v) for v in set(one))


def _whole(polynomial: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int] | None:
    """The polynomial with whole coefficients; None if they are too large."""
    fractions = {m: _fraction(c) for m, c in polynomial.items()}
    if any(f is None for f in fractions.values()):
        return None
    scale = lcm(*(f[1] for f in fractions.values()))
    whole = {m: n * (scale // d) for m, (n, d) in fractions.items()}
    return whole if max(map(abs, whole.values())) <= _LARGEST_COEFFICIENT else None


def _fraction(residue: int) -> tuple[int, int] | None:
    """The small fraction that is equal to a residue modulo the prime (Wang 1981)."""
    bound = int((_PRIME // 2) ** 0.5)
    a, b, x, y = _PRIME, residue, 0, 1
    while b > bound:
        quotient = a // b
        a, b, x, y = b, a - quotient * b, y, x - quotient * y
    if y == 0 or abs(y) > bound:
        return None
    return (b, y) if y > 0 else (-b, -y)


def _vanishes(polynomial: dict[tuple[int, ...], int], points: Sequence[Sequence[int]]) -> bool:
    return all(
        sum(c * prod(point[v] for v in m) for m, c in polynomial.items()) == 0 for point in points
    )


def _equality(polynomial: dict[Monomial, int]) -> Expression:
    """An equality with positive coefficients on both sides, the highest degrees first."""
    ordered = sorted(polynomial.items(), key=lambda item: (-len(item[0]), item[0]))
    sides: tuple[list[Expression], list[Expression]] = ([], [])
    sign = ordered[0][1] < 0
    for monomial, coefficient in ordered:
        sides[(coefficient < 0) != sign].append(_product(abs(coefficient), monomial))
    return Binary("==", *map(_sum, sides))


def _product(coefficient: int, monomial: Monomial) -> Expression:
    factors: list[Expression] = [Identifier(name) for name in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, Constant(coefficient))
    product = factors[0]
    for factor in factors[1:]:
        product = Binary("*", product, factor)
    return product


def _sum(terms: Sequence[Expression]) -> Expression:
    total = terms[0] if terms else Constant(0)
    for term in terms[1:]:
        total = Binary("+", total, term)
    return total
