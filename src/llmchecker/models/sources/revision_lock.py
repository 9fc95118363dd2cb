"""Revision locks: commits of hub repositories that the config does not pin.

The first fetch looks up the newest commit, or that of a tag or branch, and writes it to a lock, a
small JSON file for each repository. Later fetches use that commit. Keep a lock under version
control, next to its config. Delete it to lock the newest commit again.
"""

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmchecker.errors import ConfigError, DamagedFile
from llmchecker.models.sources.downloads import RepositoryKind, fetch_hub_commit
from llmchecker.utils.atomic_files import read_json, write_json

_COMMIT_HASH = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class _RevisionLock:
    """A repository with a commit at the time of locking.

    Attributes:
        repository: owner/name.
        kind: "model" or "dataset".
        commit: 40 lower-case hexadecimal digits.
        locked: time of locking, in ISO 8601 and UTC.
        revision: the tag or branch that had the commit; empty for the default branch.

    Raises:
        ConfigError: the commit has another form.
    """

    repository: str
    kind: RepositoryKind
    commit: str
    locked: str
    revision: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.commit, str) and _COMMIT_HASH.fullmatch(self.commit)):
            raise ConfigError(f"commit: {self.commit!r} is not 40 lower-case hexadecimal digits")


def lock_commit(repository: str, revision: str, kind: RepositoryKind, path: str | Path) -> str:
    """Return a repository's commit from its lock; write that of the hub if it is absent.

    The file is written atomically. A lock of another repository or revision is replaced.

    Args:
        repository: owner/name.
        revision: a tag or branch; empty for the default branch.
        kind: kind of repository.
        path: path of the lock.

    Raises:
        ConfigError: the file at `path` is not a lock.
        SourceUnavailable: the lock is absent, and the hub does not return the commit.
    """
    path = Path(path)
    lock = _read_lock(path) if path.exists() else None
    locked = None if lock is None else (lock.repository, lock.revision, lock.kind)
    # a config may name another repository or tag now; its old lock does not apply
    if lock is None or locked != (repository, revision, kind):
        timestamp = datetime.now(UTC).isoformat(timespec="seconds")
        commit = fetch_hub_commit(repository, revision, kind)
        lock = _RevisionLock(repository, kind, commit, timestamp, revision)
        write_json(asdict(lock), path)
    return lock.commit


def _read_lock(path: Path) -> _RevisionLock:
    try:
        return _RevisionLock(**read_json(path))
    except (OSError, TypeError, DamagedFile, ConfigError) as error:
        raise ConfigError(
            f"{path}: not a lock: {error}; restore it, or delete it to lock the newest commit"
        ) from error
