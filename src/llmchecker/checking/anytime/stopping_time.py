"""The number of samples after which bets decide a threshold, as a distribution.

A decision ends the samples, so that their number depends on chance and on the unknown distribution
of the values. Both are simulated. The distribution of the values is drawn from its posterior, given
the values so far (Rubin 1981, "The Bayesian Bootstrap", Annals of Statistics 9). Values are drawn
from it. The evidence of all values grows by bets, from that of the values so far, until it refutes
the threshold from one of both sides, or until the certain bounds do. No answer depends on a
simulation.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import predict_variances
from llmchecker.checking.sample_values import SampleValues
from llmchecker.utils.interval import Interval

_PATHS = 200
"""Number of simulated continuations."""
_BINS = 16
"""Number of classes of values between the least and the largest one."""
_UNSEEN = 0.5
"""The prior weight of the least and of the largest value, in values (Jeffreys 1946)."""
_STEP = 0.06
"""The samples between two looks of a simulation at the evidence, as a share of those before."""
_MAX_FACTOR, _MAX_SAMPLES = 1e4, 1e5
"""Ratios to the samples so far, and numbers of samples, that both end a simulation."""
_STAKES = 64
"""Number of stakes of a mixture."""
_SHARES = (np.arange(_STAKES) + 0.5) / _STAKES
"""(64,) float64, the shares of the wealth that one value can lose at the threshold."""
_MAX_LOSS = 0.97
"""The share of the wealth that growing bets can lose with one value."""
_GROWTH_SHARES = np.array([0.9, 0.1])
"""The shares of the wealth that are bet for growth, and for a stop at any time."""
_LEAST = 2.0**-40
"""The least loss, range and variance of a value."""
_USUAL_TARGET = 6.0
"""The logarithm of the wealth that usually decides, by which bets for any time are sized."""
_CHUNK = 4096


class Bets(ABC):
    """The wealth of bets against a threshold, on each of several paths, for both ends.

    Args:
        values: the values so far, as distances from the threshold.
        paths: number of paths, which begin alike.
    """

    @abstractmethod
    def __init__(self, values: SampleValues, paths: int) -> None: ...

    @abstractmethod
    def add(self, drawn: np.ndarray, gains: np.ndarray, losses: np.ndarray) -> None:
        """Bet on further values.

        Args:
            drawn: (paths, classes) int64, the number of values of each class.
            gains: (2, paths, classes) float64, their distances from the threshold; positive ones
                are gains of the bets for an end.
            losses: (2, paths) float64, the largest loss with one value.
        """

    @abstractmethod
    def compute_evidence(self) -> np.ndarray:
        """Return (2, paths) the logarithms of the wealths."""

    @abstractmethod
    def keep(self, chosen: np.ndarray) -> None:
        """Drop the paths that are not chosen."""


class MixtureBets(Bets):
    """Bets of a mixture of fixed stakes, as in `threshold_evidence`."""

    def __init__(self, values: SampleValues, paths: int) -> None:
        logs = np.zeros((2, _STAKES))
        for row, (gains, losses) in enumerate(_find_gains(values)):
            # most samples have few different values
            distinct, counts = np.unique(gains / losses, return_counts=True)
            for start in range(0, len(distinct), _CHUNK):
                part = slice(start, start + _CHUNK)
                logs[row] += counts[part] @ self._compute_logs(distinct[part])
        self._logs = np.repeat(logs[:, None, :], paths, axis=1)

    def add(self, drawn: np.ndarray, gains: np.ndarray, losses: np.ndarray) -> None:
        logs = self._compute_logs(gains / losses[:, :, None])
        self._logs = self._logs + np.einsum("pc,epcs->eps", drawn, logs)

    def compute_evidence(self) -> np.ndarray:
        largest = self._logs.max(axis=-1)
        found: np.ndarray = largest + np.log(np.exp(self._logs - largest[..., None]).mean(axis=-1))
        return found

    def keep(self, chosen: np.ndarray) -> None:
        self._logs = self._logs[:, chosen]

    @staticmethod
    def _compute_logs(relative: np.ndarray) -> np.ndarray:
        """Return (..., stakes) the logarithms of the gains in units of the largest loss."""
        return np.log1p(relative.clip(-1.0)[..., None] * _SHARES)


class GrowingBets(Bets):
    """Bets whose stakes are learned from earlier values, as in `confidence_sequence`."""

    def __init__(self, values: SampleValues, paths: int) -> None:
        size = np.maximum(values.high - values.low, _LEAST)
        variances = predict_variances(np.array([]), (values.lower - values.low) / size) * size**2
        self._count = len(values)
        logs, sums, squares = np.zeros((2, 2)), np.zeros(2), np.zeros(2)
        for row, (gains, losses) in enumerate(_find_gains(values)):
            sums[row], squares[row] = gains.sum(), (gains**2).sum()
            counts = np.arange(len(values))
            means = np.concatenate([[0.0], gains.cumsum()[:-1]]) / np.maximum(counts, 1)
            logs[:, row] = self._bet(gains, losses, means, variances, counts + 1).sum(axis=1)
        self._logs = np.repeat(logs[:, :, None], paths, axis=2)
        self._sums = np.repeat(sums[:, None], paths, axis=1)
        self._squares = np.repeat(squares[:, None], paths, axis=1)
        self._prior = float(variances[0])

    def add(self, drawn: np.ndarray, gains: np.ndarray, losses: np.ndarray) -> None:
        count = int(drawn[0].sum())
        sums, squares = (np.einsum("pc,epc->ep", drawn, each) for each in (gains, gains**2))
        # stakes change with each value: those at the middle stand for all of them
        middle = self._count + count / 2
        means = (self._sums + sums / 2) / middle
        deviations = np.maximum(self._squares + squares / 2 - middle * means**2, 0.0)
        variances = np.maximum((self._prior + deviations) / (middle + 1), _LEAST)
        logs = self._bet(gains, losses[..., None], means[..., None], variances[..., None], middle)
        self._logs = self._logs + np.einsum("pc,sepc->sep", drawn, logs)
        self._sums, self._squares = self._sums + sums, self._squares + squares
        self._count += count

    def compute_evidence(self) -> np.ndarray:
        growing, any_time = self._logs + np.log(_GROWTH_SHARES)[:, None, None]
        found: np.ndarray = np.logaddexp(growing, any_time)
        return found

    def keep(self, chosen: np.ndarray) -> None:
        self._logs = self._logs[:, :, chosen]
        self._sums, self._squares = self._sums[:, chosen], self._squares[:, chosen]

    def _bet(
        self,
        gains: np.ndarray,
        losses: np.ndarray,
        means: np.ndarray,
        variances: np.ndarray,
        count: np.ndarray | float,
    ) -> np.ndarray:
        """Return (2, ...) the logarithms of the gains, for growth and for a stop at any time."""
        growing = np.maximum(means, 0.0) / (variances + means**2)
        any_time = np.sqrt(_USUAL_TARGET / (count * variances))
        stakes = np.stack(np.broadcast_arrays(growing, any_time)).clip(0, _MAX_LOSS / losses)
        found: np.ndarray = np.log1p(np.maximum(stakes * gains, -_MAX_LOSS))
        return found


def _find_gains(values: SampleValues) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return the gains and the largest losses of bets for both ends."""
    return (
        (values.lower, np.maximum(-values.low, _LEAST)),
        (-values.upper, np.maximum(values.high, _LEAST)),
    )


