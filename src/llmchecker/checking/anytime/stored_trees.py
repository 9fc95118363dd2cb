"""Refined trees in files, each with a record of its construction."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llmchecker.checking.anytime.budget import RefinementBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.refinement import RefinementProgress, refine
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.trees import fingerprint
from llmchecker.trees.builder import BuildRecord, TreeBuilder
from llmchecker.trees.text_tree import TextTree


def build_refined_tree(
    builder: TreeBuilder,
    path: str | Path,
    start: Start,
    queries: Sequence[Query],
    length: int,
    quantifiers: Mapping[str, Quantifier],
    budget: RefinementBudget,
    progress: Callable[[RefinementProgress], None] = lambda refining: None,
) -> tuple[TextTree, BuildRecord]:
    """Build a tree for the bounds of the given queries; write it and its record.

    Args:
        builder: the tree builder of the model.
        path: the tree's file.
        start: the start string.
        queries: queries that share the tree.
        length: the horizon L in tokens.
        quantifiers: the quantifiers that the queries name, by name.
        budget: the limits of the refinement.
        progress: called after every batch.
    """
    model = builder.model
    start_time = time.monotonic()
    distributions = builder.open_distributions(start)
    checked_queries = [CheckedQuery(query, quantifiers, length) for query in queries]
    # the tree grows where any of the queries is undecided
    monitors = [monitor for checked_query in checked_queries for monitor in checked_query.monitors]
    tree = refine(
        model,
        distributions.prompt,
        monitors,
        quantifiers,
        budget,
        builder.end_of_sequence,
        progress,
        distributions,
    )
    seconds = time.monotonic() - start_time
    # every input that changes the tree must change its digest
    contents = repr(([query.text for query in queries], length, quantifiers, budget))
    digest = fingerprint.hash_refined_tree(
        builder.model_fingerprint, start, builder.end_of_sequence, contents
    )
    return tree, builder.write_tree(tree, path, digest, distributions.added_count, seconds)
