"""Atomic file writes, checksums, and files that contain their own checksum."""

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

BLANK_DIGEST = "sha256:" + "0" * 64
"""Placeholder for a file's digest.

No later text in the file may look like a digest.
"""

_DIGEST_KEY = "seal"
"""Key of the digest in a JSON file."""

_DIGEST_PREFIX = b"sha256:"
_DIGEST_PATTERN = re.compile(_DIGEST_PREFIX + rb"[0-9a-f]{64}")
_SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")


def compute_sha256(path: str | Path) -> str:
    """Return the sha256 of a file in lower-case hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_sha256(value: object) -> bool:
    """Return whether a value is a sha256 in 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and _SHA256_PATTERN.fullmatch(value) is not None


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds.

    The temporary file has the suffix of `path`, because some writers infer the format from it. If
    the block raises, the temporary file is deleted and an older file at `path` is unchanged.

    A symbolic link stays a link: its target is written. A special file, such as a device or a named
    pipe, is not replaced: the contents are written to it when the block succeeds.

    Raises:
        MachineLimit: the disk is full, the folder is not writable, or a file size is limited.
    """
    path = Path(path)
    # replacing a pipe or a device such as /dev/stdout would delete it
    is_direct_write = _is_special(path)
    with _translate_os_errors(path):
        # in the target's folder, because a rename between file systems is not atomic
        folder = None if is_direct_write else _ensure_folder(path)
        handle, name = tempfile.mkstemp(dir=folder, prefix=partial_prefix(), suffix=path.suffix)
        os.close(handle)
        partial = Path(name)
        try:
            yield partial
            if is_direct_write:
                with partial.open("rb") as source, path.open("wb") as output:
                    shutil.copyfileobj(source, output)
            else:
                partial.chmod(0o644)  # `mkstemp` lets only the owner read it
                # a link is resolved, so that the rename replaces its target and not the link
                partial.replace(path.resolve())
        finally:
            partial.unlink(missing_ok=True)


def check_writable(folder: str | Path) -> None:
    """Check that files can be written in a folder, or that it can be created.

    Raises:
        MachineLimit: the file system is read-only, or this user lacks the permission.
    """
    folder = Path(folder)
    # the folder may not exist: its nearest existing parent decides
    existing_folder = next(
        existing_folder
        for existing_folder in (folder, *folder.absolute().parents)
        if existing_folder.exists()
    )
    if not os.access(existing_folder, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(existing_folder).f_flag & os.ST_RDONLY
        reason = _OS_ERROR_REASONS[errno.EROFS if is_read_only else errno.EACCES]
        raise MachineLimit(f"{folder}: nothing can be written: {reason}")


def partial_prefix() -> str:
    """Return the name prefix of this process's temporary files and directories.

    The prefix contains the host name and the process id. Other processes can so recognize the
    temporary files of a killed process.
    """
    return f".partial-{_host_name()}-{os.getpid()}-"


def is_stale_partial(name: str) -> bool:
    """Return whether a name is a temporary file of an ended process of this host.

    A reused process id can keep a stale file alive. It never makes a file in use look stale.
    """
    # without /proc the state of a process is unknown, so nothing counts as stale
    match = re.fullmatch(rf"\.partial-{re.escape(_host_name())}-([0-9]+)-.*", name)
    return match is not None and not Path("/proc", match[1]).exists() and Path("/proc/1").exists()


def _host_name() -> str:
    """Return the letters and digits of the host name."""
    return re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())


def _is_special(path: Path) -> bool:
    """Return whether a path exists and is neither a regular file nor a directory."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def describe_kind(path: str | Path) -> str:
    """Describe the kind of an unexpected path, for an error message."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a broken link" if path.is_symlink() else "absent"
    except OSError as error:
        return f"not accessible ({error.strerror})"
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "of an unknown kind")


def _ensure_folder(path: Path) -> Path:
    """Return the folder of a file to be written; create it if it is absent."""
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_OS_ERROR_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is exhausted",
    errno.EFBIG: "it exceeds the limit of file sizes (ulimit -f)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not write the folder",
    errno.EPERM: "this user may not write it",
    errno.EISDIR: "it is a directory",
    errno.EIO: "the disk or device reports an error",
    errno.EPIPE: "its reader has ended",
}
"""Reason of a failed write, by the error number of the operating system."""


@contextmanager
def _translate_os_errors(path: Path) -> Iterator[None]:
    """Convert the block's operating system errors about `path` to MachineLimit."""
    try:
        yield
    except OSError as error:
        # The block may also read other files: an error about such a file is not about `path`.
        error_path = Path(os.fsdecode(error.filename)) if error.filename else path
        is_own_path = (
            error_path == path
            or error_path.name.startswith(".partial-")
            or error_path in path.parents
        )
        # an unknown error keeps its type and traceback
        if error.errno not in _OS_ERROR_REASONS or not is_own_path:
            raise
        raise MachineLimit(
            f"{path}: cannot be written: "
            f"{_OS_ERROR_REASONS[error.errno]}{_format_free_space(path, error.errno)}; "
            "correct this and run the same command again"
        ) from error


