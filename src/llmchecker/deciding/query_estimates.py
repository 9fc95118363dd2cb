"""Estimating the answer to a query on a tree that is there, with samples of what it leaves open.

Which path formulas are sampled, with how many samples, and what their estimates make together. The
number of samples is fixed before the first that counts is drawn.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from llmchecker.deciding.asked_paths import paths_of, why_not_estimated
from llmchecker.deciding.decided import decide
from llmchecker.deciding.effort import Sampling
from llmchecker.deciding.estimates import Estimate, EstimateRecord
from llmchecker.deciding.estimation import Sampler, estimate
from llmchecker.deciding.expected_scores import ScoreSampler, estimate_score
from llmchecker.deployed.chat import Start
from llmchecker.errors import InvalidEstimate
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier, ranges_of
from llmchecker.queries.formulas import Expectation
from llmchecker.queries.query import Query
from llmchecker.queries.reading import Reading
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.grower import Grower
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import TextTree

PILOT = 64
"""Samples that tell how long one takes, and how many passes.

They are thrown away: when a sample is ready depends on how it ends, so a number of samples that
depends on them would not be fixed beforehand.
"""
FEWEST_IN_PILOT = 8
"""So many samples at least tell it. More are drawn only if they take little of the time left."""
SHARE_OF_PILOT = 1 / 8
"""The share of the time left that a pilot may take."""
POWER = 0.95
"""The passes that samples take grow about like this power of their number, as measured."""
MOST_SAMPLES = 10**6


def samplers_of(
    model: LanguageModel,
    start: Start,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    quantifiers: Mapping[str, Quantifier],
    end_of_sequence: EndOfSequence,
    stored: StoredDistributions | None = None,
) -> list[Sampler]:
    """A sampler for each path formula of a query, or the one for its expected score.

    Args:
        model, start, end_of_sequence: with which the tree was grown, of whatever alpha and k.
        tree: its undecided mass is sampled.
        scores: (n,) integers for each quantifier that the query names.
        query: what is asked.
        quantifiers: those that the query names, by name.
        stored: as in `drawing.NextTokens`.
    """
    if isinstance(asked := query.root, Expectation):
        name = asked.quantifier
        found = (model, start, tree, scores[name], asked, quantifiers[name])
        return [ScoreSampler(*found, end_of_sequence, stored)]
    ranges = ranges_of(quantifiers)
    samplers = []
    for path in paths_of(query):
        reading = Reading(path, tree.truncation.length, ranges)
        decided = decide(tree, scores, reading)
        samplers.append(
            Sampler(model, start, tree, decided, reading, quantifiers, end_of_sequence, stored)
        )
    return samplers


def estimate_query(
    samplers: list[Sampler],
    sampling: Sampling,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Estimate:
    """Estimate the answer to a query from the samplers of its path formulas.

    The passes that the estimate names are all that the samplers took.

    Args:
        samplers: as `samplers_of` gives them.
        sampling: how many samples may be drawn, shared by the path formulas.
        progress: as in `estimation.estimate`, for each path formula.

    Raises:
        InvalidEstimate: there are no samplers, because the query cannot be estimated.
    """
    if not samplers:
        raise InvalidEstimate("no single text decides the query, so it cannot be estimated")
    parts = len(samplers)
    confidence = confidence_of_each(sampling.confidence, parts)
    found = []
    for sampler in samplers:
        samples = number_of_samples(
            sampler,
            confidence,
            sampling.seed,
            most=MOST_SAMPLES if sampling.samples is None else sampling.samples // parts,
            width=sampling.width,
            passes=None if sampling.passes is None else sampling.passes / parts,
        )
        found.append(estimate_part(sampler, samples, confidence, sampling.seed, progress))
    passes = sum(sampler.passes for sampler in samplers)
    return replace(together(found, sampling.confidence), passes=passes)


def estimate_part(
    sampler: Sampler,
    samples: int,
    confidence: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate what a sampler is for; arguments and result are those of `estimation.estimate`."""
    of = estimate_score if isinstance(sampler, ScoreSampler) else estimate
    return of(sampler, samples, confidence, seed, progress, stopped)


