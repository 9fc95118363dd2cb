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

Any stakes are valid; good stakes make the interval narrow. Most of the wealth is a hedge, which
refutes m most probably after the planned number of values. A threshold has no planned number:
stakes then let the wealth at the threshold grow fastest. The other wealth is bet for a stop at any
time.

The hedge is that of a binary option on a Brownian motion, as in STaR-Bets (Voráček and Orabona
2025, "STaR-Bets: Sequential Target-Recalculating Bets for Tighter Confidence Intervals"). It stakes
G(W) on a value if the wealth is W, so each m has stakes of its own. With w = W / T for a target T,

    G(W) = T phi(Phi^-1(min(w, 1/2))) / sqrt(v(m) r),    v(m) = c (m - l) (h - m),

where phi and Phi are the density and the distribution function of a standard normal variable, r
values are left, each is in [l, h], and c is at most 1. A value of mean m has at most the variance
(m - l) (h - m), and the earlier values predict the share c. The stake is at most 0.97 W / (m - l).
The next wealth F = W + min(G, 0.97 W / (m - l)) (x - m) rises with W and falls with m:

- Both stakes are concave in W, 0 at 0, and never fall. So where x < m, the slope of F in W is at
  least 1 - 0.97. Where x > m, it is at least 1.
- The derivative of G (x - m) in m is -G (1 + (x - m) v' / (2 v)), and v' / v is 1 / (m - l) - 1 /
  (h - m). As l <= x <= h, the second term is at least -1/2. The other stake gives -0.97 W (x - l) /
  (m - l)^2, which is at most 0.
- The smaller stake gives the smaller or the larger F, whichever the sign of x - m is.
- Where m - l or h - m is so small that a floor takes its place, or m is beyond a limit, the floor
  is a constant: its term of the bracket is 0, and the other one is still at least -1/2.

So by induction the wealth after any values falls with m, as with stakes that do not depend on m.
For a ratio, (m - l) and (h - m) are t s_max - l and h - t s_max, for the largest denominator s_max.
A text counts in the numerator only if it counts in the denominator, so that a / s is from l / s_max
to h / s_max, and the same inequalities hold.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
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

_OVERSHOOT = 1 / 0.9
"""The target of the hedge as a multiple of the wealth that refutes, which a last value overshoots.
"""

_MAX_EXPONENT = 100.0
"""A logarithm above that of every wealth that refutes, and below that of an infinite number."""

_CANDIDATES = 64
"""The number of ratios of which one search evaluates the wealth."""

_BLOCK = 4096
"""The number of values whose wealths are in memory at once."""

_MAX_SHARE_LOST = 2.0**-10
"""The largest share of the distance from the estimate that an end is too far outside."""

LEAST_VARIANCE = 1e-300
"""The least variance of a value; a rare condition's values may have squares that underflow."""

_TINY = np.finfo(np.float64).tiny


def _build_hedge() -> tuple[np.ndarray, np.ndarray]:
    """Return points of the concave function phi(Phi^-1(w)) from 0 to 1/2; it is linear between."""
    quantiles = np.linspace(-8.0, 0.0, 65).tolist()
    # of small numbers, the complementary error function keeps all digits
    wealths = [0.0, *(math.erfc(-quantile / math.sqrt(2)) / 2 for quantile in quantiles)]
    return np.array(wealths), np.array([0.0, *map(NormalDist().pdf, quantiles)])


_HEDGE_WEALTHS, _HEDGE_STAKES = _build_hedge()


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
        self._range_weighted_sums = np.zeros(2)

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
        return float(self._find_estimates(self._weighted_sums))

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
        weights = 1 / values.variances
        sums = (weights * values.numerator, weights * values.denominator, weights)
        before = (*self._weighted_sums, self._precision)
        # (3, n + 1): the weighted sums before and after each value
        totals = np.column_stack([before, sums]).cumsum(axis=1)
        estimates = self._find_estimates(totals[:2, :-1])
        shares = self._predict_shares(values, estimates)
        for gambler in self._gamblers:
            gambler.bet(values, estimates, shares, totals[2, 1:], self._threshold)
        self._weighted_sums, self._precision = totals[:2, -1], float(totals[2, -1])
        for gambler in self._gamblers:
            gambler.refute(self.estimate)

    def _predict_shares(self, values: Values, estimates: np.ndarray) -> np.ndarray:
        """Predict each variance as a share of the largest one of values with the same mean.

        Args:
            values: the values.
            estimates: (n,) float64, the estimate before each value.
        """
        size = max(values.size, _TINY)
        low, high = values.low / size, values.high / size
        spread = max(high - low, RESOLUTION)
        # for a ratio t, the mean of a / s_max + t (1 - s / s_max) is t
        numbers = values.numerator / size + estimates * (1 - values.denominator / size)
        # wider values count less; the middle of the range is one more value
        weight, sums = 1 / spread**2, self._range_weighted_sums
        added = np.stack([numbers, np.ones(len(numbers))]) * weight
        totals = np.column_stack([sums, added]).cumsum(axis=1)
        middle = (low + high) / 2
        means = (totals[0, :-1] + weight * middle) / (totals[1, :-1] + weight)
        self._range_weighted_sums = totals[:, -1]
        edges = 0.5 / (len(self) + 1 + np.arange(len(numbers)))
        positions = ((means - low) / spread).clip(edges, 1 - edges)
        # a large deviation is limited before its square could be infinite
        deviations = np.minimum(np.sqrt(values.variances) / (spread * size), 1.0)
        shares: np.ndarray = np.minimum(deviations**2 / (positions * (1 - positions)), 1.0)
        return shares

    @staticmethod
    def _find_estimates(sums: np.ndarray) -> np.ndarray:
        """Return (n,) float64, the estimates from (2, n) weighted sums; 0.5 without a sum."""
        numerators, denominators = sums
        ratios = numerators / np.where(denominators > 0, denominators, 1.0)
        return np.where(denominators > 0, ratios, 0.5).clip(0.0, 1.0)


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
        # (n,): the other limits of z(0), the stakes for growth (NaN where the wealth is hedged),
        # the stakes for any time, and c r, the variance left in units of the largest variance
        self._other_limits, self._growth_stakes, self._any_time_stakes, self._left = np.zeros(
            (4, 0)
        )
        self._target = -math.log(error_probability) + _ROUNDING_MARGIN
        self.end = 0.0 if sign > 0 else 1.0

    def bet(
        self,
        values: Values,
        estimates: np.ndarray,
        shares: np.ndarray,
        precisions: np.ndarray,
        threshold: float | None,
    ) -> None:
        """Append values, and the stakes on them.

        Args:
            values: the values.
            estimates: (n,) float64, the estimate before each value.
            shares: (n,) float64, the predicted variances as shares of the largest ones.
            precisions: (n,) float64, the sum of the inverse predicted variances up to each value.
            threshold: as in `ConfidenceSequence`.
        """
        n = len(values.numerator)
        limits = (values.low, values.high)[:: self.sign]
        stakes = np.full(n, math.nan)
        if threshold is not None:
            grows = self.sign * (estimates - threshold) > 0
            stakes[grows] = self._compute_growth_stakes(values, threshold)[grows]
        any_time_stakes = np.sqrt(self._target / precisions) / values.variances
        left = shares * np.maximum(values.planned - np.arange(n), 1.0)
        self._growth_stakes = np.append(self._growth_stakes, stakes)
        self._any_time_stakes = np.append(self._any_time_stakes, any_time_stakes)
        self._left = np.append(self._left, left)
        self.numerator = np.append(self.numerator, values.numerator)
        self.denominator = np.append(self.denominator, values.denominator)
        self.limits = np.append(self.limits, np.full(n, limits[0]))
        self._other_limits = np.append(self._other_limits, np.full(n, limits[1]))
        self.sizes = np.append(self.sizes, np.full(n, values.size))

    def _compute_growth_stakes(self, values: Values, ratio: float) -> np.ndarray:
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

    def refute(self, estimate: float) -> None:
        """Move the end to the last ratio that the wealth refutes, or a little outside of it.

        Args:
            estimate: a ratio near which the search begins.
        """
        refuted, limit = self.end, 1.0 if self.sign > 0 else 0.0
        # hardly ever does the wealth refute the estimate itself
        open_ratio = estimate if self.sign * (estimate - refuted) > 0 else limit
        while abs(open_ratio - refuted) > RESOLUTION:
            candidates = np.linspace(refuted, open_ratio, _CANDIDATES + 1)[1:]
            is_refuted = self._are_refuted(candidates)
            count = int(is_refuted.argmin()) if not is_refuted.all() else _CANDIDATES
            if count == _CANDIDATES:
                refuted, open_ratio = open_ratio, limit
                continue
            refuted = float(candidates[count - 1]) if count else refuted
            open_ratio = float(candidates[count])
            if abs(open_ratio - refuted) <= _MAX_SHARE_LOST * abs(estimate - refuted):
                break
        self.end = refuted

    def _are_refuted(self, ratios: np.ndarray) -> np.ndarray:
        """Return (m,) bool, whether the wealth at each ratio ever reached its target."""
        refuted, needed = np.zeros(len(ratios), dtype=bool), math.exp(self._target)
        for planned, any_time in self._iter_wealths(ratios):
            wealths = _PLAN_SHARE * planned + (1 - _PLAN_SHARE) * any_time
            refuted |= wealths.max(axis=0) >= needed
        return refuted

    def _iter_wealths(self, ratios: np.ndarray) -> Iterator[np.ndarray]:
        """Yield (2, n, m) float64: both parts of the wealth after the next n values at m ratios.

        The wealths of all values at once may not fit into memory.
        """
        hedged, logs = np.ones(len(ratios)), np.zeros(len(ratios))
        for first in range(0, len(self.numerator), _BLOCK):
            block = slice(first, first + _BLOCK)
            planned, any_time_logs = self._compute_wealths(ratios, block, hedged, logs)
            yield np.stack([planned, np.exp(np.minimum(any_time_logs, _MAX_EXPONENT))])
            hedged, logs = planned[-1], any_time_logs[-1]

    def _compute_wealths(
        self, ratios: np.ndarray, block: slice, hedged: np.ndarray, logs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute both parts of the wealth after each value of a block.

        Args:
            ratios: (m,) float64.
            block: the n values.
            hedged, logs: (m,) float64, the hedged wealth and the logarithm of the other one before
                the block.

        Returns:
            (n, m) float64 each, the hedged wealth and the logarithm of the other one.
        """
        sizes, sign = self.sizes[block], self.sign
        expected = np.multiply.outer(self.denominator[block], ratios)
        z = sign * (self.numerator[block, None] - expected)
        losses, gains = (
            side * (np.multiply.outer(sizes, ratios) - limits[block, None])
            for side, limits in ((sign, self.limits), (-sign, self._other_limits))
        )
        # no loss is possible where no value of the range is below the ratio
        least = (RESOLUTION * sizes + _TINY)[:, None]
        losses, gains = np.maximum(losses, least), np.maximum(gains, least)
        # a larger stake could lose more than `_MAX_LOSS` with one value
        largest = _MAX_LOSS / losses
        stakes = np.minimum(self._any_time_stakes[block, None], largest)
        factors = np.log1p(np.maximum(stakes * z, -_MAX_LOSS))
        deviations = np.sqrt(self._left[block])[:, None] * np.sqrt(losses) * np.sqrt(gains)
        planned = self._hedge(z, largest, deviations, self._growth_stakes[block], hedged)
        return planned, logs + factors.cumsum(axis=0)

    def _hedge(
        self,
        z: np.ndarray,
        largest: np.ndarray,
        deviations: np.ndarray,
        growth_stakes: np.ndarray,
        wealth: np.ndarray,
    ) -> np.ndarray:
        """Return (n, m) float64: the wealth after each value that is hedged or grows.

        Args:
            z: (n, m) float64, what a stake of 1 gains.
            largest: (n, m) float64, the largest stakes on a wealth of 1.
            deviations: (n, m) float64, the standard deviation of all values that are left.
            growth_stakes: (n,) float64, the stakes for growth on a wealth of 1; NaN for a hedge.
            wealth: (m,) float64, the wealth before these values.
        """
        target = _OVERSHOOT * math.exp(self._target) / _PLAN_SHARE
        wealths_of_stakes = target * _HEDGE_WEALTHS
        found = np.empty_like(z)
        most = math.exp(_MAX_EXPONENT)
        # tiny deviations give infinite stakes, which the largest ones limit
        with np.errstate(over="ignore"):
            scales = target / deviations
            for index, stake in enumerate(growth_stakes.tolist()):
                stakes = np.minimum(
                    scales[index] * np.interp(wealth, wealths_of_stakes, _HEDGE_STAKES) / wealth
                    if math.isnan(stake)
                    else stake,
                    largest[index],
                )
                # no value of the range loses more, but a rounded one may
                gains = np.maximum(stakes * z[index], -_MAX_LOSS)
                # a wealth that underflows would be divided by itself
                wealth = np.clip(wealth + wealth * gains, _TINY, most)
                found[index] = wealth
        return found


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
