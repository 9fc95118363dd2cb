"""Files of this machine behind a source, whose content may change.

The record of what was fetched describes them. A later run compares them with it, and fetches again
after a change.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.errors import ChecksumMismatch, DamagedFile
from llmchecker.models.sources.model_directory import PROVENANCE
from llmchecker.utils.atomic_files import read_json
from llmchecker.utils.file_state import compute_checksums, describe_files, learn_files
from llmchecker.utils.processes import is_workflow_job

_KEY = "originals"
"""Key of the record with the states of the files."""

_log = logging.getLogger(__name__)


def describe_local_files(files: Mapping[str, Path]) -> dict[str, Any]:
    """Describe the files behind a source, as the record of a model directory contains them."""
    return {_KEY: describe_files(files)} if files else {}


def check_same(source: str, checksums: Mapping[str, str], described: Mapping[str, Any]) -> None:
    """Check that described files have the checksums that they had before they were fetched.

    Raises:
        ChecksumMismatch: a file was added, removed or changed.
    """
    current = {name: state["sha256"] for name, state in described.get(_KEY, {}).items()}
    if current != checksums:
        raise ChecksumMismatch(
            f"{source}: its files changed while they were fetched; run the same command again"
        )


def learn_local_files(directory: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """Return the recorded checksums of the files behind a source, by name.

    Files that are unchanged since then are not read again. Without a record the result is empty.
    """
    try:
        described = read_json(directory / PROVENANCE).get(_KEY)
    # a damaged record is reported by the job that needs the model
    except (OSError, DamagedFile):
        return {}
    if not isinstance(described, dict):
        return {}
    learn_files(described, files)
    states = {name: state for name, state in described.items() if isinstance(state, dict)}
    return {name: str(state.get("sha256")) for name, state in states.items()}


def compute_local_state(files: Mapping[str, Path], directory: Path) -> dict[str, str]:
    """Compute the checksums of the files behind a source, by name.

    Args:
        files: paths by name; empty if they are gone.
        directory: the model directory, whose record saves the reading of unchanged files.

    Returns:
        The checksums; the recorded ones if the files are gone, because what was fetched remains.
    """
    recorded = learn_local_files(directory, files)
    if not files:
        return dict(sorted(recorded.items()))
    return dict(sorted(compute_checksums(files).items()))


def is_outdated(directory: Path, source: str, files: Mapping[str, Path]) -> bool:
    """Return whether files behind a source changed after the model was fetched.

    If all files are gone, none counts as changed.

    Args:
        directory: the model directory.
        source: the source, for the message.
        files: the files behind the source, by name.

    Raises:
        ChecksumMismatch: a file changed, and this process is a job of the workflow. Other jobs of
            its run use the fetched model, which is therefore not replaced.
    """
    if not files:
        return False
    recorded = learn_local_files(directory, files)
    current = compute_checksums(files)
    changed = [n for n in recorded.keys() | current.keys() if recorded.get(n) != current.get(n)]
    if changed and is_workflow_job():
        raise ChecksumMismatch(
            f"{directory}: {min(changed)} of {source} changed after it was fetched; run the same "
            "command again"
        )
    if changed:
        _log.info("%s of %s changed after it was fetched", min(changed), source)
    return bool(changed)
