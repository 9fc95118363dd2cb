"""Tests of the mean of a finite list, against all of its orders."""

from collections import Counter
from fractions import Fraction
from itertools import accumulate, product

import pytest
from helpers.marks import long

from llmchecker.checking.anytime.mean_test import MeanTest, is_sum_enough

COUNT = 9


def stop_early(values: tuple[int, ...], number: float, error: float) -> tuple[bool | None, float]:
    """The verdict after as many values as it needs, and whether one end is ever wrong."""
    test, total, mean, is_missed = MeanTest(len(values), number, error), 0, sum(values) / COUNT, 0
    for value in values:
        if test.is_above is not None:
            break
        test.add(value, value, (total, total))
        total += value
        interval = test.interval
        is_missed |= not interval.lower - 1e-9 <= mean <= interval.upper + 1e-9
    return test.is_above, is_missed


@pytest.mark.parametrize("number", [1 / 2, *long(7 / 9, 1 / 10)])
def test_few_orders_of_a_list_mislead(number):
    """Of all orders of a list, at most the error probability leads to a wrong decision."""
    error = 0.4
    orders, wrong, missed, bets = Counter(), Counter(), Counter(), 0
    for values in product((0, 1), repeat=COUNT):
        is_above, is_missed = stop_early(values, number, error)
        orders[sum(values)] += 1
        wrong[sum(values)] += is_above not in (None, sum(values) >= number * COUNT)
        missed[sum(values)] += is_missed
        bets += is_above is not None
    assert bets
    assert all(wrong[total] <= error * orders[total] for total in orders)
    assert all(missed[total] <= 2 * error * orders[total] for total in orders)


@pytest.mark.parametrize("number", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_the_last_values_decide_with_certainty(number):
    """All values decide exactly, also at a mean that is the number, and none does too early."""
    for values in ((0.0, 1.0, 0.0), (0.5, 0.5, 0.0), (1.0, 1.0, 1.0), (0.25, 0.25, 0.25)):
        truth = sum(map(Fraction, values)) >= 3 * number
        sums = accumulate(map(Fraction, values), initial=Fraction(0))
        found = [is_sum_enough(total, 3 * number, 3 - n) for n, total in enumerate(sums)]
        assert found[-1] is truth
        assert set(found) <= {truth, None}
