"""Files that are either whole or absent, their checksums, and files that carry their checksum."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmchecker.errors import DamagedFile

BLANK_SEAL = "sha256:" + "0" * 64
"""What a writer puts in the place of a file's seal; nothing after it may look like a seal."""

_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")
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

    The temporary file has the suffix of `path`, since some writers choose a format by it. If the
    block raises, nothing is left behind, and an older file at `path` stays as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-", suffix=path.suffix)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o644)  # `mkstemp` lets only the owner read it
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


@contextmanager
def written_sealed(path: str | Path) -> Iterator[Path]:
    """As `written_whole`; the block writes `BLANK_SEAL`, which becomes the seal of the file.

    The seal is the sha256 of the file with the blank seal in it. Since it lies inside the file, it
    cannot be lost or left behind, and it is read together with the bytes that it vouches for.
    """
    with written_whole(path) as partial:
        yield partial
        contents = partial.read_bytes()
        place = _place_of_seal(contents)
        if place is None or contents[place] != BLANK_SEAL.encode():
            raise ValueError(f"{path} was written without a blank seal")
        with partial.open("r+b") as file:
            file.seek(place.start)
            file.write(_seal(contents, place))


def read_sealed(path: str | Path) -> bytes:
    """Read a file that `written_sealed` wrote.

    Raises:
        DamagedFile: the file has changed since it was written, or never had a seal.
    """
    contents = Path(path).read_bytes()
    place = _place_of_seal(contents)
    if place is None or contents[place] != _seal(contents, place):
        raise _not_ours(path, "has no checksum" if place is None else "does not fit its checksum")
    return contents


@contextmanager
def written_with_checksum(path: str | Path) -> Iterator[Path]:
    """As `written_whole`, with the checksum in a file `{path}.sha256` beside it.

    It is for formats that have no place for a seal. `sha256sum -c` can check the file too.
    """
    path, beside = Path(path), _checksum_file(path)
    # Removed before the file changes, so that it never stands beside contents of another checksum.
    beside.unlink(missing_ok=True)
    with written_whole(path) as partial:
        yield partial
        line = f"{sha256_of(partial)}  {path.name}\n"
    with written_whole(beside) as partial:
        partial.write_text(line, encoding="utf-8")


def read_with_checksum(path: str | Path) -> bytes:
    """Read a file that `written_with_checksum` wrote.

    Raises:
        DamagedFile: the file has changed since it was written, or has no checksum beside it.
    """
    contents, beside = Path(path).read_bytes(), _checksum_file(path)
    if not beside.is_file():
        raise _not_ours(path, f"has no checksum beside it, in {beside.name}")
    if beside.read_bytes()[:64] != hashlib.sha256(contents).hexdigest().encode():
        raise _not_ours(path, f"does not fit its checksum in {beside.name}")
    return contents


def _checksum_file(path: str | Path) -> Path:
    return Path(path).with_name(f"{Path(path).name}.sha256")


def _not_ours(path: str | Path, reason: str) -> DamagedFile:
    return DamagedFile(
        f"{path} is not as this program writes files: it {reason}. If it is a result that was "
        "damaged, or that an older version wrote, delete it, and the command that made it makes "
        "it again"
    )


def _place_of_seal(contents: bytes) -> slice | None:
    """The place of the last seal: contents before it may hold texts that look like a seal."""
    places = [slice(*found.span()) for found in _SEAL.finditer(contents)]
    return places[-1] if places else None


def _seal(contents: bytes, place: slice) -> bytes:
    """The seal that the contents must have at a place."""
    hasher = hashlib.sha256(contents[: place.start])
    hasher.update(BLANK_SEAL.encode())
    hasher.update(contents[place.stop :])
    return b"sha256:" + hasher.hexdigest().encode()
