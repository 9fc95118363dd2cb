"""One query on one scored tree: the value, the bounds for the whole model, and the evidence."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from llmchecker import bounding, chaos, evidence, markov_chain, storm
from llmchecker.properties import Query
from llmchecker.text_tree import TextTree
from llmchecker.valuations import Range
from llmchecker.verdicts import Verdict


def solve(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    ranges: Mapping[str, Range],
    seconds_before: float = 0.0,
) -> Verdict:
    """Answer a query in all that this package knows of it.

    Args:
        scores: (n,) integers for each quantifier of the query, by name.
        ranges: the declared range of each of them.
        seconds_before: what growing and scoring took, which is part of encoding.

    Raises:
        InvalidQuery: Storm does not read the query.
        CheckFailed: Storm gave no answer.
    """
    began = time.monotonic()
    chain = markov_chain.build(tree, scores)
    verdict = storm.check(chain, query, seconds_before + time.monotonic() - began)
    process = chaos.complete(tree, scores, query, ranges)
    verdict = verdict.bounded(bounding.bounds(process, query))
    return verdict.with_witnesses(map(asdict, evidence.witnesses(tree, chain, query)))
