"""The tree cache of the command line: load a tree, or build it.

The workflow or a command builds a tree once. The record of a tree contains the model, the code and
the settings of the build. A tree of another model, dtype or end of sequence is therefore not used.
"""

import logging
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.models import ModelConfig
from llmchecker.config.opening import open_tree_builder
from llmchecker.config.plan import TreeSpec
from llmchecker.config.registry import Registry
from llmchecker.errors import InvalidTree
from llmchecker.models.decoding.chat_template import Start
from llmchecker.trees.text_tree import TextTree, Truncation
from llmchecker.utils import job_logging


def load_or_build_tree(
    registry: Registry, model: ModelConfig, prompt: Start, truncation: Truncation
) -> tuple[TextTree, Path, float]:
    """Load the tree of a prompt from the workflow or from the cache, or build it.

    Returns:
        The tree, its file, and the seconds of its expansion in this run; 0 for one of the cache.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory of the model holds a model from another source.
        UnusableModel: the model cannot be loaded.
    """
    builder = open_tree_builder(model, registry.expansion)
    # Names of start strings in a config contain no _, so this folder is not one of theirs.
    fingerprint = builder.compute_fingerprint(prompt, truncation)
    cache_path = _tree_path(model, truncation, f"text_{fingerprint[:16]}")
    # The workflow names the folder of a tree after its start string in the config.
    starts = registry.start_strings.items()
    names = [name for name, start in starts if start == prompt]
    for path in (*(_tree_path(model, truncation, name) for name in names), cache_path):
        if builder.is_cached(path, prompt, truncation):
            try:
                tree = TextTree.read(path)
            # A damaged tree is built again instead of ending the command.
            except InvalidTree as error:
                logging.info("not using %s: %s", path, error)
                continue
            logging.info("read the tree from %s", path)
            return tree, path, 0.0
    logging.info("growing the tree of %s: %s", model.name, truncation)
    with job_logging.show_status() as status:
        progress = job_logging.build_node_progress(status)
        tree, growth = builder.build(cache_path, prompt, truncation, progress)
    return tree, cache_path, growth.seconds


def _tree_path(model: ModelConfig, truncation: Truncation, folder: str) -> Path:
    """Return the path of a tree in a folder of its model."""
    return Path(paths.tree_file(TreeSpec(model.name, folder, truncation)))