def _format_free_space(path: Path, number: int) -> str:
    """Format the free disk space for errors of a full disk; "" for others."""
    if number not in (errno.ENOSPC, errno.EDQUOT) or _is_special(path):
        return ""
    existing_folder = next(folder for folder in path.absolute().parents if folder.exists())
    return f"; {shutil.disk_usage(existing_folder).free / 1e6:.1f} MB are free in {existing_folder}"


def rename_damaged(path: Path) -> Path:
    """Rename a damaged file or directory to a free `{path}.damaged` name.

    Returns:
        The new path. Another process may have renamed the file first.
    """
    number, new_path = 1, damaged_path(path)
    while os.path.lexists(new_path):
        number += 1
        new_path = damaged_path(path, number)
    try:
        path.rename(new_path)
    except FileNotFoundError:
        # a job that runs at the same time renamed the file first
        return damaged_path(path)
    return new_path


def damaged_path(path: Path, number: int = 1) -> Path:
    """Return the path of a renamed damaged file, numbered from the second on."""
    return path.with_name(f"{path.name}.damaged{'' if number == 1 else f'-{number}'}")


def write_json(content: Mapping[str, Any], path: str | Path) -> None:
    """Write a mapping as indented JSON."""
    with atomic_write(path) as partial:
        partial.write_text(_format_json(content), encoding="utf-8")


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that contains a mapping.

    Raises:
        DamagedFile: the file is truncated or is not a JSON object.
    """
    return _parse_mapping(Path(path).read_bytes(), path)


def write_json_with_digest(content: Mapping[str, Any], path: str | Path) -> None:
    """Write a mapping as indented JSON with the file's digest as the last key."""
    with atomic_write_with_digest(path) as partial:
        # not `write_json`: its error message would name the temporary file
        partial.write_text(_format_json({**content, _DIGEST_KEY: BLANK_DIGEST}), encoding="utf-8")


def read_json_with_digest(path: str | Path) -> dict[str, Any]:
    """Read a file of `write_json_with_digest`, without the digest.

    Raises:
        DamagedFile: the file changed after it was written, or has no digest.
    """
    content = _parse_mapping(read_with_digest(path), path)
    del content[_DIGEST_KEY]
    return content


@contextmanager
def atomic_write_with_digest(path: str | Path) -> Iterator[Path]:
    """Write a file as `atomic_write` does, and replace the blank digest in it.

    The block writes `BLANK_DIGEST`. The digest is the sha256 of the file with the blank digest in
    it. Since the digest is part of the file, both are moved, copied and read together.

    Raises:
        ValueError: the last digest in the file is not `BLANK_DIGEST`.
    """
    with atomic_write(path) as partial:
        yield partial
        contents = partial.read_bytes()
        position = _find_digest(contents)
        if position is None or contents[position] != BLANK_DIGEST.encode():
            raise ValueError(f"{path} was written without a blank seal")
        with partial.open("r+b") as file:
            file.seek(position.start)
            file.write(_compute_digest(contents, position))


