"""Polynomial candidates: equalities that hold in all states of concrete runs.

The polynomials that vanish on a set of points form an ideal. The algorithm of Buchberger and
Möller (1982) computes its Gröbner basis degree by degree, by linear algebra on the values of
monomials. The basis therefore contains no multiples of equalities of a lower degree.

The computation is modulo a prime, where it is fast. The coefficients are then reconstructed as
rational numbers, and equalities that do not hold exactly are dropped. Equalities from runs follow
Sharma et al. (2013) and NumInv (Nguyen et al. 2017).
"""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from math import lcm

import numpy as np

from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.ir.expressions import Expression, Identifier
from loop_invariants.ir.polynomials import Polynomial, build_comparison, evaluate

_PRIME = 2**31 - 1
_MAX_COEFFICIENT = 1000
"""Maximum coefficient: larger coefficients are coincidences of too few states."""
_MAX_TERMS = 12
"""Maximum number of monomials in an equality, for the same reason."""
_MAX_VALUE = 10**9
_MAX_MONOMIALS = 130
_MAX_STATES = 400
_MIN_SURPLUS_STATES = 5
"""Minimum number of states in excess of the number of monomials."""


def find_polynomial_equalities(
    variables: Sequence[Identifier], states: Sequence[ConcreteState], max_degree: int = 3
) -> tuple[Expression, ...]:
    """Find polynomial equalities that hold in every state, in order of degree.

    Each is a sum of products with integer coefficients on both sides, such as
    `2 * s == n * n + n`. Multiples of equalities of a lower degree are excluded. The degree is
    limited by the number of states, which must exceed the number of monomials.

    Args:
        variables: the variables to relate.
        states: states of runs at a loop head; states with very large values are excluded.
        max_degree: maximum degree.
    """
    points = [[s[v.name] for v in variables] for s in states]
    points = [p for p in points if all(abs(value) <= _MAX_VALUE for value in p)]
    # Duplicate points add no information; the order keeps small values first.
    points = [list(p) for p in dict.fromkeys(map(tuple, points))]
    points = points[:: max(1, -(-len(points) // _MAX_STATES))]
    equalities = []
    for polynomial in _iter_vanishing_polynomials(len(variables), points, max_degree):
        named_polynomial = {tuple(variables[v] for v in m): c for m, c in polynomial.items()}
        # The result modulo the prime may fail over the integers, so it is checked exactly.
        if 1 < len(polynomial) <= _MAX_TERMS and not any(
            evaluate(polynomial, dict(enumerate(p))) for p in points
        ):
            equalities.append(_build_equality(named_polynomial))
    return tuple(equalities)


def _iter_vanishing_polynomials(
    width: int, points: Sequence[Sequence[int]], max_degree: int
) -> Iterator[dict[tuple[int, ...], int]]:
    """Yield polynomials that vanish modulo the prime at each point."""
    if len(points) <= _MIN_SURPLUS_STATES:
        return
    values = np.array([[v % _PRIME for v in p] for p in points], dtype=np.int64)
    rows: list[np.ndarray] = []  # reduced vectors, each with a 1 at its pivot
    pivots: list[int] = []
    combinations: list[dict[tuple[int, ...], int]] = []  # each row's coefficients of monomials
    leading_monomials: list[tuple[int, ...]] = []
    for degree in range(max_degree + 1):
        # A multiple of a leading monomial belongs to an equality that is already found.
        monomials = [
            m
            for m in combinations_with_replacement(range(width), degree)
            if not any(_is_divisor(leading_monomial, m) for leading_monomial in leading_monomials)
        ]
        max_rows = min(_MAX_MONOMIALS, len(points) - _MIN_SURPLUS_STATES)
        # With too few states, a vanishing polynomial would be a coincidence.
        if len(rows) + len(monomials) > max_rows:
            return
        for monomial in monomials:
            vector = np.ones(len(points), dtype=np.int64)
            for variable in monomial:
                vector = vector * values[:, variable] % _PRIME
            combination = {monomial: 1}
            for row, pivot, row_combination in zip(rows, pivots, combinations, strict=True):
                factor = int(vector[pivot])
                if factor:
                    vector = (vector - factor * row) % _PRIME
                    for m, c in row_combination.items():
                        combination[m] = (combination.get(m, 0) - factor * c) % _PRIME
            nonzero = np.flatnonzero(vector)
            # A zero vector means that this combination of monomials vanishes at every point.
            if len(nonzero) == 0:
                leading_monomials.append(monomial)
                polynomial = _lift_to_integers({m: c for m, c in combination.items() if c})
                if polynomial is not None:
                    yield polynomial
                continue
            pivot = int(nonzero[0])
            inverse = pow(int(vector[pivot]), -1, _PRIME)
            rows.append(vector * inverse % _PRIME)
            pivots.append(pivot)
            combinations.append({m: c * inverse % _PRIME for m, c in combination.items() if c})


def _is_divisor(divisor: tuple[int, ...], monomial: tuple[int, ...]) -> bool:
    return all(divisor.count(v) <= monomial.count(v) for v in set(divisor))


def _lift_to_integers(polynomial: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int] | None:
    """Convert the coefficients to integers; None if they are too large."""
    fractions: dict[tuple[int, ...], tuple[int, int]] = {}
    for monomial, residue in polynomial.items():
        fraction = _reconstruct_fraction(residue)
        if fraction is None:
            return None
        fractions[monomial] = fraction
    scale = lcm(*(f[1] for f in fractions.values()))
    integers = {m: n * (scale // d) for m, (n, d) in fractions.items()}
    return integers if max(map(abs, integers.values())) <= _MAX_COEFFICIENT else None


def _reconstruct_fraction(residue: int) -> tuple[int, int] | None:
    """Reconstruct the small fraction equal to a residue modulo the prime (Wang 1981)."""
    bound = int((_PRIME // 2) ** 0.5)
    a, b, x, y = _PRIME, residue, 0, 1
    while b > bound:
        quotient = a // b
        a, b, x, y = b, a - quotient * b, y, x - quotient * y
    if y == 0 or abs(y) > bound:
        return None
    return (b, y) if y > 0 else (-b, -y)


def _build_equality(polynomial: Polynomial[Identifier]) -> Expression:
    """Build an equality with positive coefficients, highest degrees first."""
    monomials = sorted(polynomial, key=lambda m: (-len(m), *map(str, m)))
    # The leading term stands on the left.
    sign = 1 if polynomial[monomials[0]] > 0 else -1
    return build_comparison("==", {m: sign * polynomial[m] for m in monomials})
