"""The value of a query on the bounded process, in which `rest` is terminal."""

import time
from dataclasses import replace

import numpy as np

from llmchecker.checking import storm
from llmchecker.checking.answer import Answer, Costs, select_trivial_interval
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.probabilities import Evaluator
from llmchecker.checking.satisfaction import ROOT, Satisfaction
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import CheckFailed
from llmchecker.properties.logic.ast import (
    Conditional,
    Connective,
    Expectation,
    Formula,
    Probability,
)
from llmchecker.properties.logic.query import Query

_UNDECIDED_VALUE_NOTE = (
    "the value is unknown: a probability lies within rounding of the threshold it is held to"
)
"""The note of an answer whose value is unknown because of rounding."""
NO_CONDITION_NOTE = "the bounded process has no value: the condition has probability 0 there"
"""The note of a conditional whose condition has probability 0."""
_SMALL_CONDITION_NOTE = (
    "the value is unknown: the probability of the condition is too small for float64"
)
"""The note of a conditional whose quotient would have no correct digits."""


def check_chain(
    scored: ScoredTree,
    query: Query,
    encode_seconds: float = 0.0,
    sums: TreeSums | None = None,
) -> Answer:
    """Compute a query's value on the bounded process, and measure the chain and the time.

    The answer has no bounds yet: its certain interval is the trivial one.

    Args:
        scored: the bounded process.
        query: the parsed query.
        encode_seconds: seconds that the construction of the chain took.
        sums: the sums over the texts of the bounded process, for a query with path formulas that
            single texts decide; None to compute the value by Storm.

    Raises:
        UnknownName: the query names a variable that the chain does not have.
        CheckFailed: Storm gave no answer; the message contains the reason.
    """
    sizes = measure_chain(scored, query)
    start_time = time.perf_counter()
    value: float | bool | None
    with storm.translate_errors(CheckFailed, f"cannot answer the query {query.text}"):
        if isinstance(query.root, Expectation):
            scores = scored.find_scores(query.root.quantifier)
            value, note = compute_expected_score(scored, query.root, scores), None
        else:
            evaluator = Satisfaction(scored.build_process(query)) if sums is None else sums
            value, note = evaluate_value(evaluator, query)
    return Answer(
        query=query,
        horizon=scored.tree.truncation.length,
        certain=select_trivial_interval(query),
        bounded=value,
        notes=() if note is None else (note,),
        costs=replace(
            sizes,
            encode_seconds=encode_seconds,
            check_seconds=time.perf_counter() - start_time,
        ),
        versions=storm.VERSIONS,
    )


def measure_chain(scored: ScoredTree, query: Query) -> Costs:
    """Measure the reachable part of a chain, and the part that Storm's front end explores.

    Raises:
        UnknownName: the query names a variable that the tree does not have.
    """
    scored.check_variables(query.variables)
    # with no state to stop at, this is the whole reachable part
    full_size = scored.count_explored(np.zeros(len(scored), dtype=bool))
    # Storm's front end stops where the query is decided; `crosscheck` compares these sizes
    return Costs(*full_size, *scored.count_explored(scored.evaluate(query.stop_formula)))


def evaluate_value(evaluator: Evaluator, query: Query) -> tuple[float | bool | None, str | None]:
    """Compute the value of a query without an expected score.

    Args:
        evaluator: an evaluator of the bounded process.
        query: the parsed query.

    Returns:
        The value without a note, or None and a note that gives the reason.
    """
    match query.root:
        case Conditional(path, condition):
            return _compute_conditional(evaluator, path, condition)
        case Probability(_, None, path):
            minimum = evaluator.compute_probabilities(path, minimize=True).values[0].item()
            if not evaluator.is_three_valued(path):
                return minimum, None
            # a nested P within rounding of its threshold is open, so both values must agree
            maximum = evaluator.compute_probabilities(path, minimize=False).values[0].item()
            return (minimum, None) if minimum == maximum else (None, _UNDECIDED_VALUE_NOTE)
        case Expectation():
            raise AssertionError(query)
        case formula:
            # rounding leaves the answer open if the query may hold without surely holding
            surely, possibly = (evaluator.evaluate(formula, side)[0] for side in (True, False))
            return (bool(surely), None) if surely == possibly else (None, _UNDECIDED_VALUE_NOTE)


def compute_expected_score(
    scored: ScoredTree, expectation: Expectation, scores: np.ndarray
) -> float:
    """Compute the expected score, or sum of scores, of the steps that the query names.

    Args:
        scored: the bounded process.
        expectation: the expected score, with its number of steps.
        scores: (n,) float64 or int64, the score of each state.
    """
    name = expectation.quantifier
    if expectation.step is None:
        # the last state of every path is reached within the horizon
        expectation = replace(expectation, step=scored.tree.truncation.length)
    # Storm takes rewards as floats only
    model = storm.build_model(scored.transitions, {}, {name: scores.astype(np.float64)})
    query = f'R{{"{name}"}}=? [ {expectation} ]'
    return float(storm.compute_values(model, query, ROOT)[0])


def _compute_conditional(
    evaluator: Evaluator, path: Formula, condition: Formula
) -> tuple[float | None, str | None]:
    if evaluator.is_three_valued(path) or evaluator.is_three_valued(condition):
        return None, _UNDECIDED_VALUE_NOTE
    condition_probability, satisfying, violating = (
        evaluator.compute_probabilities(formula, True)
        for formula in (
            condition,
            Connective("&", (path, condition)),
            Connective("&", (Connective("!", (path,)), condition)),
        )
    )
    if condition_probability.is_zero[0]:
        return None, NO_CONDITION_NOTE
    # the graph shows these zeros, so the quotient is exactly 0 or 1
    if satisfying.is_zero[0] or violating.is_zero[0]:
        return float(violating.is_zero[0]), None
    # a probability within rounding of 0 may have no correct digit
    if condition_probability.low[0] == 0:
        return None, _SMALL_CONDITION_NOTE
    # the quotient of two nearly equal probabilities may be rounded to more than 1
    return min((satisfying.values[0] / condition_probability.values[0]).item(), 1.0), None
