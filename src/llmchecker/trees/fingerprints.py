"""What a result depends on, as one short text: equal fingerprints mean equal results.

They name files by content, so that a result is found again when files were copied or fetched anew,
and by the code that makes the result, so that it is not taken for one that other code would make.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llmchecker.fetching.model_files import PROVENANCE
from llmchecker.files import read_json, sha256_of
from llmchecker.trees.text_tree import Truncation

ANSWERING = (
    "models/batches.py",
    "models/causal.py",
    "models/distributions.py",
    "models/loading.py",
    "models/masked.py",
    "models/transformer.py",
    "trees/selection.py",
)
"""Modules that determine what a model answers."""

SNAKEMAKE_TIMESTAMP = ".snakemake_timestamp"

GROWING = (*ANSWERING, "trees/expansion.py", "trees/shards.py")
"""Modules that determine a tree."""


def of_model(directory: str | Path, kind: str, dtype: str, device: str) -> str:
    """A fingerprint of all that determines a model's answers to the last bit.

    The processor is part of it, and so are the libraries: they determine the order in which
    products are added.

    Args:
        directory: a model directory. Checksums are those that were recorded when it was fetched;
            for a link, whose target may have changed since, size and time of the target stand in.
        kind, dtype, device: as in `loading.load_model`.
    """
    return _hash(
        _files(Path(directory), _stamp),
        [kind, dtype, device, processor()],
        [version(package) for package in ("torch", "transformers", "tokenizers")],
        _code(ANSWERING),
    )


def of_tree(
    directory: str | Path,
    kind: str,
    dtype: str,
    start: str,
    truncation: Truncation,
    end_of_sequence: str,
) -> str:
    """A fingerprint of all that determines a tree, but for the last bits of its probabilities.

    A tree may have been grown on another machine.
    """
    asked = [kind, dtype, start, truncation.alpha, truncation.k, truncation.length, end_of_sequence]
    return _hash(_files(Path(directory), _stamp), asked, _code(GROWING))


def of_masses(model: str, prompts: Sequence[str], k: int) -> str:
    """A fingerprint of all that determines the masses within 1 to k tokens after some prompts.

    Args:
        model: the fingerprint `of_model`.
    """
    return _hash([model, list(prompts), k], _code(("trees/topk.py",)))


def checksums(directory: str | Path) -> dict[str, str]:
    """The sha256 of every file of a model: as recorded when it was fetched, of a link as it is."""
    return _files(Path(directory), sha256_of)


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _files(directory: Path, identify: Callable[[Path], Any]) -> dict[str, Any]:
    """Recorded checksums by name; for a link and for a file without one, what `identify` says."""
    try:
        recorded = read_json(directory / PROVENANCE)["files"]
    except (OSError, ValueError, KeyError):
        recorded = {}
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        name: recorded[name] if name in recorded and not path.is_symlink() else identify(path)
        for path in files
        if (name := str(path.relative_to(directory))) not in (PROVENANCE, SNAKEMAKE_TIMESTAMP)
    }


def _stamp(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


@cache
def _code(modules: Sequence[str]) -> dict[str, str]:
    return {name: sha256_of(Path(__file__).parents[1] / name) for name in modules}


def processor() -> str:
    """The processor's name, as Linux and others tell it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