def find_last_sample(count: int) -> float:
    """Return the number of samples at which a simulation ends without a decision."""
    return max(count * _MAX_FACTOR, _MAX_SAMPLES)


def simulate_stopping_times(
    values: SampleValues,
    threshold: float,
    certain: Interval,
    error_probability: float,
    *,
    bets: type[Bets] = MixtureBets,
    narrowing: float = 0.0,
    round_size: int = 1,
    round_share: float = 0.0,
) -> np.ndarray:
    """Simulate the number of samples that decide a threshold.

    Args:
        values: the values so far, at least one.
        threshold: the threshold.
        certain: the certain bounds of the number.
        error_probability: the largest probability that one end of the interval is ever wrong.
        bets: the kind of the bets.
        narrowing: the range of the next values falls as their number to the power of minus this.
        round_size: the least number of samples of a round, after which the threshold is compared.
        round_share: the number of samples of a round as a share of those before.

    Returns:
        (paths,) float64, numbers of samples, with those so far; infinite beyond
        `find_last_sample`.
    """
    chance = np.random.default_rng(0)
    is_ratio, values, done = values.is_ratio, values.subtract(threshold), len(values)
    classes = _Classes.from_values(values)
    shares = chance.dirichlet(classes.weights, _PATHS)
    ends = (certain.lower - threshold, certain.upper - threshold)
    # bets on a ratio are about a difference of its parts
    if is_ratio:
        ends = (classes.low, classes.high)
    means = classes.find_means(shares).clip(*ends)
    margins = np.stack([means[0] - ends[0], ends[1] - means[1]])
    wealths = bets(values, _PATHS)
    times, active = np.full(_PATHS, math.inf), np.arange(_PATHS)
    count, last = done, find_last_sample(done)
    while count < last and len(active):
        needed = max(round_size, int(count * round_share))
        step = max(needed, int(count * _STEP))
        scale = ((count + step) / done) ** -narrowing
        gains, losses = classes.find_gains(
            shares[active], means[:, active], scale, (count + step / 2) / done
        )
        wealths.add(chance.multinomial(step, shares[active]), gains, losses)
        is_refuted = wealths.compute_evidence().max(axis=0) >= -math.log(error_probability)
        low, high = means[:, active] + scale * np.array([[-1.0], [1.0]]) * margins[:, active]
        is_over = is_refuted | (low > 0) | (high < 0)
        # a smaller round ended somewhere between two looks
        early = np.floor(chance.random(is_over.sum()) * (step - needed + 1))
        count += step
        times[active[is_over]] = count - early
        active = active[~is_over]
        wealths.keep(~is_over)
    return times


