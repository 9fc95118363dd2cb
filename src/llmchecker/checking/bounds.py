"""Bounds for the whole model: the least and greatest value of a query.

The bounds of a path formula are sums over the texts of the tree, if single texts decide it (see
`decided_mass`). For other queries Storm solves the decision process of `rest_abstraction` for the
least and the greatest probability. It can also solve the process for every query, so that the
workflow and the tests compare both.

The probabilities are moved outwards, by twice the largest rounding error of a probability that is
computed from the tree (see `ScoredTree.relative_error` and `ScoredTree.rest_error`). So every value
that is computed from the same tree is within the bounds. A probability that the graph shows to be 0
or 1 is exact and is not moved.
"""

import math

import numpy as np

from llmchecker.checking import storm
from llmchecker.checking.bounded_value import compute_expected_score
from llmchecker.checking.decided_mass import bound_quotient
from llmchecker.checking.markov.rest_abstraction import MAX_VALUATIONS, abstract_rest
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.probabilities import Evaluator
from llmchecker.checking.satisfaction import Satisfaction
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.ast import (
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    Temporal,
)
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.query import Query
from llmchecker.utils.interval import Interval

_UNCONSTRAINED_NOTE = (
    f"the bounds are wider than need be: the atoms can have more than {MAX_VALUATIONS} truth "
    "values together, so that anything counts as possible in rest"
)


def compute_bounds(scored: ScoredTree, query: Query) -> tuple[Interval, str | None]:
    """Bound a query's value for the whole model, for any content of `rest`.

    A P inside the query is decided first, in each state: whether it surely holds there, and whether
    it may hold. The bounds use the case that makes them wider. So they are sound, but not always
    the narrowest with a nested P. E is decided as P>0 and A as P>=1.

    For an expected score a text in `rest` may have any score in the quantifier's range. The value
    of the bounded process counts 0 there, and so is within the bounds if the range contains 0.

    Args:
        scored: the bounded process, with the range of each quantifier that the query names.
        query: the parsed query.

    Returns:
        The bounds, and the reason why they are wider than necessary as a sentence; None if they are
        not.

    Raises:
        InvalidTree: a score is outside the range of its quantifier.
        ImpossibleCondition: no text of the model can satisfy the condition of a conditional.
        CheckFailed: Storm gave no answer; the message contains the reason.
    """
    if find_path_formulas(query):
        sums = bound_by_sums(scored, query)
        if sums is not None:
            return sums, None
    return bound_by_storm(scored, query)


def bound_by_sums(scored: ScoredTree, query: Query) -> Interval | None:
    """Bound a query with path formulas by sums over the texts of the tree.

    Args:
        scored: as in `compute_bounds`.
        query: a query of which `find_path_formulas` finds path formulas.

    Returns:
        The bounds; None if a limit of the monitors makes them wider than necessary.

    Raises:
        InvalidTree, ImpossibleCondition, CheckFailed: as in `compute_bounds`.
    """
    scored.check_ranges()
    sums = TreeSums(scored, is_whole_model=True)
    interval = evaluate_bounds(sums, query)
    return None if sums.is_limited else interval


def bound_by_storm(scored: ScoredTree, query: Query) -> tuple[Interval, str | None]:
    """Bound any query by Storm; see `compute_bounds`."""
    answer, _, note = bound_figures(scored, query)
    return answer, note


def bound_figures(scored: ScoredTree, query: Query) -> tuple[Interval, Interval, str | None]:
    """Bound the answer of any query by Storm, and the number that it compares.

    Args:
        scored, query: as in `compute_bounds`.

    Returns:
        The bounds of the answer; the bounds of the probability of a P, E or A, whatever its
        threshold, otherwise those of the answer; and the note of `compute_bounds`.

    Raises:
        InvalidTree, ImpossibleCondition, CheckFailed: as in `compute_bounds`.
    """
    with storm.translate_errors(CheckFailed, f"cannot bound the query {query.text}"):
        if isinstance(query.root, Expectation):
            answer = _compute_score_bounds(scored, query)
            return answer, answer, None
        process = abstract_rest(scored, query)
        note = _UNCONSTRAINED_NOTE if process.is_unconstrained else None
        evaluator = Satisfaction(process)
        answer = evaluate_bounds(evaluator, query)
        has_number = isinstance(query.root, Probability | PathQuantifier)
        return answer, bound_probability(evaluator, query) if has_number else answer, note


