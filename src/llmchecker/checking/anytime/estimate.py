"""Estimates from samples, as part of a verdict."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from llmchecker.checking.interval import Interval
from llmchecker.checking.verdict import Verdict
from llmchecker.properties.logic.query import Query

_NEGATIONS = {"<": ">=", "<=": ">"}


@dataclass(frozen=True)
class Estimate:
    """The answer to a query for the whole model, with confidence.

    Attributes:
        estimate: the estimate; of a probability D + U times the share of samples that satisfy the
            formula. None of a conditional whose condition neither the tree nor a sample satisfies.
        low, high: the interval, which covers the answer with at least `confidence`.
        confidence: the probability, before the samples are drawn, that the interval will be right.
        samples: number of samples.
        passes: number of texts that the model evaluated.
        seed: seed of the samples.
    """

    estimate: float | None
    low: float
    high: float
    confidence: float
    samples: int
    passes: int
    seed: int


def with_estimate(verdict: Verdict, query: Query, estimate: Estimate) -> Verdict:
    """Return the verdict with an estimate, cut to the certain bounds.

    Estimate and interval are cut to the certain bounds of a number. A certain answer to a threshold
    query is also its estimate. The estimate is None where the interval contains the threshold.
    """
    answer: float | bool | None
    if query.is_numeric:
        if estimate.samples == 0 and None not in (verdict.lower, verdict.upper):
            # without samples everything is decided, so the certain bounds are the answer
            estimate = replace(estimate, low=verdict.lower, high=verdict.upper)
        estimate = _clip_to_bounds(estimate, verdict.lower, verdict.upper)
        answer = estimate.estimate
    elif verdict.lower is not None and verdict.lower == verdict.upper:
        # bounds of a threshold query are truth values, so only [0, 1] can cut the interval
        estimate, answer = _clip_to_bounds(estimate, 0.0, 1.0), verdict.lower
    else:
        estimate = _clip_to_bounds(estimate, 0.0, 1.0)
        answer = _compare_with_threshold(query, estimate)
    return replace(
        verdict,
        estimate=answer,
        low=estimate.low,
        high=estimate.high,
        confidence=estimate.confidence,
        samples=estimate.samples,
    )


def _clip_to_bounds(
    original: Estimate, min_value: float | None, max_value: float | None
) -> Estimate:
    """Cut the estimate to certain bounds, with low <= estimate <= high."""
    bounds = Interval(
        -math.inf if min_value is None else min_value,
        math.inf if max_value is None else max_value,
    )
    interval = bounds.cut(Interval(original.low, original.high))
    estimate = None if original.estimate is None else interval.clip(original.estimate)
    return replace(original, estimate=estimate, low=interval.lower, high=interval.upper)


def _compare_with_threshold(query: Query, estimate: Estimate) -> bool | None:
    """Return whether the interval meets a threshold; None if it contains it."""
    # fractions compare exactly with the decimal threshold
    low, high = Fraction(estimate.low), Fraction(estimate.high)
    threshold = Fraction(query.root.threshold)
    meets = {">=": low >= threshold, ">": low > threshold}
    fails = {">=": high < threshold, ">": high <= threshold}
    # P<p is the negation of P>=p, and P<=p of P>p
    is_lower_bound = query.root.comparison in meets
    comparison = query.root.comparison if is_lower_bound else _NEGATIONS[query.root.comparison]
    return (
        is_lower_bound if meets[comparison] else not is_lower_bound if fails[comparison] else None
    )
