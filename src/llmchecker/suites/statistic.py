"""Statistics of the rows of a table: what an average reports, and of which rows.

    mean P=? [ F correct > 0 ] >= 0.7               the mean of these rows
    { of: correct, at_least: 0.7, about: population }    the mean of rows like these
    { of: correct, all_of: 5 }                      the mean of pass^5: all of 5 answers
    { of: correct, any_of: 5 }                      the mean of pass@5: any of 5 answers
    { of: correct, rows_with: ">= 0.9" }            the share of rows that reach 0.9
    worst P=? [ F leaks > 0 ] <= 0.01               the largest of these rows
    { of: "P=? [ F (G ok = 1) ]", truth: ok.json }  the mean corrected for errors of the judge ok

`repeats` has the probabilities of several answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from llmchecker.checking.measurement import Measurement, Threshold
from llmchecker.properties.repeats import raise_probability
from llmchecker.suites.judge_errors import JudgeErrors
from llmchecker.utils.interval import Interval, round_interval
from llmchecker.utils.number_format import format_count


class Scope(StrEnum):
    """The rows that an average is about."""

    ROWS = "rows"
    """The mean of the rows of the table."""
    POPULATION = "population"
    """The mean of the population from which the rows of the table were drawn independently."""
    WORST = "worst"
    """The row of the table that is furthest from its requirement."""


@dataclass(frozen=True)
class RowFigure:
    """A figure of a row that never falls with its probability p, except for `rows_with <= …`.

    Attributes:
        repeats: the number k of answers.
        is_all: whether all of the k answers count, and not any of them.
        reached: instead, the threshold of p, for 1 if p meets it and 0 if not.
    """

    repeats: int = 1
    is_all: bool = True
    reached: Threshold | None = None

    @property
    def words(self) -> str:
        """The figure in words; empty for the probability itself."""
        if self.reached is not None:
            return f"P {self.reached}"
        return f"{'all' if self.is_all else 'any'} of {self.repeats} answers"

    def apply(self, measurement: Measurement) -> Measurement:
        """Return the measurement of the figure from that of the probability."""
        estimate = measurement.estimate
        found = None if estimate is None else self._map(Interval(estimate, estimate)).lower
        # an estimate at a threshold is no estimate of whether the probability meets it
        estimate = None if self.reached is not None else found
        certain, sampled = self._map(measurement.certain), self._map(measurement.sampled)
        return Measurement(certain, sampled, None if estimate is None else sampled.clip(estimate))

    def _map(self, interval: Interval) -> Interval:
        if self.reached is not None:
            is_met = self.reached.compare(interval)
            return Interval(0.0, 1.0) if is_met is None else Interval(float(is_met), float(is_met))
        lower, upper = (
            raise_probability(Fraction(end), self.repeats, is_all=self.is_all)
            for end in (interval.lower, interval.upper)
        )
        return round_interval(lower, upper)


@dataclass(frozen=True)
class Statistic:
    """What an average reports of the rows of a table.

    Attributes:
        scope: the rows that it is about.
        figure: the figure of a row; None for its probability or score.
        column: the column of clusters; None without clusters.
        clusters: the cluster of each case, by its name; empty without clusters. Clusters are drawn
            independently, their rows need not be, and each cluster counts the same.
        truth: the errors of the judge for which the mean is corrected; None for the mean itself.
    """

    scope: Scope = Scope.ROWS
    figure: RowFigure | None = None
    column: str | None = None
    clusters: Mapping[str, str] = field(default_factory=dict)
    truth: JudgeErrors | None = None

    def find_noun(self, threshold: Threshold | None) -> str:
        """Return the name of the number: `mean`, `share`, `largest` or `smallest`."""
        if self.scope is Scope.WORST:
            return "largest" if is_upper_limit(threshold) else "smallest"
        return "share" if self.figure is not None and self.figure.reached is not None else "mean"

    def describe(
        self,
        rows: int,
        threshold: Threshold | None,
        clusters: int = 0,
        read: int | None = None,
        budget: str = "",
    ) -> str:
        """Describe the number and its rows, as `mean of these 135 rows`.

        Args:
            rows: number of rows.
            threshold: the requirement; None without one.
            clusters: number of clusters; 0 without clusters.
            read: number of rows with a result; None for all.
            budget: the budget of a row, where it is a part of the whole one; else empty.
        """
        noun = self.find_noun(threshold)
        these = "this row" if rows == 1 else f"these {rows:,} rows"
        if self.scope is Scope.POPULATION:
            these = f"rows like {these.removesuffix(' rows')}"
            if clusters:
                these += f", drawn in {format_count(clusters, 'cluster')} of {self.column}"
        is_part = read is not None and read < rows
        if notes := [*([f"{read:,} read"] if is_part else []), *([budget] if budget else [])]:
            these += f" ({', '.join(notes)})"
        if self.truth is not None:
            return f"{noun} of {these}, corrected for errors of the judge {self.truth.judge}"
        if self.figure is None:
            return f"{noun} of {these}"
        joint = " with " if self.figure.reached is not None else ", "
        return f"{noun} of {these}{joint}{self.figure.words}"


def is_upper_limit(threshold: Threshold | None) -> bool:
    """Return whether a threshold is a largest allowed number."""
    return threshold is not None and threshold.comparison in ("<=", "<")
