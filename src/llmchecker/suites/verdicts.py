"""Results of cases and aggregates, and counts of their verdicts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.checking.decision import Decision, Outcome
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import TRIVIAL, Measurement, Threshold
from llmchecker.checking.witnesses import Witness
from llmchecker.errors import ConfigError
from llmchecker.suites.examples import Example
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.interval import PROBABILITIES, Interval


class Status(StrEnum):
    """The status of a case: an outcome, a measurement, an error, or none yet."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"
    MEASURED = "MEASURED"
    ERROR = "ERROR"
    UNFINISHED = "UNFINISHED"
    """The run ended before the case."""
    UNREAD = "UNREAD"
    """A row of an average that was decided without it."""


def parse_threshold(text: str) -> Threshold:
    """Parse a comparison such as `>= 0.7`.

    Raises:
        ConfigError: the text has another form.
    """
    match = re.fullmatch(r"\s*(>=|>|<=|<)\s*(-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))\s*", text)
    if match is None:
        raise ConfigError(f"{text!r}: no threshold; write one such as >= 0.7")
    return Threshold(match[1], Decimal(match[2]))


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    Attributes:
        case: name of the case.
        deployment: name of its deployment.
        status: the status.
        is_certain: whether the certain bounds decide it.
        answer: the answer to the query of the case, or to that query with =? where probabilities
            are compared. Its witnesses are the texts that speak against a violated requirement, its
            costs the passes, and its forecast that of a decision, without times. None for an error
            and an unfinished case.
        seconds: seconds from the result of another case to this one. Cases are evaluated side by
            side, so that these sum to the duration of the run.
        error: the message of an error, else None.
        evidence: the evidence of its samples about a mean; None without samples.
        examples: answers that violate its requirement, and others.
        conversation: the most probable answers of a conversation; None for one text, and for a
            model that returns texts alone.
        effort: the share of its budget that the row of an average got; None if no average chose it,
            for the whole budget.
        is_reread: whether an average that its first reading left open read it again.
    """

    case: str
    deployment: str
    status: Status
    is_certain: bool = False
    answer: Answer | None = None
    seconds: float = 0.0
    error: str | None = None
    evidence: MeanEvidence | None = None
    examples: tuple[Example, ...] = ()
    conversation: AnswerTree | None = None
    effort: float | None = None
    is_reread: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The names of its deployment and of the case."""
        return self.deployment, self.case

    @property
    def forecast(self) -> Forecast | None:
        """For an unknown case, the costs of a decision; None if nothing shows them."""
        return None if self.answer is None else self.answer.forecast

    @property
    def measurement(self) -> Measurement:
        """Bounds and interval of the probability; trivial for a query without one."""
        return TRIVIAL if self.answer is None else self.answer.measurement

    @property
    def passes(self) -> int:
        """Number of texts that the model evaluated."""
        return 0 if self.answer is None else self.answer.passes or 0

    @property
    def cost(self) -> int:
        """Number of passes, or of answers of a model that returns texts alone."""
        return self.passes or (0 if self.answer is None else self.answer.costs.answers or 0)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return 0 if self.answer is None else self.answer.samples or 0

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """The most probable texts that speak against a violated requirement."""
        return () if self.answer is None else self.answer.witnesses


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
        read: number of cases with a result.
        subject: the figure and its rows, as `mean of these 135 rows`.
        noun: the name of the number, such as `mean`.
        values: all possible values of the figure.
        reasons: its assumptions, as sentences.
    """

    name: str
    deployment: str
    kind: str
    measurement: Measurement
    threshold: Threshold | None
    status: Status
    is_certain: bool
    cases: int
    read: int
    subject: str
    noun: str
    values: Interval = PROBABILITIES
    reasons: tuple[str, ...] = ()


def find_decision(result: CaseResult | Aggregate, confidence: float) -> Decision | None:
    """Return the decision of a verdict that holds or is violated; None for other results.

    Args:
        result: the result of a case or of an aggregate.
        confidence: the confidence of a verdict that is not certain.
    """
    if result.status not in (Status.HOLDS, Status.VIOLATED):
        return None
    return Decision(Outcome(result.status), None if result.is_certain else confidence)


@dataclass(frozen=True)
class Counts:
    """The numbers of verdicts by status.

    Attributes:
        holds, violated, unknown, errors: numbers of cases and aggregates.
        decisions: the number of verdicts by outcome and confidence, of those that hold or are
            violated.
    """

    holds: int = 0
    violated: int = 0
    unknown: int = 0
    errors: int = 0
    decisions: Mapping[Decision, int] = field(default_factory=dict)

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
    holds, violated, unknown, errors = (
        sum(status == kind for status in statuses)
        for kind in (Status.HOLDS, Status.VIOLATED, Status.UNKNOWN, Status.ERROR)
    )
    return Counts(holds, violated, unknown, errors)
