"""Bounds for the whole model: the least and the greatest of what a query's value can be.

Storm solves the decision process of `chaos` for the least and the greatest probability. Bounds are
rounded outwards: by as much as float64 can have moved a probability that is computed from the tree
(see `relative_error`), twice over, so that a value computed from the same tree lies within them. A
probability that the graph shows to be 0 or 1 is exact.
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
"""More than three roundings, each by at most half of the distance to the next float."""


def bounds(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    score_ranges: Mapping[str, Range],
) -> Interval:
    """Bound what a query's value is for the whole model, whatever `rest` hides.

    A P inside the query is decided for each state before what it stands in: where it surely holds,
    and where it may hold. The bounds take of the two what makes them wider, so that they are sound,
    though with a nested P not always as narrow as they could be. E is P>0 and A is P>=1.

    An expected score takes in `rest` the limits of the quantifier's range; the value of the bounded
    process, which counts 0 there, lies within these bounds if the range holds 0.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier, by name; what stands in `rest` is not read.
        score_ranges: the declared range of each quantifier that the query names.

    Raises:
        InvalidTree: a text scores outside the range of its quantifier, or is not finished.
        CheckFailed: there is no answer; the message says why.
    """
    with storm.reported(CheckFailed, f"cannot bound the query {query.text}"):
        if isinstance(query.root, Expectation):
            chain = markov_chain.build(tree, scores)
            low, high = score_ranges.get(query.root.quantifier, (None, None))
            return _expected(chain, query, low, high)
        return _bounded(complete(tree, scores, query, score_ranges), query)


def unbounded(query: Query, reason: str) -> Interval:
    """What is certain of a query without looking at any text, and why no more is."""
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
    """Bound P(path & given) / P(given), of which P(given) - P(path & given) = P(!path & given)."""
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
    """Bound an expected score, with what the quantifier's range allows in `rest`.

    A limit of the range is the extreme of what may follow `rest`, at every later step too.
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
