"""What a result depends on, as one short text: equal fingerprints mean equal results.

They name files by content, so that a result is found again when files were copied or fetched anew,
and by the code that makes the result, so that it is not taken for one that other code would make.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llmchecker.files import sha256_of
from llmchecker.trees.text_tree import Truncation

ANSWERING = (
    "models/batches.py",
    "models/causal.py",
    "models/distributions.py",
    "models/loading.py",
    "models/masked.py",
    "models/measuring.py",
    "models/positions.py",
    "models/transformer.py",
    "models/whole_texts.py",
    "trees/selection.py",
)
"""Modules that determine what a model answers."""

GROWING = (*ANSWERING, "trees/expansion.py", "trees/shards.py")
"""Modules that determine a tree."""


def of_model(files: Mapping[str, str], kind: str, dtype: str, device: str) -> str:
    """A fingerprint of all that determines a model's answers to the last bit.

    The processor is part of it, and so are the libraries: they determine the order in which
    products are added.

    Args:
        files: the sha256 of every file of the model by name.
        kind, dtype, device: as in `loading.load_model`.
    """
    return _hash(
        dict(files),
        [kind, dtype, device, processor()],
        [version(package) for package in ("torch", "transformers", "tokenizers")],
        _code(ANSWERING),
    )


def of_tree(
    files: Mapping[str, str],
    kind: str,
    dtype: str,
    start: str,
    truncation: Truncation,
    end_of_sequence: str,
) -> str:
    """A fingerprint of all that determines a tree, but for the last bits of its probabilities.

    A tree may have been grown on another machine.

    Args:
        files: the sha256 of every file of the model by name.
    """
    asked = [kind, dtype, start, truncation.alpha, truncation.k, truncation.length, end_of_sequence]
    return _hash(dict(files), asked, _code(GROWING))


def of_masses(model: str, prompts: Sequence[str], k: int) -> str:
    """A fingerprint of all that determines the masses within 1 to k tokens after some prompts.

    Args:
        model: the fingerprint `of_model`.
    """
    return _hash([model, list(prompts), k], _code(("trees/topk.py",)))


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _code(modules: Sequence[str]) -> dict[str, str]:
    return {name: sha256_of(Path(__file__).parents[1] / name) for name in modules}


def processor() -> str:
    """The processor's name, as Linux and others tell it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
