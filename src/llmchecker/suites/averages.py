"""Measurements of averages: of these rows, of the population of the rows, or of the worst row.

A population's mean is that of the rows which could have been drawn. Rows, or whole clusters of
rows, are drawn independently. For each row, let y be at most its probability P on average: with the
weights w of its samples, whose sum is u,

    y = sum w x + (1 - u) l,

where x are the values of its samples, each with the mean P given the earlier ones, and l is the
certain lower bound. Then the mean of y over the population is at most that of P, and a confidence
sequence of the y is a lower bound of it (Waudby-Smith and Ramdas 2024, "Estimating Means of Bounded
Random Variables by Betting", JRSS B 86). The upper bound is alike. What differs between rows is in
the interval, and so is what the samples of a row leave open. A difference of two deployments is one
of the pairs of values of each row (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import (
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.mean_evidence import MeanEvidence, Member, bound_mean
from llmchecker.checking.measurement import Measurement, Threshold, average_measurements
from llmchecker.suites.statistic import RowFigure, Scope, Statistic, is_upper_limit
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.interval import PROBABILITIES, Interval

_SCALE_ERROR = 2.0**-50
"""A limit above the relative rounding error of the conversion of a score."""
_SUM_ERROR = 1e-9
"""A limit above the rounding error of a weighted sum of values from 0 to 1."""
_WIDEST = 0
"""The index of the scale whose weights use most of each sample (see `mean_evidence`)."""


@dataclass(frozen=True)
class _Row:
    """A row of an average.

    Attributes:
        name: name of its case.
        measurement: the measurement of its figure.
        shares: its certain bounds as shares of the range of all values.
        evidence: the evidence of its samples about such shares; None without it.
        is_missing: whether it failed or did not end, which may depend on its samples.
    """

    name: str
    measurement: Measurement
    shares: Interval
    evidence: MeanEvidence | None
    is_missing: bool

    @classmethod
    def read(cls, result: CaseResult, figure: RowFigure | None, values: Interval) -> "_Row":
        """Read the result of a row, all of whose possible values are given."""
        is_missing = result.status in (Status.ERROR, Status.UNFINISHED)
        if result.answer is None:
            return cls(result.case, Measurement(values, values), PROBABILITIES, None, is_missing)
        measurement, evidence = result.measurement, result.evidence
        is_probability = values == PROBABILITIES
        shares = measurement.certain if is_probability else PROBABILITIES
        # of scores, those of texts alone have evidence, which is about shares of their range
        is_share = result.answer.is_text_only and measurement.certain == values
        # the interval of a requirement has its share of the confidence, its evidence has none
        if not (is_probability or is_share) or result.status is not Status.MEASURED:
            evidence = None
        if figure is not None:
            # the samples are about the probability itself
            measurement, evidence = figure.apply(measurement), None
        return cls(result.case, measurement, shares, evidence, is_missing)

    def bound_share(self, values: Interval) -> tuple[float, float]:
        """Return numbers from 0 to 1 between which the share is on average over its samples."""
        if self.is_missing:
            return 0.0, 1.0
        if self.evidence is None:
            sampled, width = self.measurement.sampled, values.width
            low, high = (
                (sampled.lower - values.lower) / width,
                (sampled.upper - values.lower) / width,
            )
        else:
            left = 1 - self.evidence.used[_WIDEST]
            low = self.evidence.low_sums[_WIDEST] + left * self.shares.lower
            high = self.evidence.high_sums[_WIDEST] + left * self.shares.upper
        return max(0.0, low - _SUM_ERROR), min(1.0, high + _SUM_ERROR)


@dataclass(frozen=True)
class AverageEstimator:
    """An estimator of an average, and of its difference between two deployments.

    Attributes:
        statistic: what the average reports.
        threshold: its requirement; None without one.
        error_probability: the largest probability that its own interval or that of a difference
            is wrong, besides the intervals of the rows.
        values: all possible values of a row: probabilities, or scores.
        seed: the seed of the order in which rows of a population are read.
    """

    statistic: Statistic
    threshold: Threshold | None
    error_probability: float
    values: Interval
    seed: int

    def measure(self, results: Sequence[CaseResult]) -> Measurement:
        """Return the measurement of the average over rows, whose samples are independent."""
        rows = self._read_rows(results)
        if self.statistic.scope is Scope.WORST:
            return _find_extreme(rows, is_upper_limit(self.threshold))
        mean = average_measurements([row.measurement for row in rows])
        if self.statistic.scope is Scope.ROWS:
            return _narrow_by_samples(mean, rows, self.error_probability, self.values)
        low, high = _bound_shares(rows, self.values)
        sampled = self._bound_population(rows, low, high, self.values)
        # clusters count the same, however many rows they have
        estimate = None if self.statistic.clusters or mean.estimate is None else mean.estimate
        return Measurement(
            self.values, sampled, None if estimate is None else sampled.clip(estimate)
        )

    def measure_difference(
        self, own: Sequence[CaseResult], other: Sequence[CaseResult]
    ) -> Measurement:
        """Return the measurement of the average of one deployment minus that of another.

        Args:
            own, other: the results of the same rows, in the same order.
        """
        if self.statistic.scope is not Scope.POPULATION:
            return self.measure(own) - self.measure(other)
        own_rows = self._read_rows(own)
        own_low, own_high = _bound_shares(own_rows, self.values)
        other_low, other_high = _bound_shares(self._read_rows(other), self.values)
        # a difference from -1 to 1 as a share of its range
        low, high = (own_low - other_high + 1) / 2, (own_high - other_low + 1) / 2
        differences = self.values - self.values
        return Measurement(differences, self._bound_population(own_rows, low, high, differences))

    def _read_rows(self, results: Sequence[CaseResult]) -> list[_Row]:
        return [_Row.read(result, self.statistic.figure, self.values) for result in results]

    def _bound_population(
        self, rows: Sequence[_Row], low: np.ndarray, high: np.ndarray, values: Interval
    ) -> Interval:
        """Bound the mean over the population of the rows.

        Args:
            rows: the rows.
            low, high: (n,) float64, numbers from 0 to 1 of the rows, as shares of the values.
            values: all possible values.
        """
        clusters = [self.statistic.clusters.get(row.name, row.name) for row in rows]
        # a difference of paired rows has an interval of its own
        error_probability = self.error_probability / 2
        shares = _bound_population(low, high, clusters, error_probability, self.seed)
        return _scale(shares, values)


def _find_extreme(rows: Sequence[_Row], is_largest: bool) -> Measurement:
    """Return the measurement of the largest or the smallest figure of all rows.

    The intervals of the rows hold together, so the extremes of their ends hold with them.
    """
    find = max if is_largest else min
    certain, sampled = (
        Interval(find(each.lower for each in ends), find(each.upper for each in ends))
        for ends in (
            [row.measurement.certain for row in rows],
            [row.measurement.sampled for row in rows],
        )
    )
    # the extreme of estimates is no estimate of the extreme
    return Measurement(certain, sampled)


def _narrow_by_samples(
    mean: Measurement, rows: Sequence[_Row], error_probability: float, values: Interval
) -> Measurement:
    """Return a mean whose interval is cut to that of the samples of all rows together.

    The latter is narrower for many rows, because deviations of independent samples average out.
    """
    # which rows have no result may depend on their samples, and their evidence is missing
    if any(row.is_missing for row in rows) or all(row.evidence is None for row in rows):
        return mean
    members = [Member(row.shares.lower, row.shares.upper, row.evidence) for row in rows]
    found = _scale(Interval(*bound_mean(members, error_probability)), values)
    shared = Interval(max(found.lower, mean.sampled.lower), min(found.upper, mean.sampled.upper))
    sampled = mean.certain.cut(shared)
    estimate = None if mean.estimate is None else sampled.clip(mean.estimate)
    return Measurement(mean.certain, sampled, estimate)


def _bound_shares(rows: Sequence[_Row], values: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) float64 each, the lower and upper numbers of all rows."""
    low, high = zip(*(row.bound_share(values) for row in rows), strict=True)
    return np.array(low), np.array(high)


