"""Confidence sequences of a mean or a ratio of means, by betting.

The values need not be independent or of one distribution. Given the earlier values, each has the
same mean and a known range. A gambler bets that the mean is above m: a value x multiplies the
wealth, which is 1 at first, by 1 + l (x - m). The stake l depends on earlier values only, and no
value of the range makes the wealth negative. If the mean is m or less, the expected wealth never
rises. So the wealth ever reaches 1/d with probability d at most (Ville 1939, "Étude critique de la
notion de collectif"). Every m at which it reached 1/d is below the mean, except with probability d.
As the wealth falls with m, these m are all below one point. Another gambler bets that the mean is
below m. The interval between both points covers the mean at every time at once, so it is right
whenever the work stops, for any reason (Waudby-Smith and Ramdas 2024, "Estimating Means of Bounded
Random Variables by Betting", JRSS B 86).

For a ratio t = E[a] / E[s], the value z(t) = a - t s has mean 0 and takes the place of x - m.

Any stakes are valid; good stakes make the interval narrow. Most of the wealth is bet so that it
most probably reaches 1/d after the planned number of values at the expected end of the interval.
That is the hedge of a binary option on a Brownian motion. A threshold has no planned number: stakes
then let the wealth at the threshold grow fastest. The other wealth is bet for a stop at any time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from llmchecker.checking.sample_values import SampleValues

_MAX_LOSS = 0.97
"""The share of the wealth that can be lost with one value."""

_ROUNDING_MARGIN = 1e-6
"""A limit above the rounding error of the logarithm of the wealth."""

RESOLUTION = 2.0**-40
"""The precision of the ends of an interval, and the least divisor of a stake."""

_PLAN_SHARE = 0.9
"""The share of the wealth that is bet for the planned number of values."""

_MIN_VARIANCE = 1e-8
"""The least predicted variance, in units of the squared spread."""

_MIN_PART = 8
"""The least number of values between two estimates, on which bets depend."""

LEAST_VARIANCE = 1e-300
"""The least variance of a value; a rare condition's values may have squares that underflow."""

_TINY = np.finfo(np.float64).tiny

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Values:
    """Values of a numerator a and a denominator s, in the order of their samples.

    Every z(t) = a - t s is from `low` - t `size` to `high` - t `size`.

    Attributes:
        numerator: (n,) float64, a, minus any control variates.
        denominator: (n,) float64, s; 1 for a mean.
        low, high: limits of z(0).
        size: the largest denominator.
        variances: (n,) float64, at least `LEAST_VARIANCE`, the variance of z(t) that earlier values
            predict.
        planned: the number of values that are expected from the first of these on.
    """

    numerator: np.ndarray
    denominator: np.ndarray
    low: float
    high: float
    size: float
    variances: np.ndarray
    planned: float

    def split(self, first: int) -> Iterator["Values"]:
        """Yield consecutive parts: each has as many values as all before it, the first `first`."""
        start, count, stop = 0, len(self.numerator), max(first, _MIN_PART)
        while start < count:
            part = slice(start, stop)
            yield replace(
                self,
                numerator=self.numerator[part],
                denominator=self.denominator[part],
                variances=self.variances[part],
                planned=self.planned - start,
            )
            start, stop = stop, stop + first + stop


