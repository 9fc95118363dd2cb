"""Answering one query on one scored tree: the value, the bounds, and the evidence."""

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
    """Answer a query: its value, bounds for the whole model, and the texts that decide it.

    Where only the bounds fail, the verdict keeps the value. Its bounds are then those that hold for
    every answer, with a note that says why.

    Args:
        tree: the bounded process.
        scores: (n,) integers for each quantifier of the query, by name.
        query: what is asked.
        ranges: the declared range of each of these quantifiers.
        seconds_before: how long growing and scoring took, which counts as encoding.

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
