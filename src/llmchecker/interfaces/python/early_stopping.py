"""Early stopping of a task of inspect_ai, as soon as its score is known well enough."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from llmchecker.checking.anytime.mean_test import MeanTest, is_sum_enough
from llmchecker.checking.decision import Decision, Outcome
from llmchecker.errors import ConfigError

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from inspect_ai.util import EarlyStop

_NAME = "llmchecker"


class EarlyStopping:
    """A manager of inspect_ai that ends a task when its mean score has a verdict.

        Task(dataset, ..., early_stopping=lc.EarlyStopping(at_least=0.8))

    The verdict is about the mean score that the task would report after all samples. It is certain
    if the other samples cannot change it; else it holds with the confidence at every stop, whatever
    the stop depends on. This needs samples in random order, and a score that does not depend on the
    place in that order. Scores count in the order of the data set, however the answers arrive, and
    samples that have begun are finished.

    Attributes:
        decision: the verdict on the last task, `UNKNOWN` until it is known.

    Args:
        at_least, at_most: the required mean score, one of the two, from 0 to 1.
        confidence: the confidence of the verdict.
        scorer: the name of the scorer; may be absent if the task has one.

    Raises:
        ConfigError: an argument is out of range, or, when a task begins, it has several epochs, its
            data set is not shuffled, or another task has not ended.
    """

    def __init__(
        self,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        confidence: float = 0.99,
        scorer: str | None = None,
    ) -> None:
        number = at_most if at_least is None else at_least
        if number is None or None not in (at_least, at_most) or not 0 <= number <= 1:
            raise ConfigError(
                f"at_least={at_least!r}, at_most={at_most!r}: write one of the two, from 0 to 1"
            )
        if not 0 < confidence < 1:
            raise ConfigError(f"confidence={confidence!r}: it is between 0 and 1; write 0.99")
        self._has_upper_limit = at_least is None
        # the number as it is written
        limit = Fraction(repr(number))
        # an upper limit is a lower one of the share that is missing
        self._lower_limit = 1 - limit if self._has_upper_limit else limit
        self._required = f"mean score {'<=' if self._has_upper_limit else '>='} {number:g}"
        self._confidence = confidence
        self._scorer = scorer
        self._order: list[str | int | None] = []
        self._values: dict[str | int | None, float] = {}
        self._test: MeanTest | None = None
        self._sum, self._read_count = Fraction(0), 0
        self._is_running = False

    @property
    def decision(self) -> Decision:
        """The verdict so far."""
        if self._test is None:
            return Decision(Outcome.UNKNOWN)
        left = len(self._order) - self._read_count
        certain = is_sum_enough(self._sum, len(self._order) * self._lower_limit, left)
        is_enough = self._test.is_above if certain is None else certain
        if is_enough is None:
            return Decision(Outcome.UNKNOWN)
        outcome = Outcome.HOLDS if is_enough else Outcome.VIOLATED
        return Decision(outcome, self._confidence if certain is None else None)

    async def start_task(self, task: "EvalSpec", samples: Sequence["Sample"], epochs: int) -> str:
        """Begin a task; inspect_ai calls this."""
        if self._is_running:
            raise ConfigError("early_stopping: another task has it; create one for each task")
        if epochs != 1:
            raise ConfigError(
                f"early_stopping: the task has {epochs} epochs, whose samples are in no random "
                "order; repeat samples in the data set, shuffle it, and use 1 epoch"
            )
        if not task.dataset.shuffled:
            raise ConfigError("early_stopping: the data set is not shuffled; call its shuffle()")
        self._order = [sample.id for sample in samples]
        self._values = {}
        self._sum, self._read_count = Fraction(0), 0
        self._test = MeanTest(len(self._order), float(self._lower_limit), 1 - self._confidence)
        self._is_running = True
        return _NAME

    async def schedule_sample(self, id: str | int, epoch: int) -> "EarlyStop | None":
        """Return a stop if the verdict is known; inspect_ai calls this."""
        from inspect_ai.util import EarlyStop

        if self.decision.outcome == Outcome.UNKNOWN:
            return None
        return EarlyStop(id=id, epoch=epoch, reason=self._describe())

    async def complete_sample(
        self, id: str | int, epoch: int, scores: Mapping[str, "SampleScore"]
    ) -> None:
        """Read a score; inspect_ai calls this."""
        assert self._test is not None
        self._values.setdefault(id, self._read_score(scores))
        # a sample of which no score is there yet may differ from those that are
        while self._read_count < len(self._order):
            score = self._values.get(self._order[self._read_count])
            if score is None:
                break
            value = 1 - score if self._has_upper_limit else score
            self._test.add(value, value, (float(self._sum), float(self._sum)))
            self._sum += Fraction(value)
            self._read_count += 1

    async def complete_task(self) -> dict[str, Any]:
        """Return the verdict for the log; inspect_ai calls this."""
        assert self._test is not None
        self._is_running = False
        return {
            "required": self._required,
            "verdict": str(self.decision.outcome),
            "confidence": self.decision.confidence,
            "certain": self.decision.is_certain,
            "samples_read": self._read_count,
            "samples": len(self._order),
        }

    def _describe(self) -> str:
        assert self._test is not None
        confidence = self.decision.confidence
        how = "certain" if confidence is None else f"with confidence {confidence:g}"
        return (
            f"{self.decision.outcome}: {self._required}, {how}, after {self._read_count:,} of "
            f"{len(self._order):,} samples"
        )

    def _read_score(self, scores: Mapping[str, "SampleScore"]) -> float:
        """Return the score of a sample as a number from 0 to 1.

        Raises:
            ConfigError: it has none.
        """
        from inspect_ai.scorer import value_to_float

        name = self._scorer
        if name is None and len(scores) == 1:
            (name,) = scores
        if name is None or name not in scores:
            raise ConfigError(
                f"scorer={name!r}: the scorers of the task are {', '.join(scores)}; name one"
            )
        value = scores[name].score.value
        number = math.nan if isinstance(value, list | dict) else value_to_float()(value)
        if not 0 <= number <= 1:
            raise ConfigError(f"scorer {name}: the score {value!r} is no number from 0 to 1")
        return number
