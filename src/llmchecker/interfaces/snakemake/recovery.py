"""Repair of a project: damaged results, unfinished files and stale locks."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from llmchecker.config import paths
from llmchecker.errors import ConfigError, DamagedFile
from llmchecker.models.sources.checksums import read_recorded_checksums
from llmchecker.utils.atomic_files import (
    describe_kind,
    is_stale_partial,
    read_with_checksum,
    read_with_digest,
    rename_damaged,
)
from llmchecker.utils.processes import is_running

_READERS = {
    ".parquet": read_with_digest,
    ".json": read_with_digest,
    **dict.fromkeys((".csv", ".svg", ".prism", ".jani"), read_with_checksum),
}
"""Functions that read a file and reject a damaged one, by the file's suffix."""

_FILE_ENDINGS = {
    ".png": b"IEND\xaeB`\x82",
    ".pdf": b"%%EOF\n",
    ".html": b"</html>",
    **dict.fromkeys((".md", ".tex"), b""),
}
"""Last bytes of a file, by suffix; a file with any end must not be empty."""

_RESULT_FOLDERS = (
    *("trees", "shards", "scores", "topk", "prism", "jani", "checks", "crosschecks"),
    *("answers", "invariants", "tables", "figures"),
)
"""Folders of results, without logs, times and the cache, which repairs itself."""


class RepairAction(StrEnum):
    """A way to repair a file or directory."""

    UNLOCK = "unlock"
    RENAME = "rename"
    REMOVE = "remove"


@dataclass(frozen=True)
class Repair:
    """The repair of one file or directory.

    Attributes:
        action: the way to repair it.
        path: the file or directory.
        reason: the problem, as a sentence with the path.
    """

    action: RepairAction
    path: Path
    reason: str

    def apply(self) -> Path | None:
        """Apply the repair, and return the new path of a renamed file or directory."""
        # Damaged results and models are kept under a new name; the rest is removed.
        if self.action is RepairAction.RENAME:
            return rename_damaged(self.path)
        shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink(missing_ok=True)
        return None


def find_repairs(directory: Path) -> list[Repair]:
    """List all repairs of a project, without changing anything.

    Raises:
        ConfigError: the directory does not exist, or a run is active in it.
    """
    if not directory.is_dir():
        raise ConfigError(
            f"{directory}: {describe_kind(directory)}, not a directory; name a project's directory"
        )
    return [
        *_find_stale_lock(directory),
        *_find_damaged_files(directory),
        *_find_damaged_models(directory),
        *_find_unfinished_files(directory),
    ]


def _find_stale_lock(directory: Path) -> Iterator[Repair]:
    """Yield the repair of the lock of a killed run."""
    locks = directory / ".snakemake/locks"
    if not (locks.is_dir() and any(locks.iterdir())):
        return
    # The lock belongs to a run that is still active.
    if is_running("snakemake", directory):
        raise ConfigError(f"{directory}: a run works here; wait for its end, then repair")
    yield Repair(RepairAction.UNLOCK, locks, f"{directory} is locked by a run that was killed")


def _find_damaged_files(directory: Path) -> Iterator[Repair]:
    """Yield the repairs of damaged results and prompts."""
    results = directory / "results"
    result_paths = (
        path for folder in _RESULT_FOLDERS for path in sorted((results / folder).rglob("*"))
    )
    single_files = (directory / paths.PROVENANCE_FILE, results / "report.html")
    for path in (directory / paths.PROMPTS_FILE, *result_paths, *single_files):
        # Names of unfinished files begin with a dot; they are removed, not renamed.
        if not path.is_file() or path.name.startswith("."):
            continue
        try:
            _check_intact(path)
        except DamagedFile as error:
            yield Repair(RepairAction.RENAME, path, error.problem)


def _find_damaged_models(directory: Path) -> Iterator[Repair]:
    """Yield the repairs of models with a damaged record of their weights."""
    for model in sorted((directory / paths.model_directory("")).glob("[!.]*/")):
        try:
            read_recorded_checksums(model)
        except DamagedFile as error:
            # A renamed model keeps its damaged record.
            if ".damaged" not in model.name:
                yield Repair(RepairAction.RENAME, model, error.problem)


def _find_unfinished_files(directory: Path) -> Iterator[Repair]:
    """Yield the removals of unfinished files and folders of ended processes."""
    for folder in ("results", "resources", "config"):
        for parent, directories, files in os.walk(directory / folder):
            partial_names = [name for name in (*directories, *files) if is_stale_partial(name)]
            # Removing a folder removes its content too, so that the walk skips it.
            directories[:] = [name for name in directories if name not in partial_names]
            for path in (Path(parent, name) for name in partial_names):
                yield Repair(RepairAction.REMOVE, path, f"{path} is unfinished, from a killed job")


def _check_intact(path: Path) -> None:
    """Check that a file is intact, or raise DamagedFile."""
    if path.suffix in _READERS:
        _READERS[path.suffix](path)
        return
    end = _FILE_ENDINGS.get(path.suffix)
    # Files of other suffixes have no known end to check.
    if end is None:
        return
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(end)))
        if size == 0 or file.read(len(end)) != end:
            raise DamagedFile(f"{path}: {'cut' if size else 'empty'}", path)