def estimate_check(
    name: str,
    grower: Grower,
    start: Start,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    quantifiers: Mapping[str, Quantifier],
    sampling: Sampling,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EstimateRecord:
    """Estimate the answer to a query for the whole model from samples of what a tree leaves open.

    The model is loaded only if there is something to ask it.

    Args:
        name: of the check.
        grower: of the model that the tree was grown from.
        start: the start string.
        tree: of any alpha and k, or refined.
        scores: (n,) integers for each quantifier that the query names.
        query: what is asked.
        quantifiers: those that the query names, by name.
        sampling: how many samples may be drawn.
        progress: called with the number of samples drawn so far, and of all samples.
    """
    if (note := why_not_estimated(query, ranges_of(quantifiers))) is not None:
        return EstimateRecord(name, query.text, None, f"{note}.", tree.digest, 0.0, None)
    model = grower.model
    began = time.monotonic()
    stored = grower.stored(start)
    samplers = samplers_of(
        model, start, tree, scores, query, quantifiers, grower.end_of_sequence, stored
    )
    found = estimate_query(samplers, sampling, progress)
    seconds = time.monotonic() - began
    making = grower.making_now()
    return EstimateRecord(name, query.text, found, None, tree.digest, seconds, making)


def confidence_of_each(confidence: float, parts: int) -> float:
    """The confidence of each of some intervals that hold together with the one asked for.

    What the confidence leaves out is divided (Bonferroni).
    """
    return 1 - (1 - confidence) / max(1, parts)


def number_of_samples(
    sampler: Sampler,
    confidence: float,
    seed: int,
    most: int = MOST_SAMPLES,
    width: float = 0.0,
    passes: float | None = None,
    seconds: float | None = None,
) -> int:
    """The number of samples to draw, at least 1. It is fixed before the first of them is drawn.

    Args:
        sampler: draws the samples.
        confidence: with which the interval must hold.
        seed: of the samples that tell how many passes and seconds one takes.
        most: the largest number.
        width: that the interval must not exceed, however the samples come out; 0 for the narrowest.
        passes: about how many texts the model may be asked about; None for no limit.
        seconds: about how long the samples may take; None for no limit.
    """
    if sampler.decided.undecided == 0:
        return 1
    if width > 0:
        most = sampler.samples_for(width, confidence, most)
    if passes is None and seconds is None:
        return max(1, most)
    pilot = PILOT if passes is None else min(PILOT, int(passes / (20 * sampler.longest)))
    if pilot < FEWEST_IN_PILOT:  # too few passes to spend some on samples that are thrown away
        return max(1, min(most, int(passes / sampler.longest)))
    return max(1, min(most, _fitting(sampler, seed, pilot, passes, seconds)))


def _fitting(
    sampler: Sampler, seed: int, pilot: int, passes: float | None, seconds: float | None
) -> int:
    """The number of samples that fit into what a pilot leaves of some passes and seconds.

    Samples share beginnings, so that more of them take fewer passes each. The pilot has `pilot`
    samples, or a few where time is short.
    """
    began, asked_before = time.monotonic(), sampler.passes
    sampler.truths(seed, 2**64 - FEWEST_IN_PILOT, 2**64)
    elapsed, drawn = time.monotonic() - began, FEWEST_IN_PILOT
    quick = seconds is None or elapsed / drawn * pilot <= SHARE_OF_PILOT * seconds
    if quick and pilot > drawn:
        sampler.truths(seed, 2**64 - pilot, 2**64 - drawn)
        elapsed, drawn = time.monotonic() - began, pilot
    taken = sampler.passes - asked_before
    left = math.inf if passes is None else passes - taken
    if seconds is not None:
        left = min(left, taken / elapsed * (seconds - elapsed))
    return int(drawn * (max(left, 0) / taken) ** (1 / POWER))


def together(found: list[Estimate], confidence: float) -> Estimate:
    """The estimate of a query from those of its path formulas.

    Of a conditional these are a for φ & ψ and b for !φ & ψ, and the answer is a / (a + b). It rises
    with a and falls with b, so that its ends come from opposite ends of the two intervals.

    Args:
        found: the estimates, in the order of `paths_of`.
        confidence: with which the intervals hold together.
    """
    if len(found) == 1:
        return found[0]
    both, other = found

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
