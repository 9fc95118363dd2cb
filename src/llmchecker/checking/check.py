"""The check of a query on a scored tree: value, bounds and witnesses."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from llmchecker.checking import bounds, witnesses
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.markov import dtmc
from llmchecker.checking.verdict import Verdict
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.trees.text_tree import TextTree


def check_query(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, ScoreRange],
    seconds_before: float = 0.0,
) -> Verdict:
    """Check a query: its value, its bounds for the whole model, and its witnesses.

    If only the computation of the bounds fails, the verdict keeps the value. Its bounds are then
    the trivial bounds, which hold for every answer, with a note that gives the reason.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier of the query, by name.
        query: the parsed query.
        ranges: the declared range of each of these quantifiers.
        seconds_before: seconds to build and score the tree, which count as encoding.

    Raises:
        InvalidTree: a score is outside the range of its quantifier, or a text is not finished.
        ImpossibleCondition: no text of the model can satisfy the condition of a conditional.
        CheckFailed: the query has no value; the message contains the reason.
    """
    start_time = time.monotonic()
    chain = dtmc.build_dtmc(tree, scores)
    verdict = check_chain(chain, query, seconds_before + time.monotonic() - start_time)
    try:
        interval = bounds.compute_bounds(tree, scores, query, ranges)
    # a kind of CheckFailed, but no answer exists that trivial bounds could contain
    except ImpossibleCondition:
        raise
    # the value is correct without the bounds, so a failure here must not discard it
    except CheckFailed as error:
        interval = bounds.build_trivial_interval(query, f"the bounds say nothing: {error}")
    verdict = verdict.with_bounds(interval)
    return verdict.with_witnesses(map(asdict, witnesses.find_witnesses(tree, chain, query)))
