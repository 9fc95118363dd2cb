"""The check of a query on a scored tree: value, bounds and witnesses."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from llmchecker.checking import bounds, storm, witnesses
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.interval import Interval
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
    *,
    is_whole_model: bool = False,
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
        is_whole_model: whether the witnesses are those of the whole model, and not of the bounded
            process (see `witnesses.find_witnesses`).

    Raises:
        InvalidTree: a score is outside the range of its quantifier, or a text is not finished.
        ImpossibleCondition: no text of the model can satisfy the condition of a conditional.
        CheckFailed: the query has no value; the message contains the reason.
    """
    start_time = time.monotonic()
    chain = dtmc.build_dtmc(tree, scores)
    verdict = check_chain(chain, query, seconds_before + time.monotonic() - start_time)
    verdict = verdict.with_bounds(*_compute_bounds(tree, scores, query, ranges))
    texts = witnesses.find_witnesses(
        tree, chain, query, score_ranges=ranges, is_whole_model=is_whole_model
    )
    return verdict.with_witnesses(map(asdict, texts))


def bound_query(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, ScoreRange],
) -> Verdict:
    """Bound a query for the whole model; the verdict has no value and no witnesses.

    Args:
        tree, scores, query, ranges: as in `check_query`.

    Raises:
        InvalidTree: as in `check_query`.
        ImpossibleCondition: as in `check_query`.
    """
    verdict = Verdict.without_process(query.text, storm.VERSIONS)
    return verdict.with_bounds(*_compute_bounds(tree, scores, query, ranges))


def _compute_bounds(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, ScoreRange],
) -> tuple[Interval, str | None]:
    """Compute the bounds of a query; trivial bounds with the reason if that fails."""
    try:
        return bounds.compute_bounds(tree, scores, query, ranges)
    # a kind of CheckFailed, but no answer exists that trivial bounds could contain
    except ImpossibleCondition:
        raise
    # a value or an estimate is correct without the bounds, so a failure must not discard it
    except CheckFailed as error:
        return bounds.select_trivial_interval(query), f"the bounds say nothing: {error}"
