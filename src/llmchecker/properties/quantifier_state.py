"""States of quantifiers: digests of all that determines their scores, besides this package."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import ChecksumMismatch
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import find_quantifier_files
from llmchecker.utils.file_state import compute_checksums


def hash_quantifier(quantifier: Quantifier) -> str:
    """Return the sha256 of a quantifier's type, settings and files.

    A file counts by its content, so that a checkout in another folder has the same sha256.

    Raises:
        OSError: a file cannot be read.
    """
    columns: tuple[Field[Any], ...] = fields(quantifier) if is_dataclass(quantifier) else ()
    settings = {each.name: getattr(quantifier, each.name) for each in columns if each.init}
    files = dict(enumerate(find_quantifier_files(quantifier)))
    checksums = list(compute_checksums(files).values())
    content = [type(quantifier).__qualname__, settings, checksums]
    text = json.dumps(content, sort_keys=True, default=_encode)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_quantifiers(quantifiers: Mapping[str, Quantifier]) -> dict[str, str]:
    """Return the state of each quantifier, by name."""
    return {name: hash_quantifier(quantifier) for name, quantifier in quantifiers.items()}


def check_quantifiers(states: Mapping[str, str], quantifiers: Mapping[str, Quantifier]) -> None:
    """Check that quantifiers have the states with which a run began.

    Raises:
        ChecksumMismatch: a file of a quantifier has changed.
    """
    for name, state in states.items():
        if hash_quantifier(quantifiers[name]) != state:
            files = ", ".join(map(str, find_quantifier_files(quantifiers[name])))
            raise ChecksumMismatch(
                f"quantifier {name!r}: a file changed during the run ({files}); run the same "
                "command again"
            )


def check_scores_state(path: str | Path, stored: object, expected: str) -> None:
    """Check that scores are of the present state of their quantifier.

    Args:
        path: the record of the scores.
        stored: the state in the record.
        expected: the present state.

    Raises:
        ChecksumMismatch: they are of another state.
    """
    if stored != expected:
        raise ChecksumMismatch(
            f"{path}: scores of a quantifier whose files or settings changed since; delete the "
            "file and run the same command again"
        )


def _encode(value: object) -> str:
    return "path" if isinstance(value, Path) else repr(value)
