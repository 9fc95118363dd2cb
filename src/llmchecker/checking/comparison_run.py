"""The difference between the answers of two models, start strings or decodings.

    P(first) - P(versus) is in [0.05, 0.11] with confidence 0.99

Each side has its own check, of a model with probabilities or of one that returns texts alone. The
difference has certain bounds, from the certain bounds of both sides. It also has an interval: by
the union bound, both intervals are right at a time with confidence 1 - 2e if each is wrong with
probability at most e.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.answer_forecast import forecast_difference, forecast_width
from llmchecker.checking.anytime.run import describe_failure, name_failure
from llmchecker.checking.comparison import Comparison
from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.question import Question
from llmchecker.checking.runs import OpenUser, open_run, take_given_model
from llmchecker.errors import InterruptedCheck, InvalidQuery
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.property import Property

_MIN_ROUNDS = 4
"""The number of rounds of each side before their widths choose the side of a round."""
_WIDTH_SHARE = 1 / 64
"""The part of the wanted width at which a side is narrow enough."""
_SEED_DISTANCE = 2**63
"""The distance of both seeds, which makes the samples of the sides independent."""


def compare_answers(
    first: Question,
    versus: Question,
    open_user: OpenUser = take_given_model,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
) -> Comparison:
    """Compare the answers to one query of two loaded models, prompts or decodings.

    The work ends when the difference is as narrow as the budget allows. Both sides share all
    limits, and the width is that of the difference.

    Args:
        first: the question to the first side.
        versus: that to the second side, whose budget is that of the comparison.
        open_user: as in `open_run`.
        is_cancelled, watch: as in `open_run`, for the difference.

    Raises:
        InvalidQuery: the query has a threshold, or an expected score without a range.
        InterruptedCheck: a model failed after both had evaluated texts.
        CheckFailed: Storm gave no answer.
    """
    check_comparable(versus.asked)
    comparison = _ComparisonRun((first, versus), open_user, is_cancelled)
    while not comparison.is_finished:
        if watch(comparison.record()):
            break
        comparison.advance()
    return comparison.finish()


def check_comparable(asked: Property) -> None:
    """Check that a query has a number as its answer, with limits.

    Raises:
        InvalidQuery: it has not.
    """
    text = asked.query.text
    if not asked.query.is_numeric:
        raise InvalidQuery(f"{text}: a comparison needs a number; write =? instead of a threshold")
    obstacle = asked.estimation_obstacle
    if isinstance(asked.query.root, Expectation) and obstacle is not None:
        raise InvalidQuery(f"{text}: {obstacle}; use a quantifier with a range")


class _ComparisonRun:
    """The runs of both sides, which share the limits."""

    def __init__(
        self,
        sides: tuple[Question, Question],
        open_user: OpenUser,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._budget = budget = sides[1].budget
        self._start_time = time.monotonic()
        self._history: list[Progress] = []
        # rounded upwards, so that both errors together are at most the allowed error
        confidence = math.nextafter((1 + budget.confidence) / 2, 1.0)
        changes = {"width": budget.width * _WIDTH_SHARE, "confidence": confidence}
        own_budget = budget.model_copy(update=changes)
        self._runs = []
        for index, side in enumerate(sides):
            # a model that returns texts alone draws them itself
            distance = 0 if side.is_text_only else index * _SEED_DISTANCE
            seed = (budget.seed + distance) % 2**64
            question = replace(side, budget=own_budget.model_copy(update={"seed": seed}))
            run = open_run(question, open_user, is_cancelled=is_cancelled)
            run.share_passes = self._share_passes
            self._runs.append(run)
        self._progress = [run.compute_progress() for run in self._runs]
        self._rounds = [0, 0]

    @property
    def is_finished(self) -> bool:
        """Whether the difference is as narrow as wanted, or the limits are reached."""
        difference = self._compute_difference()
        return (
            difference.lower >= difference.upper
            or difference.width <= self._budget.width
            or self._remaining_passes() < 1
            or any(run.failure is not None for run in self._runs)
            or all(run.is_finished for run in self._runs)
        )

    def record(self) -> Progress:
        """Return the difference so far, and keep it in the history."""
        self._history.append(self._compute_difference())
        return self._history[-1]

    def advance(self) -> None:
        """Serve one round of the side that narrows the difference more for each pass."""
        index = self._choose_side()
        run = self._runs[index]
        # the samples of the sides are independent, so one side may limit the other
        if self._budget.passes is not None:
            run.limit_passes(self._remaining_passes())
        run.advance()
        self._rounds[index] += 1
        self._progress[index] = run.compute_progress()

    def finish(self) -> Comparison:
        """Return the comparison so far.

        Raises:
            InterruptedCheck: a model failed after both had evaluated texts.
            Exception: the error of a model that failed earlier.
        """
        for run in self._runs:
            run.stop()
        failures = [
            (run.failed_model, run.failure) for run in self._runs if run.failure is not None
        ]
        # without a text of each side there is no answer that the error could hold
        if failures and not all(run.has_texts for run in self._runs):
            raise name_failure(*failures[0])
        comparison = self._build_comparison()
        for model, failure in failures:
            raise InterruptedCheck(describe_failure(model, failure), comparison) from failure
        return comparison

    def _build_comparison(self) -> Comparison:
        first, versus = (run.finish() for run in self._runs)
        # the bounds of each answer are those of its whole tree
        self._progress = [run.compute_progress() for run in self._runs]
        self.record()
        has_samples = first.sampled is not None or versus.sampled is not None
        comparison = Comparison(
            first=first,
            versus=versus,
            confidence=self._budget.confidence if has_samples else None,
            seconds=time.monotonic() - self._start_time,
            history=tuple(self._history),
        )
        return replace(comparison, forecast=self._forecast(comparison))

    def _forecast(self, comparison: Comparison) -> Forecast | None:
        if self._budget.width > 0:
            forecast = forecast_width(self._history, self._budget, None)
        elif comparison.outcome == ComparisonOutcome.UNKNOWN:
            estimate, confidence = comparison.difference.estimate, self._budget.confidence
            forecast = forecast_difference(self._history, estimate, confidence)
        else:
            return None
        is_text_only = comparison.first.is_text_only and comparison.versus.is_text_only
        return forecast and replace(forecast, unit="answer" if is_text_only else "pass")

    def _compute_difference(self) -> Progress:
        """Return the difference of the current intervals of both sides."""
        first, versus = self._progress
        has_samples = first.sampled is not None or versus.sampled is not None
        return Progress(
            passes=first.passes + versus.passes,
            seconds=time.monotonic() - self._start_time,
            certain=first.certain - versus.certain,
            sampled=first.narrower_interval - versus.narrower_interval if has_samples else None,
            samples=first.samples + versus.samples,
        )

    def _choose_side(self) -> int:
        """Return the index of the side of the next round."""
        indices = [index for index, run in enumerate(self._runs) if not run.is_finished]
        # the first rounds alternate, because one round shows no trend
        if min(self._rounds[index] for index in indices) < _MIN_ROUNDS:
            return min(indices, key=lambda index: self._rounds[index])
        # a width that falls as a power of the passes falls by width / passes for each pass
        return max(
            indices,
            key=lambda index: self._progress[index].width / max(1, self._progress[index].passes),
        )

    def _remaining_passes(self) -> float:
        if self._budget.passes is None:
            return math.inf
        return self._budget.passes - sum(run.spent_passes or 0 for run in self._runs)

    def _share_passes(self, affordable: float | None) -> float | None:
        """Return the passes that a side may expect of those that the limits allow."""
        limits = [self._remaining_passes()]
        if affordable is not None:
            limits.append(affordable)
        active = sum(run.spent_passes is not None and not run.is_finished for run in self._runs)
        return None if math.isinf(min(limits)) else min(limits) / max(1, active)
