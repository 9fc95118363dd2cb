"""Files that are either whole or absent, their checksums, and files that carry their checksum."""

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmchecker.errors import DamagedFile, MachineLimit

BLANK_SEAL = "sha256:" + "0" * 64
"""What a writer puts in the place of a file's seal; nothing after it may look like a seal."""

SEAL = "seal"
"""The key under which a JSON file has its seal."""

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

    A link stays a link: what it leads to is written. What is no regular file, such as a device or
    a named pipe, is not replaced either: the contents go through it when the block succeeds.

    Raises:
        MachineLimit: the disk is full, the folder may not be written, or a size is limited.
    """
    path = Path(path)
    through = _is_special(path)
    with _told_as_limit(path):
        folder = None if through else _made_folder(path)
        handle, name = tempfile.mkstemp(dir=folder, prefix=partial_prefix(), suffix=path.suffix)
        os.close(handle)
        partial = Path(name)
        try:
            yield partial
            if through:
                with partial.open("rb") as contents, path.open("wb") as output:
                    shutil.copyfileobj(contents, output)
            else:
                partial.chmod(0o644)  # `mkstemp` lets only the owner read it
                partial.replace(path.resolve())
        finally:
            partial.unlink(missing_ok=True)


def demand_writable(folder: str | Path) -> None:
    """Check that files can be written in a folder, or that it can be made.

    Raises:
        MachineLimit: the file system can only be read, or this user may not write there.
    """
    folder = Path(folder)
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        only_read = os.statvfs(place).f_flag & os.ST_RDONLY
        reason = _LIMITS[errno.EROFS if only_read else errno.EACCES]
        raise MachineLimit(f"nothing can be written in {folder}: {reason}")


def partial_prefix() -> str:
    """How the name of what this process has not finished yet begins.

    It tells the machine and the process, so that what a process left that was killed can be told
    from what another one is writing.
    """
    return f".partial-{_host()}-{os.getpid()}-"


def left_behind(name: str) -> bool:
    """Whether a name is that of something unfinished of a process of this machine that has ended.

    A number of a process that is used again makes something be kept that could go, never the
    reverse.
    """
    found = re.fullmatch(rf"\.partial-{re.escape(_host())}-([0-9]+)-.*", name)
    return found is not None and not Path("/proc", found[1]).exists() and Path("/proc/1").exists()


def _host() -> str:
    """The name of the machine, as far as it consists of letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())


def _is_special(path: Path) -> bool:
    """Whether there is something at a path that is neither a regular file nor a directory."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _made_folder(path: Path) -> Path:
    """The folder of the file that is written, which is made if it is absent."""
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_LIMITS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EFBIG: "it is larger than files may be here (ulimit -f)",
    errno.EROFS: "the file system can only be read",
    errno.EACCES: "the folder may not be written by this user",
    errno.EPERM: "it may not be written by this user",
    errno.EISDIR: "it is a directory",
    errno.EIO: "the disk or device reports an error",
    errno.EPIPE: "its reader has gone",
}
"""What the errors of an operating system mean to whoever wants to write a file."""


@contextmanager
def _told_as_limit(path: Path) -> Iterator[None]:
    """Turn an error of the operating system that the block meets into a sentence about `path`."""
    try:
        yield
    except OSError as error:
        # the block may read other files, of which this message would be wrong
        named = Path(os.fsdecode(error.filename)) if error.filename else path
        ours = named == path or named.name.startswith(".partial-") or named in path.parents
        if error.errno not in _LIMITS or not ours:
            raise
        raise MachineLimit(
            f"{path} cannot be written: {_LIMITS[error.errno]}{_room(path, error.errno)}. What was "
            "finished before is kept; run the same command again when that is mended"
        ) from error


def _room(path: Path, number: int) -> str:
    """How much room is left on the disk, where the lack of it is the reason."""
    if number not in (errno.ENOSPC, errno.EDQUOT) or _is_special(path):
        return ""
    place = next(folder for folder in path.absolute().parents if folder.exists())
    return f"; {shutil.disk_usage(place).free / 1e6:.1f} MB are free in {place}"


def write_json(content: Mapping[str, Any], path: str | Path) -> None:
    """Write a mapping as JSON that people can read."""
    with written_whole(path) as partial:
        partial.write_text(_as_json(content), encoding="utf-8")


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds a mapping.

    Raises:
        DamagedFile: the file is cut, or holds something else.
    """
    return _mapping(Path(path).read_bytes(), path)


def write_sealed_json(content: Mapping[str, Any], path: str | Path) -> None:
    """As `write_json`, for a file from which answers are computed: its last key is its seal."""
    with written_sealed(path) as partial:
        # not by `write_json`, whose message would name the temporary file
        partial.write_text(_as_json({**content, SEAL: BLANK_SEAL}), encoding="utf-8")


def read_sealed_json(path: str | Path) -> dict[str, Any]:
    """Read what `write_sealed_json` wrote, without the seal.

    Raises:
        DamagedFile: the file has changed since it was written, or never had a seal.
    """
    content = _mapping(read_sealed(path), path)
    del content[SEAL]
    return content


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
    path, checksum = Path(path), beside(path)
    # Removed before the file changes, so that it never stands beside contents of another checksum.
    checksum.unlink(missing_ok=True)
    with written_whole(path) as partial:
        yield partial
        line = f"{sha256_of(partial)}  {path.name}\n"
    with written_whole(checksum) as partial:
        partial.write_text(line, encoding="utf-8")


def read_with_checksum(path: str | Path) -> bytes:
    """Read a file that `written_with_checksum` wrote.

    Raises:
        DamagedFile: the file has changed since it was written, or has no checksum beside it.
    """
    contents, checksum = Path(path).read_bytes(), beside(path)
    if not checksum.is_file():
        raise _not_ours(path, f"has no checksum beside it, in {checksum.name}")
    if checksum.read_bytes()[:64] != hashlib.sha256(contents).hexdigest().encode():
        raise _not_ours(path, f"does not fit its checksum in {checksum.name}")
    return contents


def _as_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _mapping(contents: bytes, path: str | Path) -> dict[str, Any]:
    try:
        content = json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise _not_ours(path, f"is not whole JSON ({error})") from error
    if not isinstance(content, dict):
        raise _not_ours(path, "holds no keys and values")
    return content


def beside(path: str | Path) -> Path:
    """Where the checksum of a file is that `written_with_checksum` wrote."""
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
