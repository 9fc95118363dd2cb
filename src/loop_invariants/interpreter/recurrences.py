"""Recurrences of polynomial updates, solved as polynomial sequences."""

from collections.abc import Collection, Mapping
from itertools import product as pairs

from loop_invariants.interpreter.integer_sequences import (
    PolynomialSequence,
    add,
    cumulative_sum,
    delay,
    evaluate_at,
    product,
)
from loop_invariants.ir.polynomials import Polynomial, find_variables, sum_of

_MAX_DEGREE = 6
_MAX_TERMS = 60


class NoClosedForm(Exception):
    """The iterations have no known closed form."""


def solve(
    updates: Mapping[str, Polynomial[str]],
    initial_values: Mapping[str, int],
    targets: Collection[str],
) -> dict[str, PolynomialSequence]:
    """Solve recurrences: return variables as polynomial sequences.

    Args:
        updates: value of each variable after an iteration, over the variables before it.
        initial_values: values of the variables before the first iteration.
        targets: variables to solve for; `updates` must not contain others.

    Raises:
        NoClosedForm: a variable is neither a polynomial of solved variables nor the sum of one and
            its old value.
    """
    solutions: dict[str, PolynomialSequence] = {}
    unsolved_variables = set(targets)
    while unsolved_variables:
        new_solutions: dict[str, PolynomialSequence] = {}
        for name in unsolved_variables:
            # The update may add a polynomial of solved variables to the old value.
            increment = sum_of(updates[name], {(name,): 1}, -1)
            if find_variables([increment]) <= solutions.keys():
                new_solutions[name] = add(
                    _constant_sequence(initial_values[name]),
                    cumulative_sum(compose(increment, solutions)),
                )
            # The update may replace the old value by a polynomial of solved variables.
            elif find_variables([updates[name]]) <= solutions.keys():
                sequence = delay(compose(updates[name], solutions))
                # The initial value follows another rule than the later ones.
                if evaluate_at(sequence, 0) != initial_values[name]:
                    raise NoClosedForm
                new_solutions[name] = sequence
        # The remaining variables depend on each other.
        if not new_solutions:
            raise NoClosedForm
        solutions |= new_solutions
        unsolved_variables -= new_solutions.keys()
    return solutions


def compose(
    polynomial: Polynomial[str], variables: Mapping[str, PolynomialSequence]
) -> PolynomialSequence:
    """Evaluate a polynomial over variables that are polynomial sequences.

    Raises:
        NoClosedForm: its degree in the iteration number is too high.
    """
    total: PolynomialSequence = ()
    for names, coefficient in polynomial.items():
        factors = [variables[name] for name in names]
        if sum(max(0, len(factor) - 1) for factor in factors) > _MAX_DEGREE:
            raise NoClosedForm
        total = add(total, product([_constant_sequence(coefficient), *factors]))
    return total


def _constant_sequence(value: int) -> PolynomialSequence:
    """Return a constant as a sequence."""
    return (value,) if value else ()


def product_of(one: Polynomial[str], other: Polynomial[str]) -> Polynomial[str]:
    """Multiply two polynomials.

    Raises:
        NoClosedForm: the product has too many terms, or its degree is too high.
    """
    total: dict[tuple[str, ...], int] = {}
    for (a, x), (b, y) in pairs(one.items(), other.items()):
        names = tuple(sorted(a + b))
        total[names] = total.get(names, 0) + x * y
    # Terms and degree may grow with every multiplication of an iteration.
    if len(total) > _MAX_TERMS or any(len(names) > _MAX_DEGREE for names in total):
        raise NoClosedForm
    return {names: coefficient for names, coefficient in total.items() if coefficient}
