"""Answering one question to one model: a tree grown for it, certain bounds, and an estimate.

Two answers are never mixed. `lower` and `upper` are certain: Storm computes them on the refined
tree, and they hold for the whole model. `estimate`, `low` and `high` come from samples of what the
tree leaves open and hold with the stated confidence.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.solve import solve
from llmchecker.checking.verdicts import Verdict
from llmchecker.deciding.asked_paths import readings_of, why_not_estimated
from llmchecker.deciding.effort import Budget, Effort
from llmchecker.deciding.estimates import Estimate, with_estimate
from llmchecker.deciding.query_estimates import (
    confidence_of_each,
    estimate_part,
    number_of_samples,
    samplers_of,
    together,
)
from llmchecker.deciding.refinement import SOONER, Refining, refine
from llmchecker.deployed.chat import Start
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier, ranges_of
from llmchecker.queries.query import Query
from llmchecker.scoring.scores import score_tree
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import TextTree

PASSES_TO_REFINE = 1 / 8
"""The share of a budget of passes that grows the tree. The other passes draw samples.

In measurements a tenth gave about as narrow an interval as a third, since the first texts of a tree
hold the most probability.
"""
SECONDS_TO_REFINE = 1 / 3
"""The share of a budget of seconds that grows the tree.

It is larger than that of passes, since a pass that refines also scores hundreds of texts.
"""
SHARE_WHERE_CUT = 3 / 4
"""The share of both where decoding cuts tokens, since trees are often whole then, and exact."""
PASSES_FOR_WIDTH = 1000
"""The passes that grow the tree where only a width ends the work. Samples do the rest."""


@dataclass(frozen=True)
class Inquiry:
    """The answer to a question, and what it was computed from.

    Attributes:
        tree: the refined tree.
        scores: (n,) integers for each quantifier of the query, by name.
        verdict: bounds, evidence, and the estimate if there is one. Its value is that of the
            refined tree, and so not the value of any alpha and k.
        estimated: the estimate; None where nothing was estimated.
        passes: how many texts the model was asked about, to refine and to sample.
        seconds: that the whole answer took.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    verdict: Verdict
    estimated: Estimate | None
    passes: int
    seconds: float


def inquire(
    model: LanguageModel,
    start: Start,
    query: Query,
    quantifiers: Mapping[str, Quantifier],
    length: int,
    effort: Effort,
    *,
    end_of_sequence: EndOfSequence = "terminal",
    stored: StoredDistributions | None = None,
    stopped: Callable[[], bool] = lambda: False,
    refining: Callable[[Refining], None] = lambda state: None,
    sampling: Callable[[int, int], None] = lambda done, total: None,
) -> Inquiry:
    """Answer a query about what a model writes after a text, as narrowly as the effort allows.

    Where an estimate follows, the tree grows where the most undecided probability is. Certain
    bounds alone are narrower if texts near the horizon count more (see `refinement.SOONER`).

    Where single texts do not decide the query (see `readings_of`), every text counts as undecided
    until it ends. The tree then grows where the most probability is.

    Args:
        model: the language model.
        start: the start string.
        query: what is asked.
        quantifiers: the quantifiers that the query names, by name.
        length: the horizon L in tokens.
        effort: what the answer may cost, and how certain it must be.
        end_of_sequence, stored: as in `expansion.grow_tree`.
        stopped: called between batches; when it returns true, what is there gives the answer. There
            is no estimate then unless all samples were drawn: their number was fixed before the
            first, and the confidence holds for that number only.
        refining, sampling: called to say how far the work is.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm gave no answer.
    """
    began = time.monotonic()
    ranges = ranges_of(quantifiers)
    estimates = why_not_estimated(query, ranges) is None and not effort.certain
    refined: list[Refining] = []

    def told(state: Refining) -> None:
        refined[:] = [state]
        refining(state)

    tree = refine(
        model,
        start,
        readings_of(query, length, ranges),
        quantifiers,
        _budget(effort, estimates, model.is_cut),
        end_of_sequence,
        told,
        stored,
        stopped,
        sooner=1.0 if estimates else SOONER,
    )
    scores = {name: score_tree(each, tree, name) for name, each in quantifiers.items()}
    verdict = solve(tree, scores, query, ranges, time.monotonic() - began)
    samplers = []
    if estimates and not stopped():
        samplers = samplers_of(
            model, start, tree, scores, query, quantifiers, end_of_sequence, stored
        )
    confidence, found = confidence_of_each(effort.confidence, len(samplers)), []
    for number, sampler in enumerate(samplers):
        passes, left = None, None
        if effort.passes is not None:
            share = SHARE_WHERE_CUT if model.is_cut else PASSES_TO_REFINE
            passes = effort.passes * (1 - share) / len(samplers)
        if effort.seconds is not None:
            left = (effort.seconds - (time.monotonic() - began)) / (len(samplers) - number)
        samples = number_of_samples(
            sampler, confidence, effort.seed, width=effort.width, passes=passes, seconds=left
        )
        found.append(estimate_part(sampler, samples, confidence, effort.seed, sampling, stopped))
    estimated = None
    if found and None not in found:
        estimated = together(found, effort.confidence)
        verdict = with_estimate(verdict, query, estimated)
    passes_taken = refined[0].passes + sum(sampler.passes for sampler in samplers)
    seconds = time.monotonic() - began
    return Inquiry(tree, scores, verdict, estimated, passes_taken, seconds)


def _budget(effort: Effort, estimates: bool, is_cut: bool) -> Budget:
    """The part of the effort that grows the tree."""
    if not estimates:
        return Budget(effort.width, effort.passes, effort.seconds)
    of_passes, of_seconds = (
        (SHARE_WHERE_CUT,) * 2 if is_cut else (PASSES_TO_REFINE, SECONDS_TO_REFINE)
    )
    passes = None if effort.passes is None else math.ceil(effort.passes * of_passes)
    seconds = None if effort.seconds is None else effort.seconds * of_seconds
    if passes is None and seconds is None:
        passes = PASSES_FOR_WIDTH
    return Budget(effort.width, passes, seconds)
