"""Closed forms: what rounds change by polynomials, as polynomials in the number of rounds."""

from collections.abc import Collection, Iterable, Mapping
from itertools import product as pairs

from llmchecker.programs.progressions import (
    Progression,
    at,
    delayed,
    plus,
    product,
    summed,
)

Polynomial = Mapping[tuple[str, ...], int]
"""A coefficient for each product of variables, none of them zero."""

_HIGHEST_DEGREE = 6
_MOST_TERMS = 60


class NoClosedForm(Exception):
    """No closed form of the rounds is known."""


def solved(
    after: Mapping[str, Polynomial], before: Mapping[str, int], wanted: Collection[str]
) -> dict[str, Progression]:
    """Variables as progressions.

    Args:
        after: each variable after a round, over the variables before it.
        before: the variables before the first round.
        wanted: the variables to solve for; others must not stand in `after`.

    Raises:
        NoClosedForm: some variable neither gets a polynomial of others that are solved nor that and
            its old value.
    """
    found: dict[str, Progression] = {}
    left = set(wanted)
    while left:
        more: dict[str, Progression] = {}
        for name in left:
            added = sum_of(after[name], {(name,): 1}, -1)
            if names_in([added]) <= found.keys():
                more[name] = plus(constant(before[name]), summed(over(added, found)))
            elif names_in([after[name]]) <= found.keys():
                progression = delayed(over(after[name], found))
                if at(progression, 0) != before[name]:
                    raise NoClosedForm
                more[name] = progression
        if not more:
            raise NoClosedForm
        found |= more
        left -= more.keys()
    return found


def over(polynomial: Polynomial, variables: Mapping[str, Progression]) -> Progression:
    """A polynomial over variables that are progressions.

    Raises:
        NoClosedForm: its degree in the number of rounds is high.
    """
    total: Progression = ()
    for names, coefficient in polynomial.items():
        factors = [variables[name] for name in names]
        if sum(max(0, len(factor) - 1) for factor in factors) > _HIGHEST_DEGREE:
            raise NoClosedForm
        total = plus(total, product([constant(coefficient), *factors]))
    return total


def constant(value: int) -> Progression:
    """A number that is the same in all rounds."""
    return (value,) if value else ()


def names_in(polynomials: Iterable[Polynomial]) -> frozenset[str]:
    """The variables that stand in polynomials."""
    return frozenset(name for p in polynomials for names in p for name in names)


def value_of(polynomial: Polynomial, variables: Mapping[str, int]) -> int:
    """The value of a polynomial."""
    total = 0
    for names, coefficient in polynomial.items():
        for name in names:
            coefficient *= variables[name]
        total += coefficient
    return total


def scaled(polynomial: Polynomial, factor: int) -> Polynomial:
    """A polynomial times a number other than zero."""
    return {names: factor * coefficient for names, coefficient in polynomial.items()}


def sum_of(one: Polynomial, other: Polynomial, factor: int = 1) -> Polynomial:
    """A polynomial plus a multiple of another."""
    total = dict(one)
    for names, coefficient in other.items():
        total[names] = total.get(names, 0) + factor * coefficient
    return {names: coefficient for names, coefficient in total.items() if coefficient}


def product_of(one: Polynomial, other: Polynomial) -> Polynomial:
    """The product of two polynomials.

    Raises:
        NoClosedForm: it is long, or its degree is high.
    """
    total: dict[tuple[str, ...], int] = {}
    for (a, x), (b, y) in pairs(one.items(), other.items()):
        names = tuple(sorted(a + b))
        total[names] = total.get(names, 0) + x * y
    if len(total) > _MOST_TERMS or any(len(names) > _HIGHEST_DEGREE for names in total):
        raise NoClosedForm
    return {names: coefficient for names, coefficient in total.items() if coefficient}
