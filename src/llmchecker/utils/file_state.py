"""Checksums of files that others may change, which are read again only after a change.

The weights of a model may have gigabytes, and several processes of a run need their checksum. A
file whose size, times, inode and device are unchanged has its known checksum. The time of the last
change of the inode is among them: a program that restores the time of modification changes it.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from llmchecker.errors import ChecksumMismatch
from llmchecker.utils.atomic_files import compute_sha256, is_sha256

_CLOCK_STEP_NS = 2 * 10**9
"""Greatest step of a file system's clock in ns, within which a second change has the same time."""


@dataclass(frozen=True)
class FileStamp:
    """Metadata of a file that a change of its content changes.

    Attributes:
        size: size in bytes.
        modified: time of the last change of the content, in ns.
        changed: time of the last change of the inode, in ns.
        inode, device: numbers that identify the file.
    """

    size: int
    modified: int
    changed: int
    inode: int
    device: int


@dataclass(frozen=True)
class _FileState:
    """The checksum of a file, and when it was computed.

    Attributes:
        sha256: checksum of the content.
        stamp: the metadata of the file before and after it was read.
        read: time at which the reading began, in ns.
    """

    sha256: str
    stamp: FileStamp
    read: int

    @property
    def is_settled(self) -> bool:
        """Whether any later change gives the file another stamp."""
        return self.stamp.changed + _CLOCK_STEP_NS < self.read


_Key = TypeVar("_Key")

_known_states: dict[Path, _FileState] = {}
"""States of files in this process, by resolved path."""


def read_stamp(path: str | Path) -> FileStamp:
    """Return the metadata of a file, or of the target of a link."""
    stat = Path(path).stat()
    return FileStamp(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)


def compute_current_sha256(path: str | Path) -> str:
    """Return the sha256 of a file's content, which is read only after a change.

    Raises:
        ChecksumMismatch: the file changed while it was read.
        OSError: the file cannot be read.
    """
    return _read_state(path).sha256


def compute_checksums(files: Mapping[_Key, Path]) -> dict[_Key, str]:
    """Return the sha256 of each file, as `compute_current_sha256`."""
    return {key: state.sha256 for key, state in _read_states(files).items()}


def describe_files(files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Describe the states of files as JSON, by name, for `learn_files`."""
    return {name: asdict(state) for name, state in _read_states(files).items()}


def learn_files(described: object, files: Mapping[str, Path]) -> None:
    """Learn the states of files from a record, so that unchanged files are not read again.

    Args:
        described: what `describe_files` returned; a value of another form is ignored, since it only
            saves time.
        files: paths by name.
    """
    if not isinstance(described, Mapping):
        return
    for name, path in files.items():
        state = _parse_state(described.get(name))
        key = Path(os.path.realpath(path))
        known = _known_states.get(key)
        if state is not None and (known is None or known.read < state.read):
            _known_states[key] = state


def check_unchanged(checksums: Mapping[Path, str]) -> None:
    """Check that files have the checksums that they had when a run began.

    Raises:
        ChecksumMismatch: a file has changed or is missing.
    """
    for path, expected in checksums.items():
        if not path.is_file() or compute_current_sha256(path) != expected:
            raise ChecksumMismatch(
                f"{path}: the file changed during the run; run the same command again"
            )


def _read_states(files: Mapping[_Key, Path]) -> dict[_Key, _FileState]:
    # a thread costs more than one file, and most quantifiers have none
    if len(files) < 2:
        return {key: _read_state(path) for key, path in files.items()}
    # large models have several files, and neither reading nor hashing holds the interpreter's lock
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(_read_state, files.values()), strict=True))


def _read_state(path: str | Path) -> _FileState:
    key = Path(os.path.realpath(path))
    stamp = read_stamp(key)
    known = _known_states.get(key)
    if known is not None and known.is_settled and known.stamp == stamp:
        return known
    began = time.time_ns()
    sha256 = compute_sha256(key)
    if read_stamp(key) != stamp:
        raise ChecksumMismatch(
            f"{path}: the file changed while it was read; run the same command again"
        )
    state = _known_states[key] = _FileState(sha256, stamp, began)
    return state


def _parse_state(described: Any) -> _FileState | None:
    """Parse the state of a file; None if it has another form."""
    try:
        state = _FileState(described["sha256"], FileStamp(**described["stamp"]), described["read"])
    except (KeyError, TypeError):
        return None
    numbers = (*vars(state.stamp).values(), state.read)
    is_valid = is_sha256(state.sha256) and all(type(number) is int for number in numbers)
    return state if is_valid else None
