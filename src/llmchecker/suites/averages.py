"""Measurements of averages: of these rows, of the population of the rows, or of the worst row.

Rows, or whole clusters of rows, are read in a random order. For each row, let y be at most its
probability P on average: with the weights w of its samples, whose sum is u,

    y = sum w x + (1 - u) l,

where x are the values of its samples, each with the mean P given the earlier ones, and l is the
certain lower bound. The upper bound is alike.

A population's mean is that of the rows which could have been drawn, independently. The mean of y
over it is at most that of P, and a confidence sequence of the y is a lower bound of it. What
differs between rows is in the interval, and so is what the samples of a row leave open. A
difference of two deployments is one of the pairs of values of each row (Miller 2024, "Adding Error
Bars to Evals", arXiv 2411.00640).

The mean m of these N rows is exact once all are read. Before, the rows are drawn without
replacement (Waudby-Smith and Ramdas 2020, "Confidence sequences for sampling without replacement",
NeurIPS): given n rows whose sum is S, the next P has the mean (N m - S) / (N - n). The samples of
all read rows bound S by L at every n together (see `mean_evidence`), with half of the error
probability. As long as this holds, the mean of y - (N m - L) / (N - n) is at most 0: bets on the
ratio of y + L / (N - n) to N / (N - n) bound m, with the other half (Waudby-Smith and Ramdas 2024,
"Estimating Means of Bounded Random Variables by Betting", JRSS B 86).

Rows may get a part of their budget, chosen by the rows before them (see `row_effort`). If bets and
sums leave the mean m open when all rows are read, the rows with a part are read again, with new
samples. Given the first reading, these have the mean P of their row. So the samples of the rows
with the whole budget, then the new ones, bound the sum as before. Each of the two bounds of sums
has half of the error probability of one.

A mean of grades may be corrected for the errors of the judge (see `judge_errors`): whatever bounds
the mean bounds the corrected one.

Both hold for any number of rows, so the reading may stop for any reason. Only the rows up to the
first one without a result count: which later ones have one may depend on their samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import (
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.mean_evidence import MeanEvidence, Member, bound_sums
from llmchecker.checking.anytime.mean_test import MeanTest
from llmchecker.checking.measurement import Measurement, Threshold, average_measurements
from llmchecker.suites.row_effort import WHOLE, ReadRow, choose_effort
from llmchecker.suites.statistic import RowFigure, Scope, Statistic, is_upper_limit
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval

_SCALE_ERROR = 2.0**-50
"""A limit above the relative rounding error of the conversion of a score."""
_SUM_ERROR = 1e-9
"""A limit above the rounding error of a weighted sum of values from 0 to 1."""
_WIDEST = 0
"""The index of the scale whose weights use most of each sample (see `mean_evidence`)."""


_MAX_BETS = 2_000
"""The number of bets above which the rows of a bet are averaged: bets take time."""


@dataclass(frozen=True)
class _Row:
    """A row of an average.

    Attributes:
        name: name of its case.
        measurement: the measurement of its figure.
        shares: its certain bounds as shares of the range of all values.
        evidence: the evidence of its samples about such shares; None without it.
        is_read: whether it has a result.
        is_failed: whether the result is an error, which may depend on its samples.
        effort: its effort; None if none was chosen.
        is_reread: whether it was read again.
    """

    name: str
    measurement: Measurement
    shares: Interval
    evidence: MeanEvidence | None
    is_read: bool
    is_failed: bool
    effort: float | None = None
    is_reread: bool = False

    @classmethod
    def read(cls, result: CaseResult, figure: RowFigure | None, values: Interval) -> "_Row":
        """Read the result of a row, all of whose possible values are given."""
        is_read = result.status not in (Status.UNFINISHED, Status.UNREAD)
        is_failed = result.status is Status.ERROR
        if result.answer is None:
            measurement = Measurement(values, values)
            return cls(result.case, measurement, PROBABILITIES, None, is_read, is_failed)
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
        efforts = result.effort, result.is_reread
        return cls(result.case, measurement, shares, evidence, is_read, is_failed, *efforts)

    def find_interval(self, values: Interval) -> Interval:
        """Return its interval, which holds together with all others, as shares of the values."""
        sampled, width = self.measurement.sampled, values.width
        lower, upper = (
            (sampled.lower - values.lower) / width,
            (sampled.upper - values.lower) / width,
        )
        return Interval(max(0.0, lower - _SUM_ERROR), min(1.0, upper + _SUM_ERROR))

    def bound_share(self, values: Interval) -> tuple[float, float]:
        """Return numbers from 0 to 1 between which the share is on average over its samples."""
        if self.is_failed or not self.is_read:
            return 0.0, 1.0
        if self.evidence is None:
            interval = self.find_interval(values)
            return interval.lower, interval.upper
        left = 1 - self.evidence.used[_WIDEST]
        low = self.evidence.low_sums[_WIDEST] + left * self.shares.lower
        high = self.evidence.high_sums[_WIDEST] + left * self.shares.upper
        return max(0.0, low - _SUM_ERROR), min(1.0, high + _SUM_ERROR)

    @property
    def is_kept(self) -> bool:
        """Whether a second reading of the others does not replace it."""
        return self.effort in (None, WHOLE) and not self.is_reread

    @property
    def is_exact(self) -> bool:
        """Whether its certain bounds are equal but for rounding."""
        return self.measurement.certain.width <= _SUM_ERROR

    def describe_effort(self, values: Interval, cost: int) -> ReadRow:
        """Describe what its effort brought for its cost."""
        effort = self.effort or WHOLE
        low, high = self.bound_share(values)
        if self.evidence is None:
            return ReadRow(low, high, 0.0, 0, cost, effort)
        variance = self.evidence.find_variance(_WIDEST)
        return ReadRow(low, high, variance, self.evidence.number, cost, effort)

    def build_member(self, values: Interval) -> Member:
        """Return its samples, or its interval without samples."""
        if self.evidence is not None:
            return Member(self.shares.lower, self.shares.upper, self.evidence)
        interval = self.find_interval(values)
        return Member(interval.lower, interval.upper, None)


@dataclass(frozen=True)
class AverageEstimator:
    """An estimator of an average, and of its difference between two deployments.

    Attributes:
        statistic: what the average reports.
        threshold: its requirement; None without one.
        error_probability: the largest probability that its own interval or that of a difference
            is wrong, besides the intervals of the rows; also that an interval of a judge's errors
            is.
        values: all possible values of a row: probabilities, or scores.
        seed: the seed of the order in which rows are read.
    """

    statistic: Statistic
    threshold: Threshold | None
    error_probability: float
    values: Interval
    seed: int

    def order_rows(self, names: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the rows in the random order of reading, those of each cluster.

        The order of the file may depend on the answers.

        Args:
            names: the names of the cases of all rows.
        """
        clusters = np.array([self.statistic.clusters.get(name, name) for name in names])
        numbers = np.unique(clusters, return_inverse=True)[1]
        rows: list[list[int]] = [[] for _ in range(int(numbers.max()) + 1)]
        for row, number in enumerate(numbers.tolist()):
            rows[number].append(row)
        order = np.random.default_rng(self.seed).permutation(len(rows))
        return [rows[number] for number in order.tolist()]

    @property
    def is_mean(self) -> bool:
        """Whether it is about a mean of the rows' own probabilities or scores."""
        statistic = self.statistic
        is_other = statistic.figure is not None or statistic.truth is not None
        return statistic.scope is not Scope.WORST and not is_other

    def plan_effort(self, results: Sequence[CaseResult], total: int) -> float:
        """Return the effort of the next rows in the order of reading.

        Args:
            results: the results of all rows before them.
            total: the number of rows of the average.
        """
        limit = self._limit
        rows = [row for row in self._read_rows(results) if row.is_read and not row.is_failed]
        # the evidence of samples is about the average, and intervals need all of their samples
        has_evidence = all(row.evidence is not None or row.is_exact for row in rows)
        if limit is None or not has_evidence:
            return WHOLE
        costs = {result.case: result.cost for result in results}
        found = [row.describe_effort(self.values, costs[row.name]) for row in rows]
        is_list = self.statistic.scope is Scope.ROWS
        return choose_effort(found, limit, total, self.error_probability / 4, is_list=is_list)

    def measure(self, results: Sequence[CaseResult]) -> Measurement:
        """Return the measurement of the average over rows, whose samples are independent."""
        measurement, truth = self._measure_rows(results), self.statistic.truth
        return measurement if truth is None else truth.correct(measurement, self._confidence)

    def list_reasons(self, results: Sequence[CaseResult]) -> tuple[str, ...]:
        """List the assumptions of the average, as sentences."""
        if (truth := self.statistic.truth) is None:
            return ()
        return truth.list_reasons(self._measure_rows(results).sampled, self._confidence)

    @property
    def _confidence(self) -> float:
        """The confidence of an interval of a judge's errors."""
        return 1 - self.error_probability

    def _compare(self, interval: Interval) -> bool | None:
        """Return whether an interval of the rows' mean decides the requirement, and how."""
        if self.threshold is None:
            return None
        if (truth := self.statistic.truth) is not None:
            interval = truth.bound(self._confidence).correct(interval)
        return self.threshold.compare(interval)

    def _measure_rows(self, results: Sequence[CaseResult]) -> Measurement:
        """Return the measurement of the average, not corrected for the errors of a judge."""
        rows = self._read_rows(results)
        if self.statistic.scope is Scope.WORST:
            return _find_extreme(rows, is_upper_limit(self.threshold))
        mean = average_measurements([row.measurement for row in rows])
        if self.statistic.scope is Scope.ROWS:
            return self._narrow(mean, rows)
        (sampled,) = self._iter_intervals(rows)
        # clusters count the same, however many rows they have
        estimate = None if self.statistic.clusters or mean.estimate is None else mean.estimate
        # a mean of some of the rows is no estimate of those that have no result
        estimate = estimate if all(row.is_read for row in rows) else None
        return Measurement(
            self.values, sampled, None if estimate is None else sampled.clip(estimate)
        )

    def is_decided(self, results: Sequence[CaseResult]) -> bool:
        """Return whether the results so far decide the requirement, whatever the others are."""
        rows = self._read_rows(results)
        if self.threshold is None:
            return False
        if self.statistic.scope is Scope.WORST:
            # one row is enough against it, and all are needed for it
            worst = _find_extreme(rows, is_upper_limit(self.threshold))
            return self.threshold.compare(worst.sampled) is False
        intervals = self._iter_intervals(rows)
        return any(self._compare(each) is not None for each in intervals)

    def measure_difference(
        self, own: Sequence[CaseResult], other: Sequence[CaseResult]
    ) -> Measurement:
        """Return the measurement of the average of one deployment minus that of another.

        Args:
            own, other: the results of the same rows, in the same order.
        """
        if (truth := self.statistic.truth) is None:
            return self._subtract(own, other)
        # with answers that have not ended, the two sides may have other errors
        if truth.is_whole:
            return self.measure(own) - self.measure(other)
        difference = self._subtract(own, other).sampled
        rates = truth.bound(self._confidence)
        return Measurement(DIFFERENCES, rates.correct_difference(difference))

    def _subtract(self, own: Sequence[CaseResult], other: Sequence[CaseResult]) -> Measurement:
        """Return the measurement of a difference, not corrected for the errors of a judge."""
        if self.statistic.scope is not Scope.POPULATION:
            return self._measure_rows(own) - self._measure_rows(other)
        own_rows, other_rows = self._read_rows(own), self._read_rows(other)
        own_low, own_high = _bound_shares(own_rows, self.values)
        other_low, other_high = _bound_shares(other_rows, self.values)
        # a difference from -1 to 1 as a share of its range
        low, high = (own_low - other_high + 1) / 2, (own_high - other_low + 1) / 2
        is_read = [a.is_read and b.is_read for a, b in zip(own_rows, other_rows, strict=True)]
        shares = self._bound_population([row.name for row in own_rows], is_read, low, high, None)
        differences = self.values - self.values
        return Measurement(differences, _scale(shares, differences))

    def _read_rows(self, results: Sequence[CaseResult]) -> list[_Row]:
        return [_Row.read(result, self.statistic.figure, self.values) for result in results]

    @property
    def _limit(self) -> float | None:
        """The threshold as a share of the values; None without one."""
        if self.threshold is None:
            return None
        limit = (float(self.threshold.number) - self.values.lower) / self.values.width
        truth = self.statistic.truth
        return limit if truth is None else truth.find_passed(limit)

    def _narrow(self, mean: Measurement, rows: Sequence[_Row]) -> Measurement:
        """Return a mean of these rows whose interval is cut until it decides the requirement."""
        for found in self._iter_intervals(rows):
            shared = Interval(
                max(found.lower, mean.sampled.lower), min(found.upper, mean.sampled.upper)
            )
            sampled = mean.certain.cut(shared)
            estimate = None if mean.estimate is None else sampled.clip(mean.estimate)
            mean = Measurement(mean.certain, sampled, estimate)
            if self._compare(sampled) is not None:
                break
        return mean

    def _iter_intervals(self, rows: Sequence[_Row]) -> Iterator[Interval]:
        """Yield intervals of the average, which hold together; later ones take more time."""
        if self.statistic.scope is Scope.POPULATION:
            low, high = _bound_shares(rows, self.values)
            is_read = [row.is_read for row in rows]
            names = [row.name for row in rows]
            shares = self._bound_population(names, is_read, low, high, self._limit)
            yield _scale(shares, self.values)
            return
        ordered = [rows[row] for (row,) in self.order_rows([row.name for row in rows])]
        is_reread = any(row.is_reread for row in rows)
        if is_reread:
            # a second reading begins after all rows, and its samples follow those that stay
            ordered.sort(key=lambda row: not row.is_kept)
        is_used = [row.is_read and (row.is_kept or row.is_reread == is_reread) for row in ordered]
        read = ordered[: is_used.index(False) if False in is_used else None]
        # a requirement needs bets too
        error_probability = self.error_probability / (1 if self.threshold is None else 2)
        # with efforts there may be sums of two readings
        parts = 1 if all(row.effort is None for row in rows) else 2
        lows, highs = bound_sums(_build_members(read, self.values), error_probability / parts)
        others = [row.find_interval(self.values) for row in ordered[len(read) :]]
        yield _scale(_bound_by_sums(lows, highs, others), self.values)
        # the first reading is known to leave the requirement open, so that bets are not fair
        if self.threshold is not None and not is_reread:
            low, high = _bound_shares(read, self.values)
            sums = tuple(np.clip(each, 0.0, np.arange(len(read) + 1)) for each in (lows, highs))
            shares = _bound_by_bets(low, high, sums, len(rows), error_probability, self._limit)
            yield _scale(shares, self.values)

    def _bound_population(
        self,
        names: Sequence[str],
        is_read: Sequence[bool],
        low: np.ndarray,
        high: np.ndarray,
        limit: float | None,
    ) -> Interval:
        """Bound the mean of a population, from which clusters of rows are drawn independently.

        Args:
            names: the names of the n rows.
            is_read: (n,) whether each row has a result.
            low, high: (n,) float64 from 0 to 1, numbers whose means are at most and at least that
                of a row.
            limit: the threshold; None for the narrowest interval.
        """
        clusters = self.order_rows(names)
        read = list(takewhile(lambda rows: all(is_read[row] for row in rows), clusters))
        lows, highs = (np.array([column[rows].mean() for rows in read]) for column in (low, high))
        # a difference of paired rows has an interval of its own
        error_probability = self.error_probability / 2
        return _bound_by_bets(lows, highs, None, len(clusters), error_probability, limit)


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


