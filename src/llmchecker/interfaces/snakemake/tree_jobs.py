"""The jobs of building a model's trees, shards and top-k statistics."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llmchecker.models.sources.prompt_set import read_prompts
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.growth_forecast import GrowthLimits
from llmchecker.trees.shards import Shard
from llmchecker.trees.top_k_mass import load_or_compute_masses
from llmchecker.utils.job_logging import Stopwatch, build_node_progress, build_status_log

_log = logging.getLogger(__name__)


def build_growth_limits(expansion: Mapping[str, Any], mem_mb: int) -> GrowthLimits:
    """Build the limits of each tree.

    Args:
        expansion: the section of the configuration, with `most_states` and `most_hours`.
        mem_mb: memory of the job in MB.
    """
    seconds = float(expansion["most_hours"]) * 3600
    return GrowthLimits(int(expansion["most_states"]), seconds, mem_mb * 10**6)


def grow_trees(
    grower: TreeBuilder, trees: Iterable[Mapping[str, Any]], paths: Sequence[str], work: Stopwatch
) -> None:
    """Build the trees of a model, or merge their shards, unless they are current.

    Args:
        grower: the tree builder of the model.
        trees: the name, start, truncation, decoding and shards of each tree, by these keys.
        paths: the file of each tree.
        work: the stopwatch of the job.
    """
    for tree, path in zip(trees, paths, strict=True):
        start, truncation = tree["start"], tree["truncation"]
        builder = grower.with_decoding(tree["decoding"])
        # The job covers all trees of a model, which may include current ones.
        if builder.is_cached(path, start, truncation):
            _log.info("%s: kept", tree["name"])
            continue
        if tree["shards"]:
            with work():
                _, growth = builder.merge(path, start, tree["shards"])
        else:
            _, growth = builder.build(path, start, truncation, _log_nodes(tree["name"]))
            work.seconds += growth.seconds
        _log.info("%s: %s", tree["name"], growth)


def grow_shard(
    grower: TreeBuilder, tree: Mapping[str, Any], shard: Shard, path: str, work: Stopwatch
) -> None:
    """Build one shard of a tree, whose keys are those of `grow_trees`."""
    name = f"{tree['name']}, {shard}"
    builder = grower.with_decoding(tree["decoding"])
    _, growth = builder.build(path, tree["start"], tree["truncation"], _log_nodes(name), shard)
    work.seconds += growth.seconds
    _log.info("%s: %s", name, growth)


def _log_nodes(name: str) -> Callable[[int, int, int], None]:
    return build_node_progress(build_status_log(name))


def store_masses(
    grower: TreeBuilder, prompts: str, topk: Mapping[str, Any], work: Stopwatch
) -> None:
    """Compute and store the top-k statistics with the loaded model.

    The job of the statistics then does not load the model again.

    Args:
        grower: the tree builder of the model.
        prompts: the file of the prompts.
        topk: the section `topk` of the configuration, with `column` and `maximum_k`.
        work: the stopwatch of the job.
    """
    try:
        _, seconds = load_or_compute_masses(
            grower.lazy_model,
            grower.cache,
            read_prompts(prompts, topk["column"]),
            topk["maximum_k"],
        )
        work.seconds += seconds
    # The trees are complete, and an error here must not discard them. The job of the top-k
    # statistics raises the same error and reports it.
    except Exception as error:
        _log.warning("not asked for the top-k statistics: %s", error)
