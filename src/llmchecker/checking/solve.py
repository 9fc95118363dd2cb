"""One query on one scored tree: the value, the bounds for the whole model, and the evidence."""

import time
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from llmchecker.chains import chaos, markov_chain
from llmchecker.checking import evidence, storm, whole_model
from llmchecker.checking.verdicts import Verdict
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
    verdict = storm.check_chain(chain, query, seconds_before + time.monotonic() - began)
    process = chaos.complete(tree, scores, query, ranges)
    verdict = verdict.bounded(whole_model.bounds(process, query))
    return verdict.with_witnesses(map(asdict, evidence.witnesses(tree, chain, query)))
