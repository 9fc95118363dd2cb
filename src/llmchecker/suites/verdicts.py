"""Verdicts of cases: intervals, outcomes, and their comparison with thresholds."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from llmchecker.checking.anytime.mean_evidence import MeanEvidence, Member, bound_mean
from llmchecker.checking.decision import Decision, Outcome, decide
from llmchecker.errors import ConfigError, InvalidEstimate
from llmchecker.utils.exit_status import ExitStatus


class Status(StrEnum):
    """The status of a case: an outcome, a measurement, an error, or none yet."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"
    MEASURED = "MEASURED"
    ERROR = "ERROR"
    UNFINISHED = "UNFINISHED"
    """The run ended before the case."""


@dataclass(frozen=True)
class Threshold:
    """A comparison of a figure with a number.

    Attributes:
        comparison: `>=`, `>`, `<=` or `<`.
        number: the number, exactly as written.
    """

    comparison: str
    number: Decimal

    def __str__(self) -> str:
        return f"{self.comparison} {self.number:f}"

    def compare(self, low: float | Decimal, high: float | Decimal) -> bool | None:
        """Return whether all numbers of an interval meet it; None if only some do."""
        # fractions compare exactly with the decimal number
        number, ends = Fraction(self.number), (Fraction(low), Fraction(high))
        is_met = {
            ">=": [end >= number for end in ends],
            ">": [end > number for end in ends],
            "<=": [end <= number for end in ends],
            "<": [end < number for end in ends],
        }[self.comparison]
        return is_met[0] if is_met[0] == is_met[1] else None

    def decide(self, interval: "Interval", confidence: float) -> Decision:
        """Decide from certain bounds, or else from the interval with its confidence."""
        certain_answer = self.compare(interval.lower, interval.upper)
        likely_answer = self.compare(interval.low, interval.high)
        return decide(certain_answer, certain_answer, likely_answer, confidence)


def parse_threshold(text: str) -> Threshold:
    """Parse a comparison such as `>= 0.7`.

    Raises:
        ConfigError: the text has another form.
    """
    match = re.fullmatch(r"\s*(>=|>|<=|<)\s*(-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))\s*", text)
    if match is None:
        raise ConfigError(f"{text!r}: no threshold; write one such as >= 0.7")
    return Threshold(match[1], Decimal(match[2]))


def is_certain(decision: Decision) -> bool:
    """Return whether a decision holds without a confidence."""
    return decision.outcome is not Outcome.UNKNOWN and decision.confidence is None


@dataclass(frozen=True)
class Interval:
    """Certain bounds of a figure, and an interval that holds with confidence.

    Attributes:
        lower, upper: the certain bounds.
        low, high: the interval with the confidence of the suite, within the bounds.
        estimate: the estimate; None without one.

    Raises:
        InvalidEstimate: a number is NaN.
    """

    lower: float = 0.0
    upper: float = 1.0
    low: float = 0.0
    high: float = 1.0
    estimate: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.lower, self.upper, self.low, self.high, self.estimate or 0.0)
        # nothing computed from NaN may look like an answer
        if any(map(math.isnan, numbers)):
            raise InvalidEstimate(f"interval: {self} contains NaN; please report this")


TRIVIAL = Interval()
"""The interval of a probability without any evidence."""


