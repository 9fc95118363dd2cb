"""Verdicts of cases: intervals, outcomes, and their comparison with thresholds."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from llmchecker.checking.anytime.mean_evidence import MeanEvidence, Member, bound_mean
from llmchecker.checking.decision import Decision, Outcome, decide
from llmchecker.checking.interval import PROBABILITIES, Interval, average
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

    def compare(self, interval: Interval) -> bool | None:
        """Return whether all numbers of an interval meet it; None if only some do."""
        # fractions compare exactly with the decimal number
        number = Fraction(self.number)
        ends = (Fraction(interval.lower), Fraction(interval.upper))
        is_met = {
            ">=": [end >= number for end in ends],
            ">": [end > number for end in ends],
            "<=": [end <= number for end in ends],
            "<": [end < number for end in ends],
        }[self.comparison]
        return is_met[0] if is_met[0] == is_met[1] else None

    def decide(self, measurement: "Measurement", confidence: float) -> Decision:
        """Decide from certain bounds, or else from the interval with its confidence."""
        certain_answer = self.compare(measurement.certain)
        likely_answer = self.compare(measurement.sampled)
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
class Measurement:
    """The certain bounds of a figure, and an interval that holds with confidence.

    Attributes:
        certain: the certain bounds.
        sampled: the interval with the confidence of the suite, within the bounds.
        estimate: the estimate; None without one.

    Raises:
        InvalidEstimate: a number is NaN.
    """

    certain: Interval = PROBABILITIES
    sampled: Interval = PROBABILITIES
    estimate: float | None = None

    def __post_init__(self) -> None:
        # nothing computed from NaN may look like an answer
        if self.estimate is not None and math.isnan(self.estimate):
            raise InvalidEstimate(f"estimate: {self} contains NaN; please report this")

    def __sub__(self, other: "Measurement") -> "Measurement":
        """Return the measurement of the first figure minus the second."""
        estimates = (self.estimate, other.estimate)
        return Measurement(
            self.certain - other.certain,
            self.sampled - other.sampled,
            None if None in estimates else estimates[0] - estimates[1],
        )

    def as_json(self) -> dict[str, float | None]:
        """Return the numbers as fields for JSON."""
        return {
            "lower": self.certain.lower,
            "upper": self.certain.upper,
            "low": self.sampled.lower,
            "high": self.sampled.upper,
            "estimate": self.estimate,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Measurement":
        """Return the measurement whose numbers a JSON object has."""
        return cls(
            Interval(content["lower"], content["upper"]),
            Interval(content["low"], content["high"]),
            content["estimate"],
        )


TRIVIAL = Measurement()
"""The measurement of a probability without any evidence."""


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
        measurement: bounds and interval of the probability; trivial for a query without one.
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
    measurement: Measurement = TRIVIAL
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
        measurement: bounds and interval of the figure.
        threshold: the requirement; None for a figure that is only reported.
        status: the status.
        is_certain: whether the certain bounds decide it.
        cases: number of cases.
    """

    name: str
    deployment: str
    kind: str
    measurement: Measurement
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


def average_measurements(measurements: Sequence[Measurement]) -> Measurement:
    """Return the measurement of the mean of several probabilities.

    The mean of the bounds bounds the mean. The intervals hold together, so the mean of their ends
    holds with the same confidence.
    """
    estimates = [each.estimate for each in measurements]
    return Measurement(
        average(each.certain for each in measurements),
        average(each.sampled for each in measurements),
        None if None in estimates else math.fsum(estimates) / len(estimates),
    )


def average_members(results: Sequence[CaseResult], error_probability: float) -> Measurement:
    """Return the measurement of the mean of independent rows.

    Its interval is the part that two intervals share: the mean of the rows' intervals, and that of
    the samples of all rows together, which is narrower for many rows.

    Args:
        results: the results of the rows.
        error_probability: the largest probability that the second interval misses the mean.
    """
    mean = average_measurements([result.measurement for result in results])
    # which rows have no result may depend on their samples, and their evidence is missing
    is_missing = any(result.status in (Status.ERROR, Status.UNFINISHED) for result in results)
    if is_missing or all(result.evidence is None for result in results):
        return mean
    members = [
        Member(result.measurement.certain.lower, result.measurement.certain.upper, result.evidence)
        for result in results
    ]
    low, high = bound_mean(members, error_probability)
    shared = Interval(max(low, mean.sampled.lower), min(high, mean.sampled.upper))
    sampled = mean.certain.cut(shared)
    estimate = None if mean.estimate is None else sampled.clip(mean.estimate)
    return Measurement(mean.certain, sampled, estimate)


def forecast_passes(threshold: Threshold, measurement: Measurement, passes: int) -> int | None:
    """Forecast the passes that would decide a case; None without a forecast.

    The half width of an interval falls with the square root of the passes. The case is decided when
    it is smaller than the distance of the estimate to the threshold.
    """
    estimate, number = measurement.estimate, float(threshold.number)
    if estimate is None or passes == 0:
        return None
    gap = abs(estimate - number)
    interval = measurement.sampled
    half = estimate - interval.lower if estimate > number else interval.upper - estimate
    # an estimate at the threshold gives no distance
    if gap * 1e4 < half or half <= 0:
        return None
    return math.ceil(passes * max(1.0, (half / gap) ** 2))
