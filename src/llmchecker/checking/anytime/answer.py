"""The anytime answer to a query: certain bounds, an interval with confidence, and a decision.

The two kinds of answers are never mixed. `lower` and `upper` are certain: Storm computes them on
the final tree, and they hold for the whole model. `estimate`, `low` and `high` come from samples of
the undecided mass and hold with the stated confidence.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from llmchecker.checking.anytime.anytime_check import AnytimeCheck, AnytimeProgress
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.estimate import Estimate, with_estimate
from llmchecker.checking.anytime.model_batches import ModelBatches
from llmchecker.checking.anytime.partial_tree import PartialTree
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.check import check_query
from llmchecker.checking.markov.sparse_matrix import compute_relative_error
from llmchecker.checking.verdict import Verdict
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.interface import LanguageModel
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.text_tree import TextTree

_ROUNDING_ERROR = 256 * float(np.finfo(np.float64).eps)
"""A limit above the relative rounding error of the sums and products of an end."""


@dataclass(frozen=True)
class AnytimeResult:
    """The answer to a query, with its tree, scores and costs.

    Attributes:
        tree: the final tree.
        scores: (n,) integers for each quantifier of the query, by name.
        verdict: bounds, witnesses, and any estimate. Its value is the value of the final tree, and
            so not the value of any alpha and k.
        estimate: the estimate; None without samples.
        passes: number of texts that the model evaluated.
        seconds: seconds of the whole computation.
        history: the intervals after each round.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    verdict: Verdict
    estimate: Estimate | None
    passes: int
    seconds: float
    history: tuple[AnytimeProgress, ...]


def check_anytime(
    model: LanguageModel,
    start: Start,
    asked: CheckedQuery,
    budget: AnswerBudget,
    *,
    end_of_sequence: EndOfSequence = "terminal",
    distributions: PromptDistributions | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    watch: Callable[[AnytimeProgress], bool | None] = lambda progress: None,
) -> AnytimeResult:
    """Check a query on a model's texts, as narrowly as the budget allows.

    The answer is right whenever the work stops. Without a limit of seconds it depends on the seed
    alone, and not on batches, threads or the cache.

    If single texts do not decide the query (see `CheckedQuery`), every text counts as undecided
    until it ends, and only certain bounds are computed.

    Args:
        model: the language model.
        start: the start string.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        end_of_sequence, distributions: as in `expansion.build_tree`.
        is_cancelled: called between batches; the work ends when it returns true.
        watch: called with the intervals after each round; the work ends when it returns true.

    Raises:
        InvalidQuery: Storm rejects the query.
        CheckFailed: Storm gave no answer.
    """
    start_time = time.monotonic()
    # a prompt cache has encoded the start string already
    prompt = model.encode(start) if distributions is None else distributions.prompt
    open_prefix = cache(lambda: model.open_prefix(prompt))
    tree = PartialTree(model, prompt, asked.monitors, asked.quantifiers, end_of_sequence)
    deadline = None if budget.seconds is None else start_time + budget.seconds
    batches = ModelBatches(model, open_prefix, distributions, is_cancelled, deadline)
    history: list[AnytimeProgress] = []

    def record(progress: AnytimeProgress) -> bool:
        history.append(progress)
        return bool(watch(progress)) or batches.must_stop(len(tree))

    check = AnytimeCheck(tree, asked, budget, record, lambda: batches.affordable_texts(len(tree)))
    batches.serve(check.run(), lambda: len(tree))
    return build_result(check, asked, budget, history, start_time)


def build_result(
    check: AnytimeCheck,
    asked: CheckedQuery,
    budget: AnswerBudget,
    history: Sequence[AnytimeProgress],
    start_time: float,
) -> AnytimeResult:
    """Build the result of a check, at any time of its work.

    Args:
        check: the check.
        asked, budget: its query and limits.
        history: the intervals after each of its rounds.
        start_time: the time by `time.monotonic` at which the check began.

    Raises:
        InvalidQuery, CheckFailed: as in `check_anytime`.
    """
    tree, scores = check.tree.build_tree()
    seconds = time.monotonic() - start_time
    verdict = check_query(tree, scores, asked.query, asked.ranges, seconds)
    estimate = _build_estimate(check, tree, budget)
    if estimate is not None:
        verdict = with_estimate(verdict, asked.query, estimate)
    return AnytimeResult(
        tree=tree,
        scores=scores,
        verdict=verdict,
        estimate=estimate,
        passes=check.tree.passes,
        seconds=time.monotonic() - start_time,
        history=(*history, check.compute_progress()),
    )


def _build_estimate(check: AnytimeCheck, tree: TextTree, budget: AnswerBudget) -> Estimate | None:
    """Return the estimate of a check, its interval rounded outwards.

    A tree that decides everything is an estimate without samples. The estimate is None without
    samples on any other tree.
    """
    if (interval := check.interval) is not None:
        (low, high), estimate = interval, check.estimate
    elif check.is_exact:
        low = high = estimate = check.compute_progress().lower
    else:
        return None
    error = compute_relative_error(tree.parent[1:], tree.probability[1:], int(tree.step.max()))
    margin = (float(error) + _ROUNDING_ERROR) * max(1.0, abs(low), abs(high))
    return Estimate(
        estimate=estimate,
        low=math.nextafter(low - margin, -math.inf),
        high=math.nextafter(high + margin, math.inf),
        confidence=budget.confidence,
        samples=check.samples,
        passes=check.tree.passes,
        seed=budget.seed,
    )