@dataclass(frozen=True)
class Text:
    """A text that decides a case.

    Attributes:
        text: the continuation.
        probability: its probability.
    """

    text: str
    probability: float


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    Attributes:
        case: name of the case.
        deployment: name of its deployment.
        status: the status.
        is_certain: whether the certain bounds decide it.
        interval: the interval of the probability; the trivial one for a query without one.
        passes: number of texts that the model evaluated.
        samples: number of samples.
        seconds: seconds from the result of another case to this one. Cases are evaluated side by
            side, so that these sum to the duration of the run.
        texts: for a violated case, its most probable violating texts.
        required_passes: for an unknown case, the approximate passes that would decide it; None if
            no number of passes is known to.
        error: the message of an error, else None.
        evidence: for a member of an average, the evidence of its samples; None without samples.
    """

    case: str
    deployment: str
    status: Status
    is_certain: bool = False
    interval: Interval = TRIVIAL
    passes: int = 0
    samples: int = 0
    seconds: float = 0.0
    texts: tuple[Text, ...] = ()
    required_passes: int | None = None
    error: str | None = None
    evidence: MeanEvidence | None = None


@dataclass(frozen=True)
class Aggregate:
    """The result of an average, of a group of it, or of a difference.

    Attributes:
        name: its name.
        deployment: name of its deployment, or of both for a difference.
        kind: `average`, `group` or `difference`.
        interval: the interval of the figure.
        threshold: the requirement; None for a figure that is only reported.
        status: the status.
        is_certain: whether the certain bounds decide it.
        cases: number of cases.
    """

    name: str
    deployment: str
    kind: str
    interval: Interval
    threshold: Threshold | None
    status: Status
    is_certain: bool
    cases: int


@dataclass(frozen=True)
class Counts:
    """The numbers of verdicts by status.

    Attributes:
        holds, violated, unknown, errors: numbers of cases and aggregates.
    """

    holds: int = 0
    violated: int = 0
    unknown: int = 0
    errors: int = 0

    def exit_status(self, allow_unknown: bool = False) -> ExitStatus:
        """Return the exit status: 0 all hold, 1 violated, 2 unknown, 3 errors."""
        # an error hides verdicts, so it counts before all others
        if self.errors:
            return ExitStatus.ERROR
        if self.violated:
            return ExitStatus.VIOLATED
        is_unknown = self.unknown and not allow_unknown
        return ExitStatus.UNKNOWN if is_unknown else ExitStatus.SUCCESS


def count_statuses(statuses: Sequence[Status]) -> Counts:
    """Count the verdicts by status; measurements and unfinished cases are no verdicts."""
    return Counts(
        *(
            sum(status == kind for status in statuses)
            for kind in (Status.HOLDS, Status.VIOLATED, Status.UNKNOWN, Status.ERROR)
        )
    )


def average_intervals(intervals: Sequence[Interval]) -> Interval:
    """Return the interval of the mean of several probabilities.

    The mean of the bounds bounds the mean. The intervals hold together, so the mean of their ends
    holds with the same confidence.
    """
    estimates = [interval.estimate for interval in intervals]
    return Interval(
        _mean_down([interval.lower for interval in intervals]),
        _mean_up([interval.upper for interval in intervals]),
        _mean_down([interval.low for interval in intervals]),
        _mean_up([interval.high for interval in intervals]),
        None if None in estimates else math.fsum(estimates) / len(estimates),
    )


def average_members(results: Sequence[CaseResult], error_probability: float) -> Interval:
    """Return the interval of the mean of independent rows.

    It is the part that two intervals share: the mean of the rows' intervals, and that of the
    samples of all rows together, which is narrower for many rows.

    Args:
        results: the results of the rows.
        error_probability: the largest probability that the second interval misses the mean.
    """
    mean = average_intervals([result.interval for result in results])
    # which rows have no result may depend on their samples, and their evidence is missing
    is_missing = any(result.status in (Status.ERROR, Status.UNFINISHED) for result in results)
    if is_missing or all(result.evidence is None for result in results):
        return mean
    low, high = bound_mean(
        [
            Member(result.interval.lower, result.interval.upper, result.evidence)
            for result in results
        ],
        error_probability,
    )
    # an interval that misses the bounds is wrong, and the bounds are right
    low, high = min(max(low, mean.low), mean.upper), max(min(high, mean.high), mean.lower)
    estimate = None if mean.estimate is None else min(max(mean.estimate, low), high)
    return replace(mean, low=min(low, high), high=max(low, high), estimate=estimate)


def subtract_intervals(first: Interval, second: Interval) -> Interval:
    """Return the interval of the first probability minus the second."""
    estimates = (first.estimate, second.estimate)
    return Interval(
        _round_down(Fraction(first.lower) - Fraction(second.upper)),
        _round_up(Fraction(first.upper) - Fraction(second.lower)),
        _round_down(Fraction(first.low) - Fraction(second.high)),
        _round_up(Fraction(first.high) - Fraction(second.low)),
        None if None in estimates else estimates[0] - estimates[1],
    )


def forecast_passes(threshold: Threshold, interval: Interval, passes: int) -> int | None:
    """Forecast the passes that would decide a case; None without a forecast.

    The half width of an interval falls with the square root of the passes. The case is decided when
    it is smaller than the distance of the estimate to the threshold.
    """
    estimate, number = interval.estimate, float(threshold.number)
    if estimate is None or passes == 0:
        return None
    gap = abs(estimate - number)
    half = estimate - interval.low if estimate > number else interval.high - estimate
    # an estimate at the threshold gives no distance
    if gap * 1e4 < half or half <= 0:
        return None
    return math.ceil(passes * max(1.0, (half / gap) ** 2))


def _mean_down(numbers: Sequence[float]) -> float:
    return _round_down(sum(map(Fraction, numbers)) / len(numbers))


def _mean_up(numbers: Sequence[float]) -> float:
    return _round_up(sum(map(Fraction, numbers)) / len(numbers))


def _round_down(number: Fraction) -> float:
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def _round_up(number: Fraction) -> float:
    return -_round_down(-number)
