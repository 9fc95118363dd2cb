"""A note on weights that are not those of a plain model: quantised, or with adapters."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from llmchecker.models.sources.adapters import AdapterSource, read_adapters
from llmchecker.models.sources.model_directory import PROVENANCE, find_quantizer
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.utils.atomic_files import read_json
from llmchecker.utils.printable_text import quote_value

_DIGITS = 12
"""Number of digits of a checksum in a note."""


def describe_weights(
    directory: Path, dtype: str, read_files: Callable[[], Mapping[str, str]]
) -> str:
    """Describe the weights of a model directory in a note on answers; empty for plain ones.

        weights: float32, quantised by torchao, sha256 d2a84f4b8b65

    Args:
        directory: path of the model directory, which loads.
        dtype: torch name of the number format in which the model computes.
        read_files: returns the sha256 of every file of the model; called for other weights alone.
    """
    words = []
    if (quantizer := find_quantizer(directory)) is not None:
        words.append(f"quantised by {quantizer}")
    if adapters := read_adapters(directory):
        # only a fetched model has adapters
        record = read_json(directory / PROVENANCE)
        base = _find_last_part(parse_source(record["source"]).name)
        for source, adapter in zip(record["adapters"], adapters, strict=True):
            words.append(f"adapter {AdapterSource.from_record(source)}")
            # a model may have moved or have a copy of another name, so this is no refusal
            if _find_last_part(adapter.base) not in ("", base):
                words[-1] += f", which was trained for {quote_value(adapter.base)}"
    if not words:
        return ""
    files = read_files()
    lines = (f"{files[name]} {name}" for name in sorted(files) if name.endswith(".safetensors"))
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]
    return f"weights: {', '.join((dtype, *words))}, sha256 {digest}"


def _find_last_part(name: str) -> str:
    """Return the last part of a path or of a name of the hub."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]
