"""The tree cache of the command line: load a request's tree, or build it.

The workflow or a command builds a tree once. The record of a tree contains the model, the code and
the settings of the build. A tree of another model, dtype or end of sequence is therefore not used.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from llmchecker.config import paths
from llmchecker.errors import InvalidTree
from llmchecker.interfaces.cli.arguments import CheckRequest
from llmchecker.models.fetch import ensure_model
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils import job_logging


@dataclass(frozen=True)
class CachedTree:
    """A tree and its file.

    Attributes:
        tree: the tree.
        path: the file.
        seconds: duration of the expansion in this run, in seconds; 0 for a tree from the cache.
    """

    tree: TextTree
    path: Path
    seconds: float


def load_or_build_tree(request: CheckRequest) -> CachedTree:
    """Load the tree of a request from the workflow or from the cache, or build it.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory of the model holds a model from another source.
        UnusableModel: the model cannot be loaded.
    """
    builder = create_tree_builder(request)
    # Names of start strings in a config contain no _, so this folder is not one of theirs.
    cache_path = request.tree_path(
        f"text_{builder.compute_fingerprint(request.start, request.truncation)[:16]}"
    )
    # The workflow names the folder of a tree after its start string in the config.
    names = [name for name, text in request.config.start_strings.items() if text == request.start]
    for path in (*map(request.tree_path, names), cache_path):
        if builder.is_cached(path, request.start, request.truncation):
            try:
                tree = TextTree.read(path)
            # A damaged tree is built again instead of ending the command.
            except InvalidTree as error:
                logging.info("not using %s: %s", path, error)
                continue
            logging.info("read the tree from %s", path)
            return CachedTree(tree, path, 0.0)
    logging.info("growing the tree of %s: %s", request.model.name, request.truncation)
    with job_logging.show_progress(request.model.name, request.truncation.length) as progress:
        tree, growth = builder.build(cache_path, request.start, request.truncation, progress)
    return CachedTree(tree, cache_path, growth.seconds)


def create_tree_builder(request: CheckRequest) -> TreeBuilder:
    """Return the tree builder of the request's model, and fetch it if absent.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory of the model holds a model from another source.
    """
    # The directory of the command line is the model itself, and no copy is made.
    if request.directory is None:
        lock = Path(paths.model_lock(request.model.name))
        ensure_model(request.model.source, request.model_directory, lock)
    settings = request.config.expansion
    return TreeBuilder(
        directory=request.model_directory,
        kind=request.model.kind,
        dtype=request.model.dtype,
        device=request.model.device,
        # The command has no scheduler, so by default it uses every core of the process.
        threads=settings.threads or len(os.sched_getaffinity(0)),
        memory_bytes=settings.memory_bytes,
        end_of_sequence=settings.end_of_sequence,
        cache=DistributionCache(Path(paths.STORE_DIRECTORY), settings.max_cache_bytes),
        decoding=request.model.decoding,
        limits=settings.build_limits(request.model.mem_mb),
    )
