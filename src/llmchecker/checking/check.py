"""The check of a query on a scored tree: value, bounds and witnesses."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from llmchecker.checking import bounds, storm, witnesses
from llmchecker.checking.answer import Answer, select_trivial_interval
from llmchecker.checking.bounded_value import check_chain, measure_chain
from llmchecker.checking.ending_masses import measure_endings
from llmchecker.checking.interval import Interval
from llmchecker.checking.markov import dtmc
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.query import Query
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.trees.text_tree import TextTree


def check_query(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, ScoreRange],
    seconds_before: float = 0.0,
) -> Answer:
    """Check a query: its value, its bounds for the whole model, and its witnesses.

    If only the computation of the bounds fails, the answer keeps the value. Its bounds are then
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
    seconds = seconds_before + time.monotonic() - start_time
    sums = None
    if find_path_formulas(query):
        sums = TreeSums(tree, scores, ranges, is_whole_model=False)
    answer = check_chain(chain, query, seconds, tree.truncation.length, sums)
    answer = replace(answer, endings=measure_endings(tree))
    answer = answer.with_bounds(*_compute_bounds(tree, scores, query, ranges))
    texts = witnesses.find_witnesses(tree, chain, query, score_ranges=ranges)
    return answer.with_witnesses(texts)


def bound_query(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, ScoreRange],
) -> Answer:
    """Bound a query on a tree that was explored for its bounds.

    The answer has no value, since no alpha and k belong to such a tree.

    Args:
        tree, scores, query, ranges: as in `check_query`.

    Raises:
        InvalidTree: as in `check_query`.
        ImpossibleCondition: as in `check_query`.
    """
    certain, note = _compute_bounds(tree, scores, query, ranges)
    return Answer(
        query=query,
        horizon=tree.truncation.length,
        certain=certain,
        notes=() if note is None else (note,),
        versions=storm.VERSIONS,
    )


def add_texts(
    answer: Answer,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    ranges: Mapping[str, ScoreRange],
    seconds_before: float,
    truth: np.ndarray | None,
) -> Answer:
    """Add the sizes of an explored tree and the witnesses for the whole model to an answer.

    Args:
        answer: an answer with bounds.
        tree, scores, ranges, seconds_before: as in `check_query`.
        truth: as in `witnesses.find_witnesses`.
    """
    start_time = time.monotonic()
    chain = dtmc.build_dtmc(tree, scores)
    seconds = seconds_before + time.monotonic() - start_time
    sizes = measure_chain(chain, answer.query)
    texts = witnesses.find_witnesses(
        tree, chain, answer.query, score_ranges=ranges, is_whole_model=True, truth=truth
    )
    return replace(answer, costs=replace(sizes, encode_seconds=seconds), witnesses=texts)


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
        return select_trivial_interval(query), f"the bounds say nothing: {error}"
