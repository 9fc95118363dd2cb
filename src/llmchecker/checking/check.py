"""The check of a query on a scored tree: value, bounds and witnesses."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmchecker.checking import bounds, witnesses
from llmchecker.checking.answer import Answer, select_trivial_interval
from llmchecker.checking.bounded_value import check_chain, measure_chain
from llmchecker.checking.endings import measure_endings
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import CheckFailed, ImpossibleCondition
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.logic.query import Query
from llmchecker.utils.interval import Interval


def check_query(
    scored: ScoredTree, query: Query, seconds_before: float = 0.0, notes: Sequence[str] = ()
) -> Answer:
    """Check a query: its value, its bounds for the whole model, and its witnesses.

    If only the computation of the bounds fails, the answer keeps the value. Its bounds are then
    the trivial bounds, which hold for every answer, with a note that gives the reason.

    Args:
        scored: the bounded process, with the ranges of the query's quantifiers.
        query: the parsed query.
        seconds_before: seconds to build and score the tree, which count as encoding.
        notes: further notes of the answer, as on its judges.

    Raises:
        InvalidTree: a score is outside the range of its quantifier.
        ImpossibleCondition: no text of the model can satisfy the condition of a conditional.
        CheckFailed: the query has no value; the message contains the reason.
    """
    sums, start_time = None, time.monotonic()
    if find_path_formulas(query):
        sums = TreeSums(scored, is_whole_model=False)
    else:
        # sums need no matrix, and building that of Storm is no part of the check
        _ = scored.transitions
    seconds = seconds_before + time.monotonic() - start_time
    answer = check_chain(scored, query, seconds, sums)
    certain, bound_notes = _compute_bounds(scored, query)
    return replace(
        answer,
        endings=measure_endings(scored.tree),
        certain=certain,
        # notes on the value have other reasons than those on the bounds
        notes=(*answer.notes, *bound_notes, *notes),
        witnesses=witnesses.find_witnesses(scored, query),
    )


def add_texts(
    answer: Answer, scored: ScoredTree, seconds_before: float, truth: np.ndarray | None
) -> Answer:
    """Add the sizes of an explored tree and the witnesses for the whole model to an answer.

    Args:
        answer: an answer with bounds.
        scored, seconds_before: as in `check_query`.
        truth: as in `witnesses.find_witnesses`.
    """
    texts = witnesses.find_witnesses(scored, answer.query, is_whole_model=True, truth=truth)
    costs = replace(measure_chain(scored, answer.query), encode_seconds=seconds_before)
    return replace(answer, costs=costs, witnesses=texts)


def _compute_bounds(scored: ScoredTree, query: Query) -> tuple[Interval, tuple[str, ...]]:
    """Compute the bounds of a query and notes; trivial bounds with the reason if that fails."""
    try:
        certain, note = bounds.compute_bounds(scored, query)
        return certain, () if note is None else (note,)
    # a kind of CheckFailed, but no answer exists that trivial bounds could contain
    except ImpossibleCondition:
        raise
    # a value or an estimate is correct without the bounds, so a failure must not discard it
    except CheckFailed as error:
        return select_trivial_interval(query), (f"the bounds say nothing: {error}",)
