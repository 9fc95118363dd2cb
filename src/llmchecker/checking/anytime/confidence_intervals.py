"""Confidence intervals of proportions and means.

They are valid for every number of values. Means are those of independent values from [0, 1].

The interval of a proportion is that of Clopper and Pearson (1934, "The Use of Confidence or
Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 26).

For a mean, two intervals are combined. The interval of Hoeffding (1963, "Probability Inequalities
for Sums of Bounded Random Variables", JASA 58) has a width that is known beforehand. The interval
of Waudby-Smith and Ramdas is narrow where the values vary little (2024, "Estimating Means of
Bounded Random Variables by Betting", JRSS B 86). A gambler bets that the mean is above m. Every
value x multiplies the wealth, which is 1 at first, by 1 + l (x - m). If the mean is m or less, the
expected wealth never rises. So the wealth ever reaches 1/d with probability d at most (Ville 1939).
Every m at which it reaches 1/d is then below the mean, except with probability d. As the wealth
falls with m, these m are all below one point. Another gambler bets that the mean is below m.
"""

import math

import numpy as np
from scipy.stats import beta

from llmchecker.errors import InvalidEstimate

_HOEFFDING_SHARE = 0.1
"""The share of the error probability that the interval of Hoeffding uses."""

_MAX_BET = 0.5
"""The share of the wealth that can be lost with one value."""

_ROUNDING_MARGIN = 1e-6
"""A limit above the rounding error of the logarithm of the wealth."""


def compute_proportion_interval(
    successes: int, trials: int, confidence: float
) -> tuple[float, float]:
    """Compute the Clopper-Pearson interval of a binomial proportion.

    Without trials it is [0, 1].

    Args:
        successes: the number of successes.
        trials: the number of trials.
        confidence: the least probability with which the interval covers the proportion.

    Raises:
        InvalidEstimate: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidEstimate(f"confidence is {confidence!r}; it must lie between 0 and 1")
    tail = (1 - confidence) / 2
    # the quantiles are not defined for the extreme counts
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0
    if successes < trials:
        high = float(beta.isf(tail, successes + 1, trials - successes))
    return low, high


def compute_mean_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Compute an interval that covers the mean with at least the confidence.

    Args:
        values: (n,) independent values of one distribution over [0, 1], in the order in which they
            were drawn; n is fixed beforehand.
        confidence: a number between 0 and 1.
    """
    if len(values) == 0:
        return 0.0, 1.0
    error_probability = 1 - confidence
    tail = error_probability * (1 - _HOEFFDING_SHARE) / 2  # of each gambler
    half, mean = _hoeffding_half_width(len(values), error_probability), float(values.mean())
    low = max(_lower_confidence_bound(values, tail), mean - half)
    high = min(1 - _lower_confidence_bound(1 - values, tail), mean + half)
    # the two may cross, which is as rare as a miss: one of them is wrong then
    return min(low, high), max(low, high)


def compute_required_values(width: float, confidence: float, max_values: int) -> int:
    """Compute the number of values that guarantees an interval width.

    Args:
        width: width of the interval, above 0.
        confidence: the confidence with which it covers the mean.
        max_values: the largest number to return, even if it is too small.
    """
    unit_width = 2 * _hoeffding_half_width(1, 1 - confidence)
    return min(max_values, math.ceil((unit_width / width) ** 2))


def _hoeffding_half_width(count: int, error_probability: float) -> float:
    """Return half of the width of Hoeffding's interval."""
    return math.sqrt(math.log(2 / (error_probability * _HOEFFDING_SHARE)) / (2 * count))


def _lower_confidence_bound(values: np.ndarray, error_probability: float) -> float:
    """Return a lower bound of the mean.

    It is above the mean with a probability of at most `error_probability`.
    """
    bets, target = (
        _compute_bets(values, error_probability),
        -math.log(error_probability) + _ROUNDING_MARGIN,
    )

    def is_below(mean: float) -> bool:
        with np.errstate(divide="ignore"):
            # a larger bet could lose more than `_MAX_BET` of the wealth with one value
            shares = np.minimum(bets, _MAX_BET / np.float64(mean))
        return bool(np.log1p(shares * (values - mean)).cumsum().max() >= target)

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def _compute_bets(values: np.ndarray, error_probability: float) -> np.ndarray:
    """Return (n,) the share bet on each value, from earlier values only."""
    numbers = np.arange(1, len(values) + 1)
    means = (0.5 + values.cumsum()) / (numbers + 1)
    variances = (0.25 + ((values - means) ** 2).cumsum()) / (numbers + 1)
    earlier_variances = np.concatenate([[0.25], variances[:-1]])
    return np.sqrt(-2 * math.log(error_probability) / (len(values) * earlier_variances))