@dataclass(frozen=True)
class _Classes:
    """Classes of values, as shares of their range.

    Attributes:
        atoms: (2, classes) float64, the value of a class for both ends, from 0 to 1.
        weights: (classes,) float64, the number of values, with the prior's.
        centre: (2,) float64, the mean of the values as shares of their range.
        observed: (2,) float64, their mean.
        low, high: the limits of the next value.
        contraction: the deviations of values from their mean fall as their number to the power of
            minus this.
    """

    atoms: np.ndarray
    weights: np.ndarray
    centre: np.ndarray
    observed: np.ndarray
    low: float
    high: float
    contraction: float

    @classmethod
    def from_values(cls, values: SampleValues) -> "_Classes":
        """Return the classes of the next values."""
        low, high = float(values.low[-1]), float(values.high[-1])
        size = max(high - low, _LEAST)
        contraction = _find_contraction(values.lower)
        scale = ((np.arange(len(values)) + 0.5) / len(values)) ** contraction
        columns = np.stack([values.lower, values.upper])
        # precise values weigh more
        precisions = scale**2
        observed = columns @ precisions / precisions.sum()
        columns = observed[:, None] + scale * (columns - observed[:, None])
        units = ((columns - low) / size).clip(0.0, 1.0)
        middle = units.mean(axis=0)
        # the least and the largest value have classes of their own, which may be empty
        numbers = np.where(middle <= 0, 0, np.where(middle >= 1, _BINS + 1, 1))
        numbers += np.where(numbers == 1, np.minimum(middle * _BINS, _BINS - 1).astype(int), 0)
        weights = np.bincount(numbers, precisions, minlength=_BINS + 2).astype(np.float64)
        sums = np.stack([np.bincount(numbers, row, minlength=_BINS + 2) for row in units])
        atoms = sums / np.maximum(np.bincount(numbers, minlength=_BINS + 2), 1)
        atoms[:, -1] = np.where(weights[-1] > 0, atoms[:, -1], 1.0)
        centre = atoms @ weights / weights.sum()
        weights[[0, -1]] += _UNSEEN
        chosen = weights > 0
        return cls(atoms[:, chosen], weights[chosen], centre, observed, low, high, contraction)

    def find_means(self, shares: np.ndarray) -> np.ndarray:
        """Return (2, paths) the means of distributions, near that of all values."""
        differences = self.atoms @ shares.T - self.centre[:, None]
        found: np.ndarray = self.observed[:, None] + (self.high - self.low) * differences
        return found

    def find_gains(
        self, shares: np.ndarray, means: np.ndarray, scale: float, growth: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the gains of bets on values.

        Args:
            shares: (paths, classes) float64, the distributions.
            means: (2, paths) float64, their means.
            scale: the size of the range, in units of the last one.
            growth: the number of values, in units of that so far.

        Returns:
            (2, paths, classes) float64, the gains for both ends, and (2, paths) the largest losses.
        """
        width, unit_means = scale * (self.high - self.low), self.atoms @ shares.T
        deviations = (
            width * growth**-self.contraction * (self.atoms[:, None] - unit_means[..., None])
        )
        gains = means[..., None] + deviations
        gains[1] *= -1
        low = means - width * unit_means
        return gains, np.maximum(np.stack([-low[0], low[1] + width]), _LEAST)


def _find_contraction(column: np.ndarray) -> float:
    """Return the exponent with which deviations fall as a power of the number of values.

    Both halves of the values are compared. What may be chance is shrunk to 0.
    """
    half = len(column) // 2
    halves = column[:half], column[half:]
    deviations = [float(each.std()) for each in halves if len(each) > 1]
    if len(deviations) < 2 or min(deviations) <= 0:
        return 0.0
    # the centres of both halves are at 1/4 and 3/4
    exponent = math.log(deviations[0] / deviations[1]) / math.log(3)
    variance = (
        sum(
            (float((((each - each.mean()) / deviation) ** 4).mean()) - 1) / (4 * len(each))
            for each, deviation in zip(halves, deviations, strict=True)
        )
        / math.log(3) ** 2
    )
    return min(0.5, max(0.0, exponent) ** 3 / (exponent**2 + variance)) if exponent > 0 else 0.0
