"""Intervals contain the exact results of their arithmetic, and NaN is never an end."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import InvalidEstimate
from llmchecker.utils.interval import Interval, average

NUMBERS = st.floats(-1e6, 1e6)
INTERVALS = st.tuples(NUMBERS, NUMBERS).map(lambda ends: Interval(min(ends), max(ends)))


@given(INTERVALS, INTERVALS)
def test_a_difference_contains_the_exact_one(first, second):
    """The exact difference of opposite ends is inside, and each end is the nearest float to it."""
    found = first - second
    lower = Fraction(first.lower) - Fraction(second.upper)
    upper = Fraction(first.upper) - Fraction(second.lower)
    assert Fraction(found.lower) <= lower < Fraction(math.nextafter(found.lower, math.inf))
    assert Fraction(math.nextafter(found.upper, -math.inf)) < upper <= Fraction(found.upper)


@given(st.lists(INTERVALS, min_size=1, max_size=6))
def test_an_average_contains_the_exact_one(several):
    """The exact means of the ends are inside."""
    found = average(several)
    assert Fraction(found.lower) * len(several) <= sum(Fraction(each.lower) for each in several)
    assert Fraction(found.upper) * len(several) >= sum(Fraction(each.upper) for each in several)


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (Interval(0.1, 0.9), Interval(0.2, 0.6)),
        (Interval(0.3, 0.4), Interval(0.3, 0.4)),
        (Interval(0.4, 0.3), Interval(0.3, 0.4)),
        (Interval(0.7, 0.9), Interval(0.6, 0.6)),
        (Interval(0.0, 0.1), Interval(0.2, 0.2)),
    ],
)
def test_an_interval_is_cut_to_the_bounds(other, part):
    """What is cut is within the bounds, whatever the order and the place of its ends."""
    assert Interval(0.2, 0.6).cut(other) == part


@pytest.mark.parametrize("ends", [(math.nan, 1.0), (0.0, math.nan)])
def test_nan_is_no_end(ends):
    """An end that is NaN is refused."""
    with pytest.raises(InvalidEstimate, match=r"interval: .* contains NaN"):
        Interval(*ends)