def _bound_population(
    low: np.ndarray,
    high: np.ndarray,
    clusters: Sequence[str],
    error_probability: float,
    seed: int,
) -> Interval:
    """Bound the mean of a population, from which clusters of rows are drawn independently.

    Args:
        low, high: (n,) float64 from 0 to 1, numbers whose means are at most and at least that of a
            row.
        clusters: (n,) the cluster of each row.
        error_probability: the largest probability that the interval misses the mean.
        seed: the seed of the order of the clusters; that of the file may depend on the answers.
    """
    names = np.unique(np.array(clusters), return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(int(names.max()) + 1)
    counts = np.bincount(names)
    lows, highs = (np.bincount(names, column)[order] / counts[order] for column in (low, high))
    # of each sequence one end is used, so that both together have one error probability
    lower, _ = _find_interval(lows, 1 - error_probability)
    _, upper = _find_interval(highs, 1 - error_probability)
    # the two cross as rarely as the interval misses
    return Interval(min(lower, upper), max(lower, upper))


def _find_interval(numbers: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return an interval of the mean of independent numbers from 0 to 1."""
    sequence = ConfidenceSequence(confidence)
    n = len(numbers)
    variances = predict_variances(np.zeros(0), numbers)
    sequence.narrow_interval(Values(numbers, np.ones(n), 0.0, 1.0, 1.0, variances, float(n)))
    return sequence.interval


def _scale(shares: Interval, values: Interval) -> Interval:
    """Return an interval of shares of a range as one of its values."""
    if values == PROBABILITIES:
        return shares
    margin = _SCALE_ERROR * max(abs(values.lower), abs(values.upper))
    lower = values.lower + shares.lower * values.width - margin
    upper = values.lower + shares.upper * values.width + margin
    return Interval(lower, upper)
