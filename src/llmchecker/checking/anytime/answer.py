"""The anytime answer to a query: refined tree, certain bounds and estimate.

The two kinds of answers are never mixed. `lower` and `upper` are certain: Storm computes them on
the refined tree, and they hold for the whole model. `estimate`, `low` and `high` come from samples
of the undecided mass and hold with the stated confidence.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.budget import AnswerBudget, RefinementBudget
from llmchecker.checking.anytime.estimate import Estimate, with_estimate
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.query_estimate import (
    build_samplers,
    choose_sample_count,
    combine_estimates,
    estimate_with_sampler,
    split_confidence,
)
from llmchecker.checking.anytime.refinement import HORIZON_WEIGHT, RefinementProgress, refine
from llmchecker.checking.check import check_query
from llmchecker.checking.verdict import Verdict
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.scores import score_tree
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.text_tree import TextTree

_REFINEMENT_PASS_SHARE = 1 / 8
"""The share of a budget of passes that refines the tree.

The other passes draw samples.

As measured, a tenth gives about as narrow an interval as a third, since the first texts have the
most probability.
"""
_REFINEMENT_TIME_SHARE = 1 / 3
"""The share of a budget of seconds that refines the tree.

It is larger than the share of passes, since a pass that refines also scores hundreds of texts.
"""
_REFINEMENT_SHARE_WHEN_CUT = 3 / 4
"""Both shares if decoding cuts tokens.

Trees are often complete, and so exact, then.
"""
_DEFAULT_REFINEMENT_PASSES = 1000
"""The passes that refine the tree if only a width limits the work.

Samples do the rest.
"""


@dataclass(frozen=True)
class AnytimeResult:
    """The answer to a query, with its tree, scores and costs.

    Attributes:
        tree: the refined tree.
        scores: (n,) integers for each quantifier of the query, by name.
        verdict: bounds, witnesses, and any estimate. Its value is the value of the refined tree,
            and so not the value of any alpha and k.
        estimate: the estimate; None without an estimation.
        passes: number of texts that the model evaluated, for refinement and samples.
        seconds: seconds of the whole computation.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    verdict: Verdict
    estimate: Estimate | None
    passes: int
    seconds: float


def check_anytime(
    model: LanguageModel,
    start: Start,
    asked: CheckedQuery,
    budget: AnswerBudget,
    *,
    end_of_sequence: EndOfSequence = "terminal",
    distributions: PromptDistributions | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    report_refinement: Callable[[RefinementProgress], None] = lambda state: None,
    report_samples: Callable[[int, int], None] = lambda done, total: None,
) -> AnytimeResult:
    """Check a query on a model's texts, as narrowly as the budget allows.

    If an estimate follows, the tree grows where the most undecided probability is. Certain bounds
    alone are narrower if texts near the horizon count more (see `refinement.HORIZON_WEIGHT`).

    If single texts do not decide the query (see `CheckedQuery`), every text counts as undecided
    until it ends. The tree then grows where the most probability is.

    Args:
        model: the language model.
        start: the start string.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        end_of_sequence, distributions: as in `expansion.build_tree`.
        is_cancelled: called between batches; when it returns true, the answer uses the results so
            far. Then there is no estimate unless all samples were drawn: their number was fixed
            before the first, and the confidence holds for that number only.
        report_refinement, report_samples: called with the progress of the work.

    Raises:
        InvalidQuery: Storm rejects the query.
        CheckFailed: Storm gave no answer.
    """
    start_time = time.monotonic()
    # a prompt cache has encoded the start string already
    prompt = model.encode(start) if distributions is None else distributions.prompt
    has_estimate = asked.estimation_obstacle is None and not budget.certain
    progress_reports: list[RefinementProgress] = []

    def record_progress(state: RefinementProgress) -> None:
        # only the last progress counts, for its number of passes
        progress_reports[:] = [state]
        report_refinement(state)

    tree = refine(
        model,
        prompt,
        asked.monitors,
        asked.quantifiers,
        _plan_refinement(budget, has_estimate, model.is_truncated),
        end_of_sequence,
        record_progress,
        distributions,
        is_cancelled,
        # the interval of an estimate is narrower with 1, see `HORIZON_WEIGHT`
        horizon_weight=1.0 if has_estimate else HORIZON_WEIGHT,
    )
    scores = {
        name: score_tree(quantifier, tree, name) for name, quantifier in asked.quantifiers.items()
    }
    verdict = check_query(tree, scores, asked.query, asked.ranges, time.monotonic() - start_time)
    samplers = []
    if has_estimate and not is_cancelled():
        # after a cancellation the results so far are the answer
        samplers = build_samplers(
            model, prompt, tree, scores, asked, end_of_sequence, distributions
        )
    confidence, estimates = split_confidence(budget.confidence, len(samplers)), []
    for index, sampler in enumerate(samplers):
        # a limit that the budget does not set stays None
        max_passes, seconds_left = None, None
        if budget.passes is not None:
            share = _REFINEMENT_SHARE_WHEN_CUT if model.is_truncated else _REFINEMENT_PASS_SHARE
            max_passes = budget.passes * (1 - share) / len(samplers)
        if budget.seconds is not None:
            # the samplers that follow share the time that remains
            seconds_left = (budget.seconds - (time.monotonic() - start_time)) / (
                len(samplers) - index
            )
        samples = choose_sample_count(
            sampler,
            confidence,
            budget.seed,
            width=budget.width,
            passes=max_passes,
            seconds=seconds_left,
        )
        estimates.append(
            estimate_with_sampler(
                sampler, samples, confidence, budget.seed, report_samples, is_cancelled
            )
        )
    estimate = None
    # a cancelled sampler gives None, and its formula has no other estimate
    if estimates and None not in estimates:
        estimate = combine_estimates(estimates, budget.confidence)
        verdict = with_estimate(verdict, asked.query, estimate)
    total_passes = progress_reports[0].passes + sum(sampler.passes for sampler in samplers)
    seconds = time.monotonic() - start_time
    return AnytimeResult(tree, scores, verdict, estimate, total_passes, seconds)


def _plan_refinement(budget: AnswerBudget, has_estimate: bool, is_cut: bool) -> RefinementBudget:
    """Return the part of the budget that refines the tree."""
    # without samples the refinement may use the whole budget
    if not has_estimate:
        return RefinementBudget(budget.width, budget.passes, budget.seconds)
    passes_share, seconds_share = (
        (_REFINEMENT_SHARE_WHEN_CUT,) * 2
        if is_cut
        else (_REFINEMENT_PASS_SHARE, _REFINEMENT_TIME_SHARE)
    )
    passes = None if budget.passes is None else math.ceil(budget.passes * passes_share)
    seconds = None if budget.seconds is None else budget.seconds * seconds_share
    if passes is None and seconds is None:
        # a width alone does not divide the work between tree and samples
        passes = _DEFAULT_REFINEMENT_PASSES
    return RefinementBudget(budget.width, passes, seconds)
