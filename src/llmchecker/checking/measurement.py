"""Measurements: certain bounds of a number and its interval, compared with a threshold.

A measurement is what suites average and comparisons subtract. That of an answer is
`Answer.measurement`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction

from llmchecker.checking.decision import Decision, decide
from llmchecker.errors import InvalidEstimate
from llmchecker.properties.logic.ast import Probability, Root, find_distinct
from llmchecker.properties.logic.query import Query
from llmchecker.utils.interval import PROBABILITIES, Interval, average


@dataclass(frozen=True)
class Measurement:
    """The certain bounds of a number, and an interval that holds with confidence.

    Attributes:
        certain: the certain bounds.
        sampled: the interval of the samples, within the bounds; the bounds without samples.
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
        """Return the measurement of the first number minus the second."""
        estimate = None
        if self.estimate is not None and other.estimate is not None:
            estimate = self.estimate - other.estimate
        return Measurement(self.certain - other.certain, self.sampled - other.sampled, estimate)

    def as_json(self) -> dict[str, float | None]:
        """Return the numbers as fields for JSON."""
        return {
            **asdict(self.certain),
            "low": self.sampled.lower,
            "high": self.sampled.upper,
            "estimate": self.estimate,
        }


TRIVIAL = Measurement()
"""The measurement of a probability without any evidence."""


def average_measurements(measurements: Sequence[Measurement]) -> Measurement:
    """Return the measurement of the mean of several probabilities.

    The mean of the bounds bounds the mean. The intervals hold together, so the mean of their ends
    holds with the same confidence.
    """
    estimates = [each.estimate for each in measurements if each.estimate is not None]
    return Measurement(
        average(each.certain for each in measurements),
        average(each.sampled for each in measurements),
        math.fsum(estimates) / len(estimates) if len(estimates) == len(measurements) else None,
    )


@dataclass(frozen=True)
class Threshold:
    """A comparison of a number with a fixed one.

    Attributes:
        comparison: `>=`, `>`, `<=` or `<`.
        number: the fixed number, exactly as written.
    """

    comparison: str
    number: Decimal

    def __str__(self) -> str:
        return f"{self.comparison} {self.number:f}"

    def compare(self, interval: Interval) -> bool | None:
        """Return whether all numbers of an interval meet it; None if only some do."""
        return self.compare_ends(interval.lower, interval.upper)

    def compare_ends(self, *ends: float | Decimal) -> bool | None:
        """Return whether all ends of an interval meet it; None if only one does."""
        # Python compares a float with a fraction exactly, and so a decimal number as a fraction
        number, exact_ends = Fraction(self.number), [Fraction(end) for end in ends]
        is_met = {
            ">=": [end >= number for end in exact_ends],
            ">": [end > number for end in exact_ends],
            "<=": [end <= number for end in exact_ends],
            "<": [end < number for end in exact_ends],
        }[self.comparison]
        return is_met[0] if is_met[0] == is_met[1] else None

    def decide(self, measurement: Measurement, confidence: float) -> Decision:
        """Decide from certain bounds, or else from the interval with its confidence."""
        return decide(
            self.compare(measurement.certain), self.compare(measurement.sampled), confidence
        )


def find_threshold(query: Query) -> Threshold | None:
    """Return the threshold of `P>=p [ … ]` and the like; None for other queries."""
    root = query.root
    if isinstance(root, Probability) and root.threshold is not None:
        return Threshold(root.comparison, root.threshold)
    return None


def list_vacuous_thresholds(root: Root) -> list[str]:
    """List notes on thresholds of a query that every probability meets, or none, as `P>=0`."""
    notes = []
    for formula in find_distinct(root, Probability):
        if formula.threshold is not None:
            threshold = Threshold(formula.comparison, formula.threshold)
            name = f"P{threshold.comparison}{threshold.number:f}"
            notes.append(describe_vacuity(name, threshold, PROBABILITIES))
    return [note for note in dict.fromkeys(notes) if note is not None]


def describe_vacuity(name: str, threshold: Threshold, values: Interval) -> str | None:
    """Describe a threshold that every possible value meets, or none; None for any other.

    Args:
        name: the threshold in words.
        threshold: the threshold.
        values: all possible values.
    """
    if (is_met := threshold.compare(values)) is None:
        return None
    met = "every possible value meets it" if is_met else "no possible value meets it"
    return f"{name}: {met}, whatever the model writes; choose another threshold"
