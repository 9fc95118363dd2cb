"""Comparisons: two answers to one query, and their difference."""

from dataclasses import dataclass, field

from llmchecker.checking.answer import Answer, Progress, load_views
from llmchecker.checking.decision import ComparisonOutcome, describe_certainty
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import Measurement
from llmchecker.models.decoding.chat_template import Start
from llmchecker.utils.interval import Interval


@dataclass(frozen=True)
class SideLabel:
    """The words of a side of a comparison.

    Attributes:
        model: the name of its model.
        decoding: its decoding; empty without settings.
        prompt: its prompt.
    """

    model: str
    decoding: str
    prompt: Start


@dataclass(frozen=True)
class Comparison:
    """Two answers to one query; their difference is the first minus the second.

    Attributes:
        first, versus: the answers, whose intervals have a higher confidence than the difference.
        confidence: the confidence of the interval of the difference; None without samples.
        seconds: seconds of the whole computation.
        history: both intervals of the difference after each round.
        forecast: the costs of a decision or of the wanted width; None if they are reached or
            unknown.
        sides: the words of the first and of the second side; empty without any.
    """

    first: Answer
    versus: Answer
    confidence: float | None
    seconds: float
    history: tuple[Progress, ...] = field(default=(), repr=False)
    forecast: Forecast | None = None
    sides: tuple[SideLabel, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        text: str = load_views().format_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = load_views().render_html(self)
        return html

    @property
    def difference(self) -> Measurement:
        """Bounds and interval of the difference; without samples its bounds are the interval."""
        return self.first.measurement - self.versus.measurement

    @property
    def lower(self) -> float:
        """The lower end of the certain bounds of the difference."""
        return self.difference.certain.lower

    @property
    def upper(self) -> float:
        """The upper end of the certain bounds of the difference."""
        return self.difference.certain.upper

    @property
    def low(self) -> float | None:
        """The lower end of the interval of the difference; None without samples."""
        return None if self.confidence is None else self.difference.sampled.lower

    @property
    def high(self) -> float | None:
        """The upper end of the interval of the difference; None without samples."""
        return None if self.confidence is None else self.difference.sampled.upper

    @property
    def passes(self) -> int:
        """Number of texts that the models evaluated."""
        return sum(side.passes or 0 for side in (self.first, self.versus))

    @property
    def answers(self) -> int | None:
        """Number of answers of models that return texts alone; None without such a model."""
        counts = [side.costs.answers for side in (self.first, self.versus)]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of both sides, each once."""
        return tuple(dict.fromkeys(self.first.notes + self.versus.notes))

    @property
    def outcome(self) -> ComparisonOutcome:
        """The side with the greater answer, by certain bounds or else by the interval."""
        certain = _find_greater(self.difference.certain)
        if certain != ComparisonOutcome.UNKNOWN or self.confidence is None:
            return certain
        # an interval of samples is never a proof of equality
        outcome = _find_greater(self.difference.sampled)
        return ComparisonOutcome.UNKNOWN if outcome == ComparisonOutcome.EQUAL else outcome

    @property
    def is_certain(self) -> bool:
        """Whether the certain bounds alone decide which side is greater."""
        return _find_greater(self.difference.certain) != ComparisonOutcome.UNKNOWN

    @property
    def certainty(self) -> str | None:
        """How the outcome is known: `certain`, or `with confidence 0.99`; None if unknown."""
        if self.outcome == ComparisonOutcome.UNKNOWN:
            return None
        return describe_certainty(None if self.is_certain else self.confidence)


def _find_greater(difference: Interval) -> ComparisonOutcome:
    """Return the greater side by an interval of the difference."""
    if difference.lower > 0:
        return ComparisonOutcome.FIRST
    if difference.upper < 0:
        return ComparisonOutcome.VERSUS
    is_equal = difference.lower == difference.upper == 0
    return ComparisonOutcome.EQUAL if is_equal else ComparisonOutcome.UNKNOWN
