"""The tree of a task: a kept one from before, or a new one that is kept for the next time.

A tree is grown once, by the workflow or here. Its record tells with which model, code and settings
it was grown. So a tree of another model, dtype or end of sequence is never mistaken for the right
one.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from llmchecker import logs
from llmchecker.cli.question import Task
from llmchecker.config import paths
from llmchecker.errors import InvalidTree
from llmchecker.serving.connecting import require_source
from llmchecker.trees.grower import Grower
from llmchecker.trees.store import DistributionStore
from llmchecker.trees.text_tree import TextTree


@dataclass(frozen=True)
class KeptTree:
    """A tree and the file that holds it.

    Attributes:
        tree: the tree.
        path: the file.
        seconds: the time that growing took in this run; 0 if the tree was kept from before.
    """

    tree: TextTree
    path: Path
    seconds: float


def tree_of(task: Task) -> KeptTree:
    """The tree of a task: the workflow's, one that was grown here before, or a new one.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory of the model holds a model from another source.
        UnusableModel: the model cannot be loaded.
    """
    grower = grower_of(task)
    # The names of start strings in a config have no _, so this folder is never one of theirs.
    own = task.tree_path(f"text_{grower.fingerprint(task.start, task.truncation)[:16]}")
    names = [name for name, text in task.config.start_strings.items() if text == task.start]
    for path in (*map(task.tree_path, names), own):
        if grower.has_grown(path, task.start, task.truncation):
            try:
                tree = TextTree.read(path)
            except InvalidTree as error:
                logging.info("not using %s: %s", path, error)
                continue
            logging.info("read the tree from %s", path)
            return KeptTree(tree, path, 0.0)
    logging.info("growing the tree of %s: %s", task.model.name, task.truncation)
    with logs.shell_progress(task.model.name, task.truncation.length) as progress:
        tree, growth = grower.grow(own, task.start, task.truncation, progress)
    return KeptTree(tree, own, growth.seconds)


def grower_of(task: Task) -> Grower:
    """The grower of trees of the task's model. The model is fetched if it is absent.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory of the model holds a model from another source.
    """
    lock = Path(paths.model_lock(task.model.name))
    require_source(task.model.source, task.model_directory, lock)
    settings = task.config.expansion
    return Grower(
        directory=task.model_directory,
        kind=task.model.kind,
        dtype=task.model.dtype,
        device=task.model.device,
        threads=settings.threads or len(os.sched_getaffinity(0)),
        memory_bytes=settings.memory_bytes,
        end_of_sequence=settings.end_of_sequence,
        store=DistributionStore(Path(paths.STORE_DIRECTORY), settings.store_bytes),
        decoding=task.model.decoding,
        limits=settings.limits(task.model.mem_mb),
    )