def evaluate_bounds(evaluator: Evaluator, query: Query) -> Interval:
    """Bound a query without an expected score by the extreme probabilities of its formulas.

    Args:
        evaluator: an evaluator of the whole model.
        query: the parsed query.

    Raises:
        ImpossibleCondition, CheckFailed: as in `compute_bounds`.
    """
    match query.root:
        case Conditional() | Probability(_, None, _):
            return bound_probability(evaluator, query)
        case Expectation():
            raise AssertionError(query)
        case formula:
            lower, upper = (bool(evaluator.evaluate(formula, side)[0]) for side in (True, False))
            return Interval(lower, upper)


def bound_probability(evaluator: Evaluator, query: Query) -> Interval:
    """Bound the probability of a P, E or A, whatever its threshold, or of a conditional.

    Args:
        evaluator, query: as in `evaluate_bounds`.

    Raises:
        ImpossibleCondition, CheckFailed: as in `compute_bounds`.
    """
    root = query.root
    if isinstance(root, Conditional):
        # P(given) is the sum of P(path & given) and P(!path & given);
        # the four extremes belong to different choices, so the bounds are sound but not tight
        satisfied = _bound_path(evaluator, Connective("&", (root.path, root.condition)))
        violated = _bound_path(
            evaluator, Connective("&", (Connective("!", (root.path,)), root.condition))
        )
        # P(given) is 0 for every model with these probabilities
        if satisfied.upper == 0 and violated.upper == 0:
            raise ImpossibleCondition(
                f"query {query.text}: its condition has probability 0 for every text; ask for a "
                "condition that can hold"
            )
        return bound_quotient(satisfied, violated)
    assert isinstance(root, Probability | PathQuantifier)
    return _bound_path(evaluator, root.path)


def _bound_path(evaluator: Evaluator, path: Formula) -> Interval:
    """Return the extreme probabilities in the start state, rounded outwards."""
    minimum = evaluator.compute_probabilities(path, minimize=True)
    maximum = evaluator.compute_probabilities(path, minimize=False)
    return Interval(minimum.low[0].item(), maximum.high[0].item())


def _compute_score_bounds(scored: ScoredTree, query: Query) -> Interval:
    """Bound an expected score by the limits of the quantifier's range.

    For each limit, every text in `rest` has that limit as its score.

    This holds for every later step too, since no continuation scores beyond the limit. The least
    and the greatest sum of scores have the limit at each step.
    """
    expectation = query.root
    assert isinstance(expectation, Expectation)
    reach_rest = Temporal("F", (Label("rest"),), expectation.last_step)
    rest_probability = Satisfaction(scored.build_process(query)).compute_probabilities(
        reach_rest, minimize=True
    )
    # later entries of a range are final scores, which an expected score does not use
    low, high = scored.ranges.get(expectation.quantifier, (None, None))[:2]
    limits = []
    for limit, sign in ((low, -1), (high, 1)):
        # a missing limit matters only if a path reaches `rest` in time
        if limit is None and not rest_probability.is_zero[0]:
            limits.append(sign * math.inf)
            continue
        scores = np.where(scored.is_rest, limit or 0, scored.variables[expectation.quantifier])
        # The error is relative to a probability, so a score scales it. Of the largest score it is
        # also more than twice the error of `rest`.
        max_score = float(np.abs(scores.astype(np.float64)).max())
        value = compute_expected_score(scored, expectation, scores)
        limits.append(value + sign * scored.relative_error * max_score * expectation.count_scores())
    return Interval(*limits)
