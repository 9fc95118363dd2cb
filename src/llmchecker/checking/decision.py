"""Decisions: whether a query holds, and which side of a comparison is greater."""

from dataclasses import dataclass
from enum import StrEnum

from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.number_format import format_number


class Outcome(StrEnum):
    """Whether a query holds for the whole model."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"


_EXIT_STATUS = {
    Outcome.HOLDS: ExitStatus.SUCCESS,
    Outcome.VIOLATED: ExitStatus.VIOLATED,
    Outcome.UNKNOWN: ExitStatus.UNKNOWN,
}
"""The exit status of a command for each outcome."""


class ComparisonOutcome(StrEnum):
    """The side with the greater answer."""

    FIRST = "FIRST"
    VERSUS = "VERSUS"
    EQUAL = "EQUAL"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Decision:
    """The outcome of a query without =?.

    Attributes:
        outcome: whether the query holds.
        confidence: the confidence of the outcome; None for a certain or an unknown one.
    """

    outcome: Outcome
    confidence: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the query holds; None if that is unknown."""
        return None if self.outcome == Outcome.UNKNOWN else self.outcome == Outcome.HOLDS

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status of a command with this decision."""
        return _EXIT_STATUS[self.outcome]

    @property
    def is_certain(self) -> bool:
        """Whether the outcome is known without a confidence."""
        return self.outcome != Outcome.UNKNOWN and self.confidence is None

    @property
    def certainty(self) -> str | None:
        """How the outcome is known: `certain`, or `with confidence 0.99`; None if unknown."""
        return None if self.outcome == Outcome.UNKNOWN else describe_certainty(self.confidence)

    def __str__(self) -> str:
        """Return outcome and certainty: `HOLDS, certain`, `UNKNOWN`."""
        # nothing is known of an unknown outcome
        if self.certainty is None:
            return self.outcome.value
        return f"{self.outcome}, {self.certainty}"


def describe_certainty(confidence: float | None) -> str:
    """Describe a confidence: `with confidence 0.99`, or `certain` for None."""
    return "certain" if confidence is None else f"with confidence {format_number(confidence)}"


def decide(certain: bool | None, estimate: bool | None, confidence: float | None) -> Decision:
    """Return the decision for the certain answer and the estimate of a query.

    Args:
        certain: whether the query certainly holds; None if that is unknown.
        estimate: whether it holds by an interval; None if the interval contains the threshold.
        confidence: the confidence of that interval; None without an interval.
    """
    # a certain answer needs no confidence
    if certain is not None:
        return Decision(Outcome.HOLDS if certain else Outcome.VIOLATED)
    if estimate is None or confidence is None:
        return Decision(Outcome.UNKNOWN)
    return Decision(Outcome.HOLDS if estimate else Outcome.VIOLATED, confidence)