class ConfidenceSequence:
    """An interval that covers a mean or a ratio in [0, 1] at every time.

    Args:
        confidence: the probability that the interval is right at all times at once.
        threshold: a ratio that a gambler should refute as early as possible; None for the
            narrowest interval after the planned number of values.
    """

    def __init__(self, confidence: float, threshold: float | None = None) -> None:
        # each of the two gamblers has half of the error probability
        self._gamblers = tuple(_Gambler((1 - confidence) / 2, sign) for sign in (1, -1))
        self._threshold = threshold
        self._weighted_sums = np.zeros(2)
        self._precision = 0.0

    def __len__(self) -> int:
        return len(self._gamblers[0].numerator)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval from all values so far; its ends never move apart."""
        low, high = (gambler.end for gambler in self._gamblers)
        # the two cross as rarely as the interval misses: one of them is wrong then
        return min(low, high), max(low, high)

    @property
    def estimate(self) -> float:
        """The mean or ratio of the values so far, weighted by precision; 0.5 at first."""
        numerator, denominator = self._weighted_sums
        return min(1.0, max(0.0, numerator / denominator)) if denominator > 0 else 0.5

    @property
    def values(self) -> SampleValues:
        """The values so far, with their limits."""
        above, below = self._gamblers
        return SampleValues(
            above.numerator,
            above.numerator,
            above.denominator,
            above.limits,
            below.limits,
            above.sizes,
        )

    def narrow_interval(self, values: Values) -> None:
        """Append values, and narrow the interval."""
        # bets on later values use the estimate from the first ones
        for part in values.split(len(self)):
            self._narrow_interval(part)

    def _narrow_interval(self, values: Values) -> None:
        for gambler in self._gamblers:
            threshold = self._threshold
            stakes: Sequence[float] | np.ndarray
            if threshold is not None and gambler.sign * (self.estimate - threshold) > 0:
                stakes = gambler.compute_growth_stakes(values, threshold)
            else:
                stakes = gambler.plan_stakes(values, self._expect_end(gambler.sign, values))
            gambler.bet(values, stakes, self._precision)
        weights = 1 / values.variances
        self._precision += float(weights.sum())
        self._weighted_sums += (weights @ values.numerator, weights @ values.denominator)

    def _expect_end(self, sign: int, values: Values) -> float:
        """Return the expected end of the interval after the planned number of values."""
        precision = self._precision + values.planned / values.variances[0]
        distance = -_NORMAL.inv_cdf(self._gamblers[0].error_probability) / math.sqrt(precision)
        # an end outside of the range would need no refutation
        return min(1 - RESOLUTION, max(RESOLUTION, self.estimate - sign * distance))


class _Gambler:
    """One of the two gamblers.

    Attributes:
        sign: 1 for bets that the ratio is above t, -1 for bets that it is below t.
        error_probability: d, the largest probability of a wrong refutation.
        numerator, denominator: (n,) float64, the values so far.
        limits: (n,) float64, the limits of z(0) that the bets must survive.
        sizes: (n,) float64, the largest denominators.
        end: the last refuted ratio.
    """

    def __init__(self, error_probability: float, sign: int) -> None:
        self.sign, self.error_probability = sign, error_probability
        self.numerator, self.denominator, self.limits, self.sizes = np.zeros((4, 0))
        # (2, n): the stakes with and without a plan, before their limit
        self._stakes = np.zeros((2, 0))
        self._target = -math.log(error_probability) + _ROUNDING_MARGIN
        self.end = 0.0 if sign > 0 else 1.0

    def bet(self, values: Values, stakes: Sequence[float] | np.ndarray, precision: float) -> None:
        """Bet on values in turn, and refute all ratios that the wealth allows.

        Args:
            values: the values.
            stakes: the stakes of the larger share of the wealth, before their limit.
            precision: the sum of the inverse variances of all earlier values.
        """
        n = len(values.numerator)
        limit = values.low if self.sign > 0 else values.high
        total_precision = precision + np.cumsum(1 / values.variances)
        any_time_stakes = np.sqrt(self._target / total_precision) / values.variances
        self._stakes = np.concatenate([self._stakes, [stakes, any_time_stakes]], axis=1)
        self.numerator = np.append(self.numerator, values.numerator)
        self.denominator = np.append(self.denominator, values.denominator)
        self.limits = np.append(self.limits, np.full(n, limit))
        self.sizes = np.append(self.sizes, np.full(n, values.size))
        self.end = find_last_refuted(self.end, 1.0 if self.sign > 0 else 0.0, self._is_refuted)

    def compute_growth_stakes(self, values: Values, ratio: float) -> np.ndarray:
        """Return stakes that nearly maximize the growth of the wealth at a ratio.

        Each is the mean over the second moment, as earlier values show them (aGRAPA of
        Waudby-Smith and Ramdas 2024).
        """
        numerators, denominators = (
            np.concatenate(columns)
            for columns in (
                (self.numerator, values.numerator[:-1]),
                (self.denominator, values.denominator[:-1]),
            )
        )
        # before any value, the ratio is expected to be one half
        sums = np.cumsum(np.append(0.5 - ratio, numerators - ratio * denominators))
        means = (
            self.sign
            * sums[-len(values.numerator) :]
            / np.arange(len(self.numerator) + 1, len(sums) + 1)
        )
        return np.maximum(means, 0.0) / (values.variances + means**2)

    def plan_stakes(self, values: Values, ratio: float) -> Sequence[float]:
        """Return the stakes that most probably reach the target at a ratio in time."""
        limit = values.low if self.sign > 0 else values.high
        earlier_logs = self._log_wealths(ratio)[0]
        log_wealth = float(earlier_logs[-1]) if len(earlier_logs) else 0.0
        share_needed = math.log(self.error_probability / _PLAN_SHARE)
        loss = self.sign * (ratio * values.size - limit)
        largest = _MAX_LOSS / max(loss, RESOLUTION * values.size + _TINY)
        stakes, remaining = [], values.planned
        z = self.sign * (values.numerator - ratio * values.denominator)
        for value, variance in zip(z.tolist(), values.variances.tolist(), strict=True):
            # the probability with which a Brownian motion of this wealth reaches the target; values
            # of a tiny spread may already have made the wealth larger than any float
            probability = min(0.9, math.exp(min(0.0, max(log_wealth + share_needed, -30.0))))
            slope = _NORMAL.pdf(_NORMAL.inv_cdf(probability)) / probability
            stakes.append(slope / math.sqrt(variance * max(remaining, 1.0)))
            log_wealth += math.log1p(max(-_MAX_LOSS, min(stakes[-1], largest) * value))
            remaining -= 1
        return stakes

    def _log_wealths(self, ratio: float) -> np.ndarray:
        """Return (2, n) the logarithms of both parts of the wealth after each value."""
        z = self.sign * (self.numerator - ratio * self.denominator)
        loss = self.sign * (ratio * self.sizes - self.limits)
        # a larger stake could lose more than `_MAX_LOSS` with one value; no loss is possible
        # where no value of the range is below the ratio
        least = RESOLUTION * self.sizes + _TINY
        stakes = np.minimum(self._stakes, _MAX_LOSS / np.maximum(loss, least))
        return np.log1p(np.maximum(stakes * z, -_MAX_LOSS)).cumsum(axis=1)

    def _is_refuted(self, ratio: float) -> bool:
        planned, any_time = self._log_wealths(ratio)
        wealths = np.logaddexp(
            planned + math.log(_PLAN_SHARE), any_time + math.log(1 - _PLAN_SHARE)
        )
        return bool(wealths.max() >= self._target)


def find_last_refuted(
    refuted: float, open_number: float, is_refuted: Callable[[float], bool]
) -> float:
    """Return the last number that bets refute, by bisection: the wealth falls beyond it.

    Args:
        refuted: a refuted number.
        open_number: a number that is not refuted.
        is_refuted: whether bets refute a number.
    """
    while abs(open_number - refuted) > RESOLUTION:
        middle = (refuted + open_number) / 2
        if is_refuted(middle):
            refuted = middle
        else:
            open_number = middle
    return refuted


def predict_variances(earlier: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Predict the variance of each value from the values before it.

    Args:
        earlier: (m,) float64 in units of the spread, values of earlier rounds.
        values: (n,) float64, the values of this round in order.

    Returns:
        (n,) float64, in units of the squared spread.
    """
    sequence = np.concatenate([earlier, values])
    counts = np.arange(len(sequence) + 1)
    sums = np.concatenate([[0.0], sequence.cumsum()])
    squares = np.concatenate([[0.0], (sequence**2).cumsum()])
    means = (sums + 0.5) / (counts + 1)
    # no value in [0, 1] has a larger variance than a coin of the same mean
    prior = np.clip(means * (1 - means), 0.001, 0.25)
    deviations = np.maximum(squares - 2 * means * sums + counts * means**2, 0.0)
    variances = (prior + deviations) / (counts + 1)
    floored: np.ndarray = np.maximum(variances[len(earlier) : -1], _MIN_VARIANCE)
    return floored
