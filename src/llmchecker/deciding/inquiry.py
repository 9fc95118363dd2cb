"""Answering one question to one model: a tree grown for it, certain bounds, and an estimate.

Two answers are never mixed. `lower` and `upper` are certain: Storm computes them on the refined
tree, and they hold for the whole model. `estimate`, `low` and `high` come from samples of what the
tree leaves open and hold with the stated confidence.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from llmchecker.checking.solve import solve
from llmchecker.checking.verdicts import Verdict
from llmchecker.deciding.decided import decide
from llmchecker.deciding.effort import Effort
from llmchecker.deciding.estimation import Estimate, Sampler, estimate, samples_for
from llmchecker.deciding.refinement import Budget, Refining, refine
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.quantifiers.scores import score_tree
from llmchecker.queries.formulas import (
    Conditional,
    Connective,
    Formula,
    PathQuantifier,
    Probability,
)
from llmchecker.queries.query import Query
from llmchecker.queries.reading import OpenReading, Reading, is_read_along_texts
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
PILOT = 64
"""Samples that tell how long one takes, and how many passes.

They are thrown away: when a sample is ready depends on how it ends, so a number of samples that
depends on them would not be fixed beforehand.
"""
MOST_SAMPLES = 10**6
PASSES_FOR_WIDTH = 1000
"""The passes that grow the tree where only a width ends the work. Samples do the rest."""
_OPPOSITE = {"<": ">=", "<=": ">"}


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


def paths_of(query: Query) -> tuple[Formula, ...]:
    """The path formulas whose probabilities answer a query.

    A conditional of φ given ψ has two: φ & ψ and !φ & ψ. There are none where single texts do not
    decide the query: an expected score, a nested P, E or A, a combination of several, or "rest".
    """
    match query.root:
        case Probability(_, _, path) | PathQuantifier(_, path):
            paths = (path,)
        case Conditional(path, given):
            paths = (
                Connective("&", (path, given)),
                Connective("&", (Connective("!", (path,)), given)),
            )
        case _:
            return ()
    return paths if all(map(is_read_along_texts, paths)) else ()


def can_estimate(query: Query) -> bool:
    """Whether samples of texts can estimate the answer.

    They can for P=?, for P compared with a threshold, and for conditionals. E and A ask for some
    path and for every path, of which a share of samples says nothing.
    """
    return bool(paths_of(query)) and not isinstance(query.root, PathQuantifier)


def inquire(
    model: LanguageModel,
    start: str,
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

    Where single texts do not decide the query (see `paths_of`), every text counts as undecided
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
    ranges = {name: (each.minimum, each.maximum) for name, each in quantifiers.items()}
    readings = [Reading(path, length, ranges) for path in paths_of(query)]
    estimates = can_estimate(query) and not effort.certain
    refined: list[Refining] = []

    def told(state: Refining) -> None:
        refined[:] = [state]
        refining(state)

    tree = refine(
        model,
        start,
        readings or [OpenReading(length)],
        quantifiers,
        _budget(effort, estimates),
        end_of_sequence,
        told,
        stored,
        stopped,
    )
    scores = {name: score_tree(each, tree) for name, each in quantifiers.items()}
    verdict = solve(tree, scores, query, ranges, time.monotonic() - began)
    found, sampled = [], 0
    # the intervals of a conditional hold together with the confidence asked for (Bonferroni)
    confidence = 1 - (1 - effort.confidence) / max(1, len(readings))
    for number, reading in enumerate(readings if estimates and not stopped() else ()):
        decided = decide(tree, scores, reading)
        sampler = Sampler(model, start, tree, decided, reading, quantifiers, end_of_sequence)
        parts = len(readings) - number
        left = None
        if effort.seconds is not None:
            left = (effort.seconds - (time.monotonic() - began)) / parts
        samples = _samples(sampler, effort, confidence, left, len(readings))
        found.append(estimate(sampler, samples, confidence, effort.seed, sampling, stopped))
        sampled += sampler.passes
    estimated = None
    if found and None not in found:
        estimated = found[0] if len(found) == 1 else _quotient(*found, effort.confidence)
        verdict = _with_estimate(verdict, query, estimated)
    seconds = time.monotonic() - began
    return Inquiry(tree, scores, verdict, estimated, refined[0].passes + sampled, seconds)


def _budget(effort: Effort, estimates: bool) -> Budget:
    """The part of the effort that grows the tree."""
    if not estimates:
        return Budget(effort.width, effort.passes, effort.seconds)
    passes = None if effort.passes is None else math.ceil(effort.passes * PASSES_TO_REFINE)
    seconds = None if effort.seconds is None else effort.seconds * SECONDS_TO_REFINE
    if passes is None and seconds is None:
        passes = PASSES_FOR_WIDTH
    return Budget(effort.width, passes, seconds)


def _samples(
    sampler: Sampler, effort: Effort, confidence: float, left: float | None, parts: int
) -> int:
    """The number of samples to draw. It is fixed before the first of them is drawn.

    Args:
        sampler: draws the samples.
        effort: of the whole answer.
        confidence: with which the interval must hold.
        left: the seconds that are left for the samples; None for no limit.
        parts: the number of intervals that share the passes.
    """
    undecided = sampler.decided.undecided
    most = MOST_SAMPLES
    if effort.width > 0:
        most = samples_for(effort.width, undecided, confidence, most)
    if undecided == 0:
        return 1
    passes = None
    if effort.passes is not None:
        passes = effort.passes * (1 - PASSES_TO_REFINE) / parts
        most_of_one = sampler.longest
        # samples that share beginnings take fewer passes than tokens; a pilot tells how many
        if passes < 10 * PILOT * most_of_one:
            return max(1, min(most, int(passes / most_of_one)))
    if passes is not None or left is not None:
        began = time.monotonic()
        sampler.truths(effort.seed, 2**64 - PILOT, 2**64)
        seconds = time.monotonic() - began
        if left is not None:
            most = min(most, int(PILOT * (left - seconds) / seconds))
        if passes is not None:
            most = min(most, int(PILOT * (passes - sampler.passes) / sampler.passes))
    return max(1, most)


def _quotient(both: Estimate, other: Estimate, confidence: float) -> Estimate:
    """The estimate of a / (a + b).

    It rises with a and falls with b, so that its ends come from opposite ends of the two intervals.
    """

    def share(a: float, b: float, otherwise: float) -> float:
        return a / (a + b) if a + b > 0 else otherwise

    return Estimate(
        estimate=share(both.estimate, other.estimate, 0.0),
        low=max(0.0, math.nextafter(share(both.low, other.high, 0.0), 0)),
        high=min(1.0, math.nextafter(share(both.high, other.low, 1.0), 2)),
        confidence=confidence,
        samples=both.samples + other.samples,
        satisfying=both.satisfying + other.satisfying,
        passes=both.passes + other.passes,
        seed=both.seed,
    )


def _with_estimate(verdict: Verdict, query: Query, found: Estimate) -> Verdict:
    """The verdict with an estimate.

    The estimate of a threshold query is whether it holds, and None where the interval holds the
    threshold, so that samples do not tell.
    """
    answer: float | bool | None = found.estimate
    if not query.numeric:
        low, high = Fraction(found.low), Fraction(found.high)
        threshold = Fraction(query.root.threshold)
        above = {">=": low >= threshold, ">": low > threshold}
        below = {">=": high < threshold, ">": high <= threshold}
        rising = query.root.comparison in above
        comparison = query.root.comparison if rising else _OPPOSITE[query.root.comparison]
        answer = rising if above[comparison] else not rising if below[comparison] else None
    return replace(
        verdict,
        estimate=answer,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        samples=found.samples,
    )
