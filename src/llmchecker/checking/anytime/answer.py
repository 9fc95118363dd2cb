"""The anytime answer to a query: bounds, an interval, and a decision.

The two kinds of answers are never mixed. Storm computes the certain bounds on the final tree, and
they hold for the whole model. The interval comes from samples of the undecided mass and holds with
the stated confidence.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from llmchecker.checking.answer import Answer, Evidence, Sampled
from llmchecker.checking.anytime.answer_forecast import forecast_decision, forecast_width
from llmchecker.checking.anytime.anytime_check import AnytimeCheck, AnytimeProgress, Requests
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.model_batches import ModelBatches
from llmchecker.checking.anytime.partial_tree import PartialTree
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.check import bound_query, check_query
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.interval import PROBABILITIES, Interval
from llmchecker.errors import InterruptedCheck, LLMCheckerError
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.ast import Probability
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence


class AnytimeRun:
    """An anytime check with its model, tree and batches, which a caller advances.

    Attributes:
        check: the check.
        batches: the model's answers.
        history: the intervals after each round.

    Args:
        model: the language model.
        start: the start string.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        end_of_sequence, distributions: as in `expansion.build_tree`.
        is_cancelled: called between batches; the work ends when it returns true.
        watch: called with the intervals after each round; the work ends when it returns true.
        share_passes: returns the passes that this check may expect, for those that the remaining
            time allows; None for no limit.
    """

    def __init__(
        self,
        model: LanguageModel,
        start: Start,
        asked: CheckedQuery,
        budget: AnswerBudget,
        *,
        end_of_sequence: EndOfSequence = "terminal",
        distributions: PromptDistributions | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        watch: Callable[[AnytimeProgress], bool | None] = lambda progress: None,
        share_passes: Callable[[float | None], float | None] = lambda affordable: affordable,
    ) -> None:
        self._asked, self._budget, self._watch = asked, budget, watch
        self._share_passes = share_passes
        self._start_time = time.monotonic()
        # stored distributions have an encoded prompt
        prompt = model.encode(start) if distributions is None else distributions.prompt
        open_prefix = cache(lambda: model.open_prefix(prompt))
        tree = PartialTree(model, prompt, asked.monitors, asked.quantifiers, end_of_sequence)
        deadline = None if budget.seconds is None else self._start_time + budget.seconds
        self.batches = ModelBatches(model, open_prefix, distributions, is_cancelled, deadline)
        self.history: list[AnytimeProgress] = []
        self.check = AnytimeCheck(tree, asked, budget, self._record, self._estimate_affordable)

    @property
    def is_finished(self) -> bool:
        """Whether the answer is as narrow as wanted, or the work must stop."""
        return (
            self.check.is_finished
            or self.batches.failure is not None
            or self.batches.must_stop(len(self.check.tree))
        )

    def serve(self, requests: Requests) -> None:
        """Answer requests of the check."""
        self.batches.serve(requests, lambda: len(self.check.tree))

    def finish(self, *, bounds_only: bool = False) -> Answer:
        """Compute the answer from the tree and the samples so far.

        Args:
            bounds_only: whether the answer needs no sizes and no witnesses.

        Raises:
            InvalidQuery: Storm rejects the query.
            CheckFailed: Storm gave no answer.
        """
        check, asked = self.check, self._asked
        self.history.append(check.compute_progress())
        text_tree, scores = check.tree.build_tree()
        seconds = time.monotonic() - self._start_time
        question = text_tree, scores, asked.query, asked.ranges
        answer = (
            bound_query(*question)
            if bounds_only
            # a refined tree has no bounded process of its own
            else check_query(*question, seconds, is_whole_model=True)
        )
        sampled = _build_sampled(check, self._budget)
        if sampled is not None:
            answer = answer.with_samples(sampled)
        history = tuple(self.history)
        seconds = time.monotonic() - self._start_time
        return replace(
            answer,
            costs=replace(answer.costs, passes=check.tree.passes, seconds=seconds),
            history=history,
            forecast=_forecast(answer, asked, self._budget, history),
            probability=_bound_probability(asked, history[-1], check.rounding_error),
            evidence=Evidence(text_tree, scores, asked.ranges, check.mean_evidence),
        )

    def release(self) -> None:
        """Drop the tree and the samples of a run that is over.

        The check reports to the run, so that the two would keep each other in memory.
        """
        del self.check

    def _record(self, progress: AnytimeProgress) -> bool:
        self.history.append(progress)
        return bool(self._watch(progress)) or self.batches.must_stop(len(self.check.tree))

    def _estimate_affordable(self) -> float | None:
        return self._share_passes(self.batches.affordable_texts(len(self.check.tree)))


def check_anytime(
    model: LanguageModel,
    start: Start,
    asked: CheckedQuery,
    budget: AnswerBudget,
    **options: Any,
) -> Answer:
    """Check a query on a model's texts, as narrowly as the budget allows.

    The answer is right whenever the work stops. Without a limit of seconds it depends on the seed
    alone, and not on batches, threads or the cache.

    If single texts do not decide the query (see `CheckedQuery`), every text counts as undecided
    until it ends, and only certain bounds are computed.

    Args:
        model, start, asked, budget, options: as in `AnytimeRun`.

    Raises:
        InvalidQuery: Storm rejects the query.
        InterruptedCheck: the model failed after it had evaluated texts.
        CheckFailed: Storm gave no answer.
    """
    run = AnytimeRun(model, start, asked, budget, **options)
    run.serve(run.check.run())
    failure = run.batches.failure
    # without a single pass there is no answer that the error could hold
    if failure is not None and run.check.tree.passes == 0:
        raise failure
    try:
        result = run.finish()
    finally:
        run.release()
    if failure is not None:
        raise InterruptedCheck(describe_failure(model, failure), result) from failure
    return result


def describe_failure(model: LanguageModel, failure: Exception) -> str:
    """Return the message about an error of a model."""
    # the errors of this package name the fix themselves
    if isinstance(failure, LLMCheckerError):
        return str(failure)
    return f"{model.name}: the model failed: {type(failure).__name__}: {failure}"


def _forecast(
    answer: Answer,
    asked: CheckedQuery,
    budget: AnswerBudget,
    history: tuple[AnytimeProgress, ...],
) -> Forecast | None:
    """Forecast the costs of an undecided threshold or a wanted width."""
    root = asked.query.root
    if isinstance(root, Probability) and root.threshold is not None:
        is_unknown = answer.decision is not None and answer.holds is None
        return forecast_decision(history, float(root.threshold)) if is_unknown else None
    return forecast_width(history, budget.width) if asked.query.is_numeric else None


def _build_sampled(check: AnytimeCheck, budget: AnswerBudget) -> Sampled | None:
    """Return the estimate of a check, its interval rounded outwards.

    A tree that decides everything up to rounding is an estimate without samples, whether or not
    any were drawn. The estimate is None without samples on any other tree.
    """
    samples = check.samples
    if check.is_exact:
        progress = check.compute_progress()
        low, high, samples = progress.lower, progress.upper, 0
        estimate = (low + high) / 2
    elif (interval := check.interval) is not None:
        (low, high), estimate = interval, check.estimate
    else:
        return None
    margin = check.rounding_error * max(1.0, abs(low), abs(high))
    return Sampled(
        interval=Interval(
            math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)
        ),
        estimate=None if estimate is None else float(estimate),
        confidence=budget.confidence,
        samples=samples,
        seed=budget.seed,
    )


def _bound_probability(
    asked: CheckedQuery, progress: AnytimeProgress, rounding_error: float
) -> Interval:
    """Return a threshold query's certain bounds, rounded outwards."""
    root = asked.query.root
    is_threshold = isinstance(root, Probability) and root.threshold is not None
    # other bounds of the check are about its widest formula, and a ratio has a larger error
    if not is_threshold or asked.estimation_obstacle is not None or len(asked.paths) != 1:
        return PROBABILITIES
    return Interval(
        max(0.0, progress.lower - rounding_error), min(1.0, progress.upper + rounding_error)
    )
