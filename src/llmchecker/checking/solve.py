"""One query on one scored tree: the value, the bounds for the whole model, and the evidence."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from llmchecker.chains import markov_chain
from llmchecker.checking import evidence, whole_model
from llmchecker.checking.bounded_process import check_chain
from llmchecker.checking.verdicts import Verdict
from llmchecker.errors import CheckFailed
from llmchecker.queries.query import Query
from llmchecker.queries.valuations import Range
from llmchecker.trees.text_tree import TextTree


def solve(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, Range],
    seconds_before: float = 0.0,
) -> Verdict:
    """Answer a query in all that this package knows of it.

    Where only the bounds fail the value is kept, and the bounds are those of which every answer is
    within, with a note.

    Args:
        scores: (n,) integers for each quantifier of the query, by name.
        ranges: the declared range of each of them.
        seconds_before: what growing and scoring took, which is part of encoding.

    Raises:
        InvalidTree: a text scores outside the range of its quantifier, or is not finished.
        CheckFailed: there is no value; the message says why.
    """
    began = time.monotonic()
    chain = markov_chain.build(tree, scores)
    verdict = check_chain(chain, query, seconds_before + time.monotonic() - began)
    try:
        interval = whole_model.bounds(tree, scores, query, ranges)
    except CheckFailed as error:
        interval = whole_model.unbounded(query, f"the bounds say nothing: {error}")
    verdict = verdict.bounded(interval)
    return verdict.with_witnesses(map(asdict, evidence.witnesses(tree, chain, query)))
