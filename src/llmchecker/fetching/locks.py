"""Which commit a repository of the hub stands for when a config names none.

The first fetch looks the newest commit up and writes it to a lock, a small JSON file, one for every
repository; later fetches obey it. A lock is made to be kept under version control beside the config
that it belongs to. Deleting it asks for the newest commit again.
"""

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmchecker.errors import ConfigError
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
        locked: when, in ISO 8601 and UTC.

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
    """The commit that the lock at `path` names for a repository; without one, the newest.

    The newest commit is written to `path`, whole or not at all. A lock of another repository says
    nothing about this one and is replaced.

    Raises:
        ConfigError: there is a file at `path`, but it is no lock.
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
    except (OSError, ValueError, TypeError, ConfigError) as error:
        raise ConfigError(
            f"{path} is no lock: {error}; restore it, or delete it to lock the newest commit"
        ) from error
