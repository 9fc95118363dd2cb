"""Decisions of threshold queries: the outcome and its certainty."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a threshold query."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Decision:
    """The decision of a threshold query.

    Attributes:
        outcome: whether the query holds.
        is_certain: whether the certain bounds decide it; otherwise it holds with the confidence of
            the estimate. False for an unknown outcome.
    """

    outcome: Outcome
    is_certain: bool
