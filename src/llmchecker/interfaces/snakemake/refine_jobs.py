"""The job of building the refined trees of a model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmchecker.checking.anytime.budget import RefinementBudget
from llmchecker.checking.anytime.stored_trees import build_refined_tree
from llmchecker.config.plan import quantifiers_in
from llmchecker.interfaces.snakemake.check_params import parse_tree
from llmchecker.interfaces.snakemake.model_params import parse_start
from llmchecker.properties.registry import create_quantifier
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import _Stopwatch

_log = logging.getLogger(__name__)


def refine_trees(
    grower: TreeBuilder,
    trees: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Mapping[str, Any]],
    paths: Sequence[str],
    work: _Stopwatch,
) -> None:
    """Build trees that narrow the bounds of their queries.

    Args:
        grower: the tree builder of the model.
        trees: trees in the form of `describe_tree`, each with the `text` of its start string.
        settings: the settings of the quantifiers, by name.
        paths: the file of each tree.
        work: the stopwatch of the job.
    """
    for params, path in zip(trees, paths, strict=True):
        tree = parse_tree(params)
        refinement = tree.truncation
        # Queries may share quantifiers; each is created once for a tree.
        names = sorted({name for query in refinement.queries for name in quantifiers_in(query)})
        _, growth = build_refined_tree(
            grower.with_decoding(tree.decoding),
            path,
            parse_start(params["text"]),
            refinement.queries,
            refinement.length,
            {name: create_quantifier(name, settings[name]) for name in names},
            RefinementBudget(refinement.width, refinement.passes),
        )
        work.seconds += growth.seconds
        _log.info("%s: %s", tree, growth)
