"""Refined trees in files, each beside a record of how it was grown, as other trees have one."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llmchecker.deciding.asked_paths import readings_of
from llmchecker.deciding.effort import Budget
from llmchecker.deciding.refinement import Refining, refine
from llmchecker.deployed.chat import Start
from llmchecker.quantifiers.quantifier import Quantifier, ranges_of
from llmchecker.queries.query import Query
from llmchecker.trees import fingerprints
from llmchecker.trees.grower import Grower, Growth
from llmchecker.trees.text_tree import TextTree


def grow_refined(
    grower: Grower,
    path: str | Path,
    start: Start,
    queries: Sequence[Query],
    length: int,
    quantifiers: Mapping[str, Quantifier],
    budget: Budget,
    progress: Callable[[Refining], None] = lambda refining: None,
) -> tuple[TextTree, Growth]:
    """Grow a tree for the bounds of some queries; write it and its record.

    Args:
        grower: of the model.
        path: the tree's file.
        start: the start string.
        queries: they share the tree.
        length: the horizon L in tokens.
        quantifiers: those that the queries name, by name.
        budget: when to stop.
        progress: called after every batch.
    """
    model = grower.model
    began = time.monotonic()
    stored = grower.stored(start)
    ranges = ranges_of(quantifiers)
    readings = [part for query in queries for part in readings_of(query, length, ranges)]
    tree = refine(
        model, start, readings, quantifiers, budget, grower.end_of_sequence, progress, stored
    )
    seconds = time.monotonic() - began
    asked = repr(([query.text for query in queries], length, quantifiers, budget))
    fingerprint = fingerprints.of_refined_tree(
        grower.model_fingerprint, start, grower.end_of_sequence, asked
    )
    return tree, grower.record(tree, path, fingerprint, stored.added, seconds)
