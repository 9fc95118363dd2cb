"""The value of a query: the answer of the bounded process itself, in which `rest` is terminal."""

import time

import numpy as np

from llmchecker.chains.markov_chain import MarkovChain
from llmchecker.checking import storm
from llmchecker.checking.satisfaction import SMALLEST_NORMAL, Satisfaction
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import CheckFailed
from llmchecker.queries.formulas import Conditional, Connective, Expectation, Formula, Probability
from llmchecker.queries.query import Query

UNDECIDED_VALUE = (
    "the value is unknown: a probability lies within rounding of the threshold it is held to"
)
"""The note of a verdict whose value nobody can tell."""


def check_chain(chain: MarkovChain, query: Query, encode_seconds: float = 0.0) -> Verdict:
    """Answer a query on a chain, and measure the chain and the time.

    Args:
        chain: the bounded process.
        query: what is asked.
        encode_seconds: what the chain took to make, for the verdict.

    Raises:
        UnknownName: the query names a variable that the chain does not have.
        CheckFailed: there is no answer; the message says why.
    """
    full = chain.explored(np.zeros(len(chain), dtype=bool))
    explored = chain.explored(chain.satisfying(query.decided))
    began = time.perf_counter()
    with storm.reported(CheckFailed, f"cannot answer the query {query.text}"):
        value = _value(chain, query)
    return Verdict(
        query=query.text,
        value=value,
        states=full.states,
        transitions=full.transitions,
        states_explored=explored.states,
        transitions_explored=explored.transitions,
        encode_seconds=encode_seconds,
        check_seconds=time.perf_counter() - began,
        versions=storm.VERSIONS,
        notes=(UNDECIDED_VALUE,) if value is None else (),
    )


def _value(chain: MarkovChain, query: Query) -> float | bool | None:
    """The value, or None where rounding leaves it open."""
    if isinstance(query.root, Expectation):
        return expected(chain, query.root, chain.scores(query.root.quantifier))
    satisfaction = Satisfaction(chain.process(query))
    match query.root:
        case Conditional(path, given):
            return _conditional(satisfaction, query, path, given)
        case Probability(_, None, path):
            value = satisfaction.probabilities(path, least=True).values[0].item()
            if not satisfaction.leaves_open(path):
                return value
            other = satisfaction.probabilities(path, least=False).values[0].item()
            return value if value == other else None
    surely, perhaps = (satisfaction.satisfying(query.root, side)[0] for side in (True, False))
    return bool(surely) if surely == perhaps else None


def expected(chain: MarkovChain, question: Expectation, scores: np.ndarray) -> float:
    """The expected score after the number of steps that the question names.

    Args:
        chain: the bounded process.
        question: names the number of steps.
        scores: (n,) float64 or int64, the score of each state.
    """
    name = question.quantifier
    model = storm.model(chain.transitions, {}, {name: scores.astype(np.float64)})
    return storm.values(model, f'R{{"{name}"}}=? [ I={question.step} ]')[0].item()


def _conditional(
    satisfaction: Satisfaction, query: Query, path: Formula, given: Formula
) -> float | None:
    if satisfaction.leaves_open(path) or satisfaction.leaves_open(given):
        return None
    whole, both, other = (
        satisfaction.probabilities(asked, True)
        for asked in (
            given,
            Connective("&", (path, given)),
            Connective("&", (Connective("!", (path,)), given)),
        )
    )
    if whole.impossible[0]:
        problem = "what stands behind || has probability 0 in the bounded process"
        raise CheckFailed(f"the query {query.text} has no answer: {problem}")
    if both.impossible[0] or other.impossible[0]:
        return float(other.impossible[0])
    if whole.values[0] < SMALLEST_NORMAL:
        problem = "what stands behind || has a probability too small for float64"
        raise CheckFailed(f"the query {query.text} has no answer: {problem}")
    # the quotient of two nearly equal probabilities may be rounded to more than 1
    return min((both.values[0] / whole.values[0]).item(), 1.0)