def read_with_digest(path: str | Path) -> bytes:
    """Read a file that `atomic_write_with_digest` wrote, and check its digest.

    Raises:
        DamagedFile: the file changed after it was written, or has no digest.
    """
    contents = Path(path).read_bytes()
    position = _find_digest(contents)
    if position is None or contents[position] != _compute_digest(contents, position):
        raise _build_damage_error(
            path, "has no checksum" if position is None else "does not match its checksum"
        )
    return contents


@contextmanager
def atomic_write_with_checksum(path: str | Path) -> Iterator[Path]:
    """Write a file as `atomic_write` does, and its checksum to `{path}.sha256`.

    This is for formats without a place for a digest. `sha256sum -c` can check the file too.
    """
    path, checksum = Path(path), checksum_path(path)
    # Removed before the file changes: a killed write must not leave a checksum of other contents.
    checksum.unlink(missing_ok=True)
    with atomic_write(path) as partial:
        yield partial
        line = f"{compute_sha256(partial)}  {path.name}\n"
    with atomic_write(checksum) as partial:
        partial.write_text(line, encoding="utf-8")


def read_with_checksum(path: str | Path) -> bytes:
    """Read a file that `atomic_write_with_checksum` wrote, and check its checksum.

    Raises:
        DamagedFile: the file changed after it was written, or its checksum file is missing.
    """
    contents, checksum = Path(path).read_bytes(), checksum_path(path)
    if not checksum.is_file():
        raise _build_damage_error(path, f"has no checksum in {checksum.name}")
    # the format of sha256sum: 64 digits, two spaces, the file's name
    if checksum.read_bytes()[:64] != hashlib.sha256(contents).hexdigest().encode():
        raise _build_damage_error(path, f"does not match its checksum in {checksum.name}")
    return contents


def _format_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _parse_mapping(contents: bytes, path: str | Path) -> dict[str, Any]:
    try:
        content = json.loads(contents)
    # deeply nested JSON raises RecursionError in the parser
    except (ValueError, RecursionError) as error:
        raise _build_damage_error(path, f"is not complete JSON ({error})") from error
    if not isinstance(content, dict):
        raise _build_damage_error(path, "has no keys and values")
    return content


def checksum_path(path: str | Path) -> Path:
    """Return the path of the checksum file of `atomic_write_with_checksum`."""
    return Path(path).with_name(f"{Path(path).name}.sha256")


def _build_damage_error(path: str | Path, reason: str) -> DamagedFile:
    return DamagedFile(
        f"{path}: damaged or from an older version: it {reason}",
        path,
        "; delete it and run the same command again",
    )


def _find_digest(contents: bytes) -> slice | None:
    """Return the position of the last digest; earlier texts may look like digests."""
    # from the end, near which the digest is: most of a large file is not searched
    position = contents.rfind(_DIGEST_PREFIX)
    while position >= 0:
        match = _DIGEST_PATTERN.match(contents, position)
        if match is not None:
            return slice(*match.span())
        position = contents.rfind(_DIGEST_PREFIX, 0, position)
    return None


def _compute_digest(contents: bytes, position: slice) -> bytes:
    """Return the digest of the contents with a blank digest at a position."""
    view = memoryview(contents)  # its slices are no copies
    hasher = hashlib.sha256(view[: position.start])
    # the digest cannot cover itself: the hash is that of the file with the blank digest
    hasher.update(BLANK_DIGEST.encode())
    hasher.update(view[position.stop :])
    return b"sha256:" + hasher.hexdigest().encode()
