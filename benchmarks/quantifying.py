"""What scoring the texts of a tree costs."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.quantifiers import scores
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.quantifiers.registry import create
from llmchecker.trees.text_tree import Kind, TextTree

DEFINITIONS = {
    "{name}.{model}.texts_per_second": "texts scored a second on one core, on the largest tree of "
    "the model, in a process in which the quantifier has scored none before; imports and reading "
    "the tree excluded",
    "{name}.texts_per_second": "the smallest of these",
}
"""What each figure `quantify.…` is."""


def texts_per_second(
    quantifiers: Mapping[str, Mapping[str, Any] | None], tree: Path
) -> dict[str, float]:
    """Score the texts of a tree with each quantifier, in a new process: they remember words.

    Args:
        quantifiers: settings by name, as in the configuration.
        tree: a file that `TextTree.write` wrote.
    """
    texts = TextTree.read(tree)
    number = int((texts.kind != Kind.REST).sum())
    return {
        name: number / _seconds(create(name, settings), texts)
        for name, settings in quantifiers.items()
    }


def _seconds(quantifier: Quantifier, tree: TextTree) -> float:
    quantifier("", "")  # imports what it needs
    began = time.perf_counter()
    scores.score_tree(quantifier, tree)
    return time.perf_counter() - began
