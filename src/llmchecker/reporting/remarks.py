"""Remarks on answers: requirements that fail, and the gap of bounded figures."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from llmchecker.checking.answer import Answer
from llmchecker.checking.decision import Outcome
from llmchecker.config.plan import TableRow
from llmchecker.reporting.query_wording import describe_outcome
from llmchecker.reporting.tables import AnsweredRow

_TOLERANCE = 1e-9
"""Relative rounding error of a bounded figure that equals an end of an interval."""


@dataclass(frozen=True)
class Remark:
    """A remark on an answer.

    Attributes:
        number: position of the answer in the run, from 0.
        row: the row of the answer.
        text: the remark, part of a sentence.
    """

    number: int
    row: TableRow
    text: str


def compute_gap(answer: Answer) -> float:
    """Return the distance of the bounded figure from the estimate's interval.

    Returns:
        0 inside the interval, without either, and for a query without =?.
    """
    bounded, low, high = answer.bounded, answer.low, answer.high
    if not isinstance(bounded, float) or low is None or high is None:
        return 0.0
    # The figure and an end of the interval may be equal numbers with different rounding errors.
    if any(
        math.isclose(bounded, end, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) for end in (low, high)
    ):
        return 0.0
    return max(low - bounded, bounded - high, 0.0)


def find_failures(answers: Iterable[AnsweredRow]) -> list[Remark]:
    """Find the requirements that are violated, then the unknown ones."""
    failures: dict[Outcome, list[Remark]] = {Outcome.VIOLATED: [], Outcome.UNKNOWN: []}
    for number, (row, answer) in enumerate(answers):
        decision = answer.decision
        if decision is not None and decision.outcome in failures:
            text = describe_outcome(answer.query, decision)
            failures[decision.outcome].append(Remark(number, row, text))
    return [remark for remarks in failures.values() for remark in remarks]
