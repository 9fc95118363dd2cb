"""Bounds for the whole model: the least and greatest value of a query.

Storm solves the decision process of `rest_abstraction` for the least and the greatest probability.
Both are then moved outwards, by twice the largest rounding error of a probability that is computed
from the tree (see `compute_relative_error` and `compute_rest_error`). So every value that is
computed from the same tree is within the bounds. A probability that the graph shows to be 0 or 1 is
exact and is not moved.
"""

import math
from collections.abc import Mapping

import numpy as np

from llmchecker.checking import storm
from llmchecker.checking.bounded_value import compute_expected_score
from llmchecker.checking.interval import Interval
from llmchecker.checking.markov import dtmc
from llmchecker.checking.markov.dtmc import MarkovChain
from llmchecker.checking.markov.rest_abstraction import (
    MAX_VALUATIONS,
    MarkovDecisionProcess,
    abstract_rest,
)
from llmchecker.checking.satisfaction import Satisfaction
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.ast import (
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Probability,
    Temporal,
)
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.trees.text_tree import TextTree

_UNCONSTRAINED_NOTE = (
    f"the bounds are wider than need be: the atoms can have more than {MAX_VALUATIONS} truth "
    "values together, so that anything counts as possible in rest"
)
_DIVISION_ERROR = 4 * 2.0**-53
"""A limit above the relative error of a sum, a quotient and a product."""


def compute_bounds(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    score_ranges: Mapping[str, ScoreRange],
) -> tuple[Interval, str | None]:
    """Bound a query's value for the whole model, for any content of `rest`.

    A P inside the query is decided first, in each state: whether it surely holds there, and whether
    it may hold. The bounds use the case that makes them wider. So they are sound, but not always
    the narrowest with a nested P. E is decided as P>0 and A as P>=1.

    For an expected score a text in `rest` may have any score in the quantifier's range. The value
    of the bounded process counts 0 there, and so is within the bounds if the range contains 0.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; scores of `rest` states are ignored.
        query: the parsed query.
        score_ranges: the declared range of each quantifier that the query names.

    Returns:
        The bounds, and the reason why they are wider than necessary as a sentence; None if they are
        not.

    Raises:
        InvalidTree: a score is outside the range of its quantifier, or a text is not finished.
        ImpossibleCondition: no text of the model can satisfy the condition of a conditional.
        CheckFailed: Storm gave no answer; the message contains the reason.
    """
    with storm.translate_errors(CheckFailed, f"cannot bound the query {query.text}"):
        if isinstance(query.root, Expectation):
            chain = dtmc.build_dtmc(tree, scores)
            # later entries of a range are final scores, which an expected score does not use
            low, high = score_ranges.get(query.root.quantifier, (None, None))[:2]
            return _compute_score_bounds(chain, query, low, high), None
        return _compute_formula_bounds(abstract_rest(tree, scores, query, score_ranges), query)


def _compute_formula_bounds(
    process: MarkovDecisionProcess, query: Query
) -> tuple[Interval, str | None]:
    satisfaction = Satisfaction(process)
    note = _UNCONSTRAINED_NOTE if process.is_unconstrained else None
    match query.root:
        case Conditional(path, condition):
            lower, upper = _compute_conditional_bounds(satisfaction, query, path, condition)
        case Probability(_, None, path):
            lower, upper = _compute_extremes(satisfaction, path)
        case _:
            lower, upper = (
                bool(satisfaction.evaluate(query.root, is_lower)[0]) for is_lower in (True, False)
            )
    return Interval(lower, upper), note


def _compute_extremes(satisfaction: Satisfaction, path: Formula) -> tuple[float, float]:
    """Return the extreme probabilities in the start state, rounded outwards."""
    minimum = satisfaction.compute_probabilities(path, minimize=True)
    maximum = satisfaction.compute_probabilities(path, minimize=False)
    return minimum.low[0].item(), maximum.high[0].item()


def _compute_conditional_bounds(
    satisfaction: Satisfaction, query: Query, path: Formula, condition: Formula
) -> tuple[float, float]:
    """Bound P(path & given) / P(given).

    P(given) is the sum of a = P(path & given) and b = P(!path & given). The quotient a / (a + b)
    rises with a and falls with b. So the extremes of a and b bound it. A greatest probability of 0
    is exact, since the graph shows it.
    """
    # the four extremes belong to different choices, so the bounds are sound but not tight
    lower, upper = _compute_extremes(satisfaction, Connective("&", (path, condition)))
    lower_negation, upper_negation = _compute_extremes(
        satisfaction, Connective("&", (Connective("!", (path,)), condition))
    )
    # P(given) is 0 for every model with these probabilities
    if upper == 0 and upper_negation == 0:
        raise ImpossibleCondition(
            f"query {query.text}: its condition has probability 0 for every text; ask for a "
            "condition that can hold"
        )
    # the graph shows that the path formula holds on all or on no paths of the condition
    lower_quotient = (
        1.0 if upper_negation == 0 else lower / (lower + upper_negation) * (1 - _DIVISION_ERROR)
    )
    upper_quotient = (
        0.0 if upper == 0 else min(upper / (upper + lower_negation) * (1 + _DIVISION_ERROR), 1.0)
    )
    return lower_quotient, upper_quotient


def _compute_score_bounds(
    chain: MarkovChain, query: Query, low: int | None, high: int | None
) -> Interval:
    """Bound an expected score by the limits of the quantifier's range.

    For each limit, every text in `rest` has that limit as its score.

    This holds for every later step too, since no continuation scores beyond the limit.

    Args:
        low, high: the limits of the range; None means that the range has no limit on that side.
    """
    expectation = query.root
    reach_rest = Temporal("F", (Label("rest"),), expectation.step)
    rest_probability = Satisfaction(chain.build_process(query)).compute_probabilities(
        reach_rest, minimize=True
    )
    limits = []
    for limit, sign in ((low, -1), (high, 1)):
        # a missing limit matters only if a path reaches `rest` in time
        if limit is None and not rest_probability.is_zero[0]:
            limits.append(sign * math.inf)
            continue
        scores = np.where(chain.rest, limit or 0, chain.variables[expectation.quantifier])
        # The error is relative to a probability, so a score scales it. Of the largest score it is
        # also more than twice the error of `rest`.
        max_score = float(np.abs(scores.astype(np.float64)).max())
        value = compute_expected_score(chain, expectation, scores)
        limits.append(value + sign * chain.relative_error * max_score)
    return Interval(*limits)
