"""Intervals of proportions and of means: their ends are exact, and they cover the truth."""

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from llmchecker.checking.anytime.confidence_intervals import (
    compute_mean_interval,
    compute_proportion_interval,
)


def misses_too_often(misses: int, repetitions: int, left_out: float) -> bool:
    """Whether an interval would miss so often less than once in a million."""
    return binomtest(misses, repetitions, left_out, alternative="greater").pvalue < 1e-6


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_an_interval_of_a_proportion_inverts_the_binomial_tails(confidence):
    """At each end exactly half of what confidence leaves out lies beyond the observed number."""
    tail = (1 - confidence) / 2
    for satisfying, samples in ((1, 7), (3, 10), (50, 400)):
        low, high = compute_proportion_interval(satisfying, samples, confidence)
        above = binomtest(satisfying, samples, low, alternative="greater").pvalue
        below = binomtest(satisfying, samples, high, alternative="less").pvalue
        assert (above, below) == pytest.approx((tail, tail), rel=1e-6)
    assert compute_proportion_interval(0, 10, confidence)[0] == 0
    assert compute_proportion_interval(10, 10, confidence)[1] == 1
    assert compute_proportion_interval(0, 0, confidence) == (0, 1)


def test_an_interval_of_one_value_is_that_of_one_bet():
    """After a single 1, who bet l against m has 1 + l (1 - m); the smallest mean that is not
    excluded is the one at which this is 1 over the tail. With a guess of 1/4 for the variance,
    l is the root of 8 ln(1 / tail)."""
    tail = 0.5 * 0.9 / 2
    low, high = compute_mean_interval(np.array([1.0]), 0.5)
    assert low == pytest.approx(1 - (1 / tail - 1) / sqrt(8 * log(1 / tail)), abs=1e-5)
    assert 0 < low < high == 1


@pytest.mark.long
def test_intervals_of_bounded_means_cover_them():
    """Over 2,000 seeds the interval of a rare large value's mean misses no more often than its
    confidence allows; the Wald interval of the same values misses far more often."""
    misses, of_wald, share = 0, 0, 0.02
    for seed in range(2000):
        drawn = np.random.default_rng(seed).random((2, 60))
        values = np.where(drawn[0] < share, 1.0, drawn[1] / 10)
        mean = share + (1 - share) / 20
        low, high = compute_mean_interval(values, 0.95)
        misses += not low <= mean <= high
        half = norm.ppf(0.975) * values.std(ddof=1) / sqrt(len(values))
        of_wald += abs(values.mean() - mean) > half
    assert not misses_too_often(misses, 2000, 0.05)
    assert misses_too_often(of_wald, 2000, 0.05)
