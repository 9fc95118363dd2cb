"""Intervals for the mean of independent values from [0, 1], valid for every number of values.

Two are combined. That of Hoeffding (1963, "Probability Inequalities for Sums of Bounded Random
Variables", JASA 58) has a width that is known beforehand. That of Waudby-Smith and Ramdas (2024,
"Estimating Means of Bounded Random Variables by Betting", JRSS B 86) is narrow where the values
vary little. A gambler who bets that the mean is above m multiplies a wealth of 1 by
1 + l (x - m) with every value x. If the mean is m or less, the expected wealth never rises, so that
it ever reaches 1/d with probability d at most (Ville 1939). So every m at which it does lies below
the mean, but for that probability; and as the wealth falls with m, these m are all below one point.
Another gambler bets that the mean is below m.
"""

import math

import numpy as np

OF_HOEFFDING = 0.1
"""The share of what the confidence leaves out that is left to the interval of Hoeffding."""

LARGEST_BET = 0.5
"""The share of the wealth that can be lost with one value."""

_MARGIN = 1e-6
"""More than the rounding error of the logarithm of the wealth."""


def mean_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """An interval that covers the mean with at least the confidence.

    Args:
        values: (n,) independent and of one distribution over [0, 1], in the order in which they
            were drawn; n is fixed beforehand.
        confidence: between 0 and 1.
    """
    if len(values) == 0:
        return 0.0, 1.0
    left_out = 1 - confidence
    tail = left_out * (1 - OF_HOEFFDING) / 2  # of each gambler
    half, mean = _half_width(len(values), left_out), float(values.mean())
    low = max(_below_the_mean(values, tail), mean - half)
    high = min(1 - _below_the_mean(1 - values, tail), mean + half)
    # if they cross, which is as rare as a miss, one of them is wrong anyway
    return min(low, high), max(low, high)


def values_for(width: float, confidence: float, most: int) -> int:
    """The number of values that give an interval of at most some width, however they come out.

    Args:
        width: of the interval, above 0.
        confidence: with which it covers the mean.
        most: the largest number to return, even if it is too small.
    """
    of_one = 2 * _half_width(1, 1 - confidence)
    return min(most, math.ceil((of_one / width) ** 2))


def _half_width(number: int, left_out: float) -> float:
    """Half of the width of Hoeffding's interval."""
    return math.sqrt(math.log(2 / (left_out * OF_HOEFFDING)) / (2 * number))


def _below_the_mean(values: np.ndarray, tail: float) -> float:
    """The largest number below which the mean does not lie, but for a probability of `tail`."""
    bets, target = _bets(values, tail), -math.log(tail) + _MARGIN

    def is_below(mean: float) -> bool:
        with np.errstate(divide="ignore"):
            shares = np.minimum(bets, LARGEST_BET / np.float64(mean))
        return bool(np.log1p(shares * (values - mean)).cumsum().max() >= target)

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def _bets(values: np.ndarray, tail: float) -> np.ndarray:
    """(n,) the share that is bet on each value, which depends on the values before it alone."""
    numbers = np.arange(1, len(values) + 1)
    means = (0.5 + values.cumsum()) / (numbers + 1)
    variances = (0.25 + ((values - means) ** 2).cumsum()) / (numbers + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    return np.sqrt(-2 * math.log(tail) / (len(values) * before))
