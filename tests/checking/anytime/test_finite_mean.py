"""Tests of the mean of a finite list, against all of its orders."""

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from llmchecker.checking.anytime.finite_mean import FiniteMeanTest

COUNT = 9


def stop_early(values: tuple[int, ...], number: Fraction, error: float) -> FiniteMeanTest:
    """The test after as many values as it needs."""
    test = FiniteMeanTest(len(values), number, error)
    for value in values:
        if test.is_above is not None:
            break
        test.add(value)
    return test


@pytest.mark.parametrize("number", [Fraction(1, 2), Fraction(7, 9), Fraction(1, 10)])
def test_few_orders_of_a_list_mislead(number):
    """Of all orders of a list, at most the error probability leads to a wrong decision."""
    error = 0.4
    orders, wrong, bets = Counter(), Counter(), 0
    for values in product((0, 1), repeat=COUNT):
        total, test = sum(values), stop_early(values, number, error)
        is_above = Fraction(total, COUNT) >= number
        orders[total] += 1
        wrong[total] += test.is_above is not is_above
        bets += not test.is_certain
        assert test.is_above is not None
        assert not test.is_certain or test.is_above is is_above
    assert bets
    assert all(wrong[total] <= error * orders[total] for total in orders)


@pytest.mark.parametrize("number", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_the_last_values_decide_with_certainty(number):
    """All values give the right decision, also of fractions and at a mean that is the number."""
    for values in ((0.0, 1.0, 0.0), (0.5, 0.5, 0.0), (1.0, 1.0, 1.0), (0.25, 0.25, 0.25)):
        test = FiniteMeanTest(3, number, 0.01)
        for value in values:
            test.add(value)
        assert test.is_certain
        assert test.is_above is (sum(map(Fraction, values)) / 3 >= number)
