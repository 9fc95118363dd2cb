"""One question to one model: grow the tree that it needs, answer it, and estimate what is left.

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
"""Of a budget of passes what goes into the tree, where the rest of it is sampled.

Measured: the interval is about as narrow for a tenth as for a third, since the first texts of a
tree hold the most probability.
"""
SECONDS_TO_REFINE = 1 / 3
"""Of a budget of seconds likewise; a pass that refines also scores hundreds of texts."""
PILOT = 64
"""Samples that tell how long one takes. They are thrown away: when a sample is ready depends on how
it ends, so that a number of samples which depends on them would not be fixed beforehand."""
MOST_SAMPLES = 10**6
PASSES_FOR_WIDTH = 1000
"""Passes that refine where nothing but a width ends the work; samples do the rest."""
_OPPOSITE = {"<": ">=", "<=": ">"}


@dataclass(frozen=True)
class Inquiry:
    """What a question led to.

    Attributes:
        tree: the refined tree.
        scores: of each quantifier of the query.
        verdict: bounds, evidence, and the estimate if there is one. Its value is that of the
            refined tree, not of a truncation.
        estimated: what was estimated; None where nothing was.
        passes: texts after which the model was asked, to refine and to sample.
        seconds: that all of it took.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    verdict: Verdict
    estimated: Estimate | None
    passes: int
    seconds: float


def paths_of(query: Query) -> tuple[Formula, ...]:
    """The path formulas whose probabilities answer a query; none where texts do not decide it.

    Of a conditional they are φ & ψ and !φ & ψ. A nested P, E or A, a combination of several, an
    expected score and "rest" have none.
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
    """Whether samples of texts estimate the answer: P=?, P>=p and their like, and conditionals."""
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

    Where texts do not decide the query (see `paths_of`) all texts count as undecided until they
    end: the tree then grows where most probability is.

    Args:
        quantifiers: those that the query names, by name.
        length: the horizon L in tokens.
        stored: as in `expansion.grow`.
        stopped: asked between batches whether to make do with what is there. Samples whose number
            was fixed and that are not all drawn then give no estimate.
        refining, sampling: told how far the work is.

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
    found = []
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
    estimated = None
    if found and None not in found:
        estimated = found[0] if len(found) == 1 else _quotient(*found, effort.confidence)
        verdict = _with_estimate(verdict, query, estimated)
    passes = refined[0].passes + (0 if estimated is None else estimated.passes)
    return Inquiry(tree, scores, verdict, estimated, passes, time.monotonic() - began)


def _budget(effort: Effort, estimates: bool) -> Budget:
    """What of the effort goes into the tree."""
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
    """The number of samples, fixed before the first is drawn.

    Args:
        confidence: of their interval.
        left: seconds that may be spent on them.
        parts: intervals among which the passes are divided.
    """
    undecided = sampler.decided.undecided
    most = MOST_SAMPLES
    if effort.width > 0:
        most = samples_for(effort.width, undecided, confidence, most)
    if effort.passes is not None:
        # a sample takes at most one pass a token
        passes = effort.passes * (1 - PASSES_TO_REFINE) / parts
        most = min(most, int(passes / sampler.longest))
    if left is not None and undecided > 0:
        began = time.monotonic()
        sampler.truths(effort.seed, 2**64 - PILOT, 2**64)
        pilot = time.monotonic() - began
        most = min(most, int(PILOT * (left - pilot) / pilot))
    return max(1, most)


def _quotient(both: Estimate, other: Estimate, confidence: float) -> Estimate:
    """The estimate of a / (a + b), which rises with a and falls with b."""

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
    """The verdict with an estimate: of P>=p whether it holds, None where the interval holds p."""
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
