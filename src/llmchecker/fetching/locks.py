"""Locks: the commits of repositories of the hub for which a config names none.

The first fetch looks up the newest commit and writes it to a lock, a small JSON file for each
repository. Later fetches use that commit. Keep a lock under version control, beside the config that
it belongs to; delete it to get the newest commit again.
"""

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmchecker.errors import ConfigError, DamagedFile
from llmchecker.fetching.downloads import RepositoryKind, hub_commit
from llmchecker.files import read_json, write_json

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Lock:
    """A repository at the commit that was its newest when it was locked.

    Attributes:
        repository: owner/name.
        kind: "model" or "dataset".
        commit: 40 lower-case hexadecimal digits.
        locked: the time of locking, in ISO 8601 and UTC.

    Raises:
        ConfigError: a commit of another form.
    """

    repository: str
    kind: RepositoryKind
    commit: str
    locked: str

    def __post_init__(self) -> None:
        if not (isinstance(self.commit, str) and _COMMIT.fullmatch(self.commit)):
            raise ConfigError(
                f"the commit is {self.commit!r}; it must be 40 lower-case hexadecimal digits"
            )


def locked_commit(repository: str, kind: RepositoryKind, path: str | Path) -> str:
    """The commit that the lock at `path` names for a repository; without a lock, the newest commit.

    The newest commit is written to `path`, whole or not at all. A lock of another repository says
    nothing about this one and is replaced.

    Raises:
        ConfigError: the file at `path` is no lock.
        SourceUnavailable: there is no lock, and the hub does not tell the newest commit.
    """
    path = Path(path)
    lock = _read(path) if path.exists() else None
    if lock is None or (lock.repository, lock.kind) != (repository, kind):
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lock = Lock(repository, kind, hub_commit(repository, kind), now)
        write_json(asdict(lock), path)
    return lock.commit


def _read(path: Path) -> Lock:
    try:
        return Lock(**read_json(path))
    except (OSError, TypeError, DamagedFile, ConfigError) as error:
        raise ConfigError(
            f"{path} is no lock: {error}; restore it, or delete it to lock the newest commit"
        ) from error
