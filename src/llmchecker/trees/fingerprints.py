"""What a result depends on, as one short text: equal fingerprints mean equal results.

Files enter by their content: a result is found again after files were copied or fetched anew. The
code that makes a result enters too: the result of other code is never taken for it.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llmchecker.deployed.chat import Start, start_as_json
from llmchecker.deployed.decoding import Asked, decoding_as_json
from llmchecker.files import sha256_of
from llmchecker.serving.settings import SERVER
from llmchecker.trees.text_tree import Truncation

ANSWERING = (
    "deployed/chat.py",
    "deployed/decoding.py",
    "deployed/logits.py",
    "loading/measuring.py",
    "loading/models.py",
    "models/batches.py",
    "models/causal.py",
    "models/distributions.py",
    "models/masked.py",
    "models/pieces.py",
    "models/positions.py",
    "models/transformer.py",
    "models/whole_texts.py",
    "trees/selection.py",
)
"""Modules that determine what a model answers."""

ASKING_SERVERS = (
    "loading/tokenizers.py",
    "serving/client.py",
    "serving/connecting.py",
    "serving/dialects.py",
    "serving/heads.py",
    "serving/served.py",
    "serving/settings.py",
    "serving/writing.py",
)
"""Modules that determine what is taken from a server's answers, besides those that select."""

GROWING = (*ANSWERING, "trees/expansion.py", "trees/shards.py")
"""Modules that determine a tree."""


def of_model(
    files: Mapping[str, str], kind: str, dtype: str, device: str, decoding: Asked = None
) -> str:
    """A fingerprint of all that determines a model's answers to the last bit.

    The processor and the libraries are part of it, because they determine the order in which
    products are added.

    Args:
        files: the sha256 of every file of the model by name.
        kind, dtype, device: as in `load_model`.
        decoding: how next tokens are chosen.
    """
    return _hash(
        dict(files),
        [kind, dtype, device, processor(), decoding_as_json(decoding)],
        [version(package) for package in ("torch", "transformers", "tokenizers")],
        _code(ANSWERING),
        _code(_asking(files)),
    )


def of_tree(
    files: Mapping[str, str],
    kind: str,
    dtype: str,
    start: Start,
    truncation: Truncation,
    end_of_sequence: str,
    decoding: Asked = None,
) -> str:
    """A fingerprint of all that determines a tree, but for the last bits of its probabilities.

    A tree may have been grown on another machine.

    Args:
        files: the sha256 of every file of the model by name.
        decoding: how next tokens are chosen.
    """
    chosen = decoding_as_json(decoding)
    cut = [truncation.alpha, truncation.k, truncation.length]
    asked = [kind, dtype, start_as_json(start), *cut, end_of_sequence]
    return _hash(dict(files), asked, chosen, _code(GROWING), _code(_asking(files)))


def of_refined_tree(model: str, start: Start, end_of_sequence: str, refinement: str) -> str:
    """A fingerprint of what a tree depends on that is refined, but for the code that refines it.

    Args:
        model: the fingerprint `of_model`.
        refinement: the queries and limits in words that no other queries and limits have.
    """
    return _hash([model, start_as_json(start), end_of_sequence, refinement])


def of_masses(model: str, prompts: Sequence[str], k: int) -> str:
    """A fingerprint of all that determines the masses within 1 to k tokens after some prompts.

    Args:
        model: the fingerprint `of_model`.
    """
    return _hash([model, list(prompts), k], _code(("trees/topk.py",)))


def _asking(files: Mapping[str, str]) -> Sequence[str]:
    """The modules that ask a server, if one answers for the model that has these files."""
    return ASKING_SERVERS if SERVER in files else ()


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
