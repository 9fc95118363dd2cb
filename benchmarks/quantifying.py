"""Cost of scoring the texts of a tree, and one text with each token of a vocabulary."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from llmchecker.properties import scores
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import create_quantifier
from llmchecker.trees.text_tree import StateKind, TextTree

START = "The player won because"
TEXT = START + " he was the best"

DEFINITIONS = {
    "{name}.{model}.texts_per_second": "texts scored a second on one core, on the largest tree of "
    "the model, in a process in which the quantifier has scored none before; imports and reading "
    "the tree excluded",
    "{name}.texts_per_second": "the smallest of these",
    "{name}.{model}.vocabulary_texts_per_second": "the same where every token of the model follows "
    "one text",
    "{name}.vocabulary_texts_per_second": "the smallest of these",
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
    number = int((texts.kind != StateKind.REST).sum())
    return {
        name: number / _seconds(create_quantifier(name, settings), texts)
        for name, settings in quantifiers.items()
    }


def of_vocabulary_per_second(
    quantifiers: Mapping[str, Mapping[str, Any] | None], model: Path
) -> dict[str, float]:
    """Score a text with each token of a model after it, with each quantifier, in a new process.

    Args:
        quantifiers: settings by name, as in the configuration.
        model: its directory.
    """
    tokenizer = AutoTokenizer.from_pretrained(model)
    before = tokenizer(TEXT)["input_ids"]
    texts = tokenizer.batch_decode(
        [[*before, token] for token in range(len(tokenizer))], skip_special_tokens=True
    )
    rates = {}
    for name, settings in quantifiers.items():
        quantifier = create_quantifier(name, settings)
        quantifier("", "")  # imports what it needs
        began = time.perf_counter()
        scores.score_texts(quantifier, START, texts)
        rates[name] = len(texts) / (time.perf_counter() - began)
    return rates


def _seconds(quantifier: Quantifier, tree: TextTree) -> float:
    quantifier("", "")  # imports what it needs
    began = time.perf_counter()
    scores.score_tree(quantifier, tree)
    return time.perf_counter() - began
