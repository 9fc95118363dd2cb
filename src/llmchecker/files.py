"""Files that are either whole or absent, and their checksums."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_of(path: str | Path) -> str:
    """The sha256 of a file, in lower-case hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_sha256(value: object) -> bool:
    """Whether a value has the form of `sha256_of`: 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that becomes `path` when the block succeeds.

    The temporary file keeps the suffix of `path`, for writers that choose a format by it. When
    the block raises, nothing is left behind and an older file at `path` stays as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-", suffix=path.suffix)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(content: Mapping[str, Any], path: str | Path) -> None:
    """Write a mapping as JSON that people can read."""
    with written_whole(path) as partial:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds a mapping."""
    return json.loads(Path(path).read_text(encoding="utf-8"))
