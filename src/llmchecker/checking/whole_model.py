"""Bounds for the whole model: the least and the greatest value that a query can have.

Storm solves the decision process of `chaos` for the least and the greatest probability. Both are
then moved outwards, by twice the largest rounding error of a probability that is computed from the
tree (see `relative_error`). So every value that is computed from the same tree lies within the
bounds. A probability that the graph shows to be 0 or 1 is exact and is not moved.
"""

from collections.abc import Mapping

import numpy as np

from llmchecker.chains import markov_chain
from llmchecker.chains.chaos import MOST_VALUATIONS, DecisionProcess, complete
from llmchecker.chains.markov_chain import MarkovChain
from llmchecker.checking import storm
from llmchecker.checking.bounded_process import expected
from llmchecker.checking.satisfaction import Satisfaction
from llmchecker.checking.verdicts import Interval
from llmchecker.errors import CheckFailed
from llmchecker.queries.formulas import (
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Probability,
    Temporal,
)
from llmchecker.queries.query import Query
from llmchecker.queries.valuations import Range
from llmchecker.trees.text_tree import TextTree

FREE = (
    f"the bounds are wider than need be: the atoms can have more than {MOST_VALUATIONS} truth "
    "values together, so that anything counts as possible in rest"
)
_DIVISION = 4 * 2.0**-53
"""More than the relative error of three roundings: a sum, a quotient and a product."""


def bounds(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    score_ranges: Mapping[str, Range],
) -> Interval:
    """Bound a query's value for the whole model, whatever `rest` hides.

    A P inside the query is decided first, in each state: whether it surely holds there, and whether
    it may hold. The bounds take the one of the two that makes them wider. So they are sound, but
    with a nested P not always as narrow as they could be. E is decided as P>0 and A as P>=1.

    For an expected score a text in `rest` may score anything in the quantifier's range. The value
    of the bounded process counts 0 there, and so lies within the bounds if the range holds 0.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; those of `rest` are not read.
        query: what is asked.
        score_ranges: the declared range of each quantifier that the query names.

    Raises:
        InvalidTree: a text scores outside the range of its quantifier, or is not finished.
        CheckFailed: there is no answer; the message says why.
    """
    with storm.reported(CheckFailed, f"cannot bound the query {query.text}"):
        if isinstance(query.root, Expectation):
            chain = markov_chain.build(tree, scores)
            low, high = score_ranges.get(query.root.quantifier, (None, None))[:2]
            return _expected(chain, query, low, high)
        return _bounded(complete(tree, scores, query, score_ranges), query)


def unbounded(query: Query, reason: str) -> Interval:
    """The interval that holds for every answer to a query, with the reason why it is so wide."""
    match query.root:
        case Expectation():
            return Interval(None, None, reason)
        case _ if query.numeric:
            return Interval(0.0, 1.0, reason)
    return Interval(False, True, reason)


def _bounded(process: DecisionProcess, query: Query) -> Interval:
    satisfaction = Satisfaction(process)
    note = FREE if process.free else None
    match query.root:
        case Conditional(path, given):
            lower, upper = _conditional(satisfaction, path, given)
        case Probability(_, None, path):
            lower, upper = _extremes(satisfaction, path)
        case _:
            lower, upper = (
                bool(satisfaction.satisfying(query.root, surely)[0]) for surely in (True, False)
            )
    return Interval(lower, upper, note)


def _extremes(satisfaction: Satisfaction, path: Formula) -> tuple[float, float]:
    """The least and the greatest probability in the start state, rounded outwards."""
    least = satisfaction.probabilities(path, least=True)
    greatest = satisfaction.probabilities(path, least=False)
    return least.low[0].item(), greatest.high[0].item()


def _conditional(satisfaction: Satisfaction, path: Formula, given: Formula) -> tuple[float, float]:
    """Bound P(path & given) / P(given).

    P(given) is the sum of a = P(path & given) and b = P(!path & given). The quotient a / (a + b)
    rises with a and falls with b, so that the extremes of a and b bound it.
    """
    lower, upper = _extremes(satisfaction, Connective("&", (path, given)))
    lower_other, upper_other = _extremes(
        satisfaction, Connective("&", (Connective("!", (path,)), given))
    )
    least, most = 0.0, 1.0
    if lower > 0:
        exact = upper_other == 0
        least = 1.0 if exact else lower / (lower + upper_other) * (1 - _DIVISION)
    if upper + lower_other > 0:
        exact = upper == 0 or lower_other == 0
        share = upper / (upper + lower_other)
        most = share if exact else min(share * (1 + _DIVISION), 1.0)
    return least, most


def _expected(chain: MarkovChain, query: Query, low: int | None, high: int | None) -> Interval:
    """Bound an expected score: a text in `rest` has a limit of the quantifier's range as its score.

    This holds for every later step too, since no continuation scores beyond the limit.

    Args:
        low, high: the limits of the range; None stands for no limit.
    """
    question = query.root
    resting = Temporal("F", (Label("rest"),), question.step)
    reached = Satisfaction(chain.process(query)).probabilities(resting, least=True)
    limits = []
    for limit, outwards in ((low, -1), (high, 1)):
        if limit is None and not reached.impossible[0]:
            limits.append(None)
            continue
        scores = np.where(chain.rest, limit or 0, chain.variables[question.quantifier])
        size = float(np.abs(scores.astype(np.float64)).max())
        found = expected(chain, question, scores)
        limits.append(found + outwards * chain.relative_error * size)
    return Interval(*limits)