def _build_members(rows: Sequence[_Row], values: Interval) -> list[Member]:
    """Return the samples of rows; which rows fail may depend on theirs, so none count after one."""
    failed = next((n for n, row in enumerate(rows) if row.is_failed), len(rows))
    intervals = [row.find_interval(values) for row in rows[failed:]]
    return [
        *(row.build_member(values) for row in rows[:failed]),
        *(Member(each.lower, each.upper, None) for each in intervals),
    ]


def _bound_by_sums(lows: np.ndarray, highs: np.ndarray, others: Sequence[Interval]) -> Interval:
    """Bound the mean of rows by the sums of the first n of them, at every n.

    Args:
        lows, highs: (read + 1,) float64, the bounds of the sum of the first n rows.
        others: the intervals of the rows that are not read.
    """
    total = len(lows) - 1 + len(others)
    unread = total - np.arange(len(lows))
    lower = max(float(lows.max()), float(lows[-1]) + sum(each.lower for each in others))
    upper = min(float((highs + unread).min()), float(highs[-1]) + sum(e.upper for e in others))
    return Interval(lower / total - _SUM_ERROR, upper / total + _SUM_ERROR)


def _bound_shares(rows: Sequence[_Row], values: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) float64 each, the lower and upper numbers of all rows."""
    shares = np.array([row.bound_share(values) for row in rows]).reshape(-1, 2)
    return shares[:, 0], shares[:, 1]


def _bound_by_bets(
    low: np.ndarray,
    high: np.ndarray,
    sums: tuple[np.ndarray, ...] | None,
    total: int,
    error_probability: float,
    limit: float | None,
) -> Interval:
    """Bound a mean by bets on the first rows, or clusters, of a random order.

    Args:
        low, high: (n,) float64 from 0 to 1, numbers whose means are at most and at least that of a
            row.
        sums: (n + 1,) float64 each, a lower and an upper bound of the sum of the first rows, for
            the mean of a number of rows with a threshold; None for that of a population.
        total: the number of rows.
        error_probability: the largest probability that the interval misses the mean.
        limit: the threshold that bets should refute; None for the narrowest interval.
    """
    size = max(1, total // _MAX_BETS)
    # a later row must not change a bet, so only whole blocks count before the last one
    ends = np.arange(size, len(low) + 1, size)
    if len(low) == total and total % size:
        ends = np.append(ends, total)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
    lows, highs = (_average_blocks(column, starts, ends) for column in (low, high))
    if limit is None:
        planned = float(-(-total // size))
        # of each sequence one end is used, so that both together have one error probability
        lower, upper = (
            _narrow(column, planned, 1 - error_probability)[end]
            for end, column in enumerate((lows, highs))
        )
        # the two cross as rarely as the interval misses
        return Interval(min(lower, upper), max(lower, upper))
    test = MeanTest(None if sums is None else total, limit, error_probability / 2)
    known = (np.zeros(len(starts)),) * 2 if sums is None else [each[starts] for each in sums]
    columns = (column.tolist() for column in (lows, highs, *known, ends - starts))
    for low_mean, high_mean, low_sum, high_sum, count in zip(*columns, strict=True):
        test.add(low_mean, high_mean, (low_sum, high_sum), count)
    return test.interval


def _average_blocks(numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return (m,) float64 from 0 to 1, the means of blocks of (n,) numbers."""
    totals = np.concatenate([[0.0], numbers.cumsum()])
    means: np.ndarray = ((totals[ends] - totals[starts]) / (ends - starts)).clip(0.0, 1.0)
    return means


def _narrow(numbers: np.ndarray, planned: float, confidence: float) -> tuple[float, float]:
    """Return the ends of an interval of the mean of numbers from 0 to 1, of so many planned."""
    sequence = ConfidenceSequence(confidence)
    if len(numbers):
        variances = predict_variances(np.zeros(0), numbers)
        sizes = np.ones(len(numbers))
        sequence.narrow_interval(Values(numbers, sizes, 0.0, 1.0, 1.0, variances, planned))
    return sequence.interval


def _scale(shares: Interval, values: Interval) -> Interval:
    """Return an interval of shares of a range as one of its values."""
    if values == PROBABILITIES:
        return shares
    margin = _SCALE_ERROR * max(abs(values.lower), abs(values.upper))
    lower = values.lower + shares.lower * values.width - margin
    upper = values.lower + shares.upper * values.width + margin
    return Interval(lower, upper)
