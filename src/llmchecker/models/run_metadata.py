"""Run metadata: weights, code, versions, machine and date of a model run.

Each job that builds a tree writes its `RunMetadata` to the tree's record. So a later run that
reuses the tree reports how the tree was built.
"""

import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import llmchecker
from llmchecker.models.fingerprint import find_processor_name
from llmchecker.models.sources.adapters import AdapterSource
from llmchecker.models.sources.model_directory import PROVENANCE
from llmchecker.utils.atomic_files import read_json

MODEL_PACKAGES = "torch transformers tokenizers safetensors numpy peft torchao".split()
"""Packages that can affect a model's output."""


@dataclass(frozen=True)
class _CodeVersion:
    """Version of this package's code.

    Attributes:
        version: version of this package.
        commit: commit of the git repository that tracks this package; None without a repository.
        changed: whether tracked files differ from the commit; None without a commit.
    """

    version: str
    commit: str | None
    changed: bool | None


@dataclass(frozen=True)
class _Machine:
    """Names of the processor and the operating system."""

    processor: str
    system: str


@dataclass(frozen=True)
class RunMetadata:
    """Metadata of a model run.

    Attributes:
        source: source of the model with its commit or version, and its adapters; for a server,
            also the model's name.
        files: sha256 of every file of the model by name, including weights and tokenizer.
        kind, dtype, device, threads: as in `load_model`.
        decoding: fields of `Decoding` by name; None for temperature 1.
        versions: versions of Python, of the packages and of the server's program.
        program: version of this package's code.
        machine: processor and operating system.
        date: time in ISO 8601 and UTC.
    """

    source: str
    files: Mapping[str, str]
    kind: str
    dtype: str
    device: str
    threads: int
    decoding: Any
    versions: Mapping[str, str]
    program: _CodeVersion
    machine: _Machine
    date: str


def read_provenance(directory: Path) -> dict[str, Any]:
    """Read the record of a model's download; empty if there was no download."""
    path = directory / PROVENANCE
    return read_json(path) if path.is_file() else {}


def describe_source(record: Mapping[str, Any], directory: Path) -> str:
    """Return the source of a model with its adapters, by the record of its download."""
    source = record.get("source", f"path:{directory}")
    source += f" ({record['serving']['model']})" if "serving" in record else ""
    source += f"/{record['subfolder']}" if "subfolder" in record else ""
    adapters = map(AdapterSource.from_record, record.get("adapters", ()))
    return " + ".join((source, *map(str, adapters)))


def collect_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # a machine that checks needs no torch
            continue
    return versions


def find_code_version(file: str | Path = __file__) -> _CodeVersion:
    """Return the version of this code, and its commit if a repository tracks it.

    Args:
        file: path of a file of this code.
    """
    file = Path(file)
    # an enclosing repository that does not track the file is not this code's repository
    tracked_file = _run_git(file.parent, "ls-files", "--error-unmatch", file.name)
    commit = _run_git(file.parent, "rev-parse", "HEAD") if tracked_file else None
    status = (
        _run_git(file.parent, "status", "--porcelain", "--untracked-files=no") if commit else None
    )
    return _CodeVersion(
        version=llmchecker.__version__,
        commit=commit or None,
        # an empty status means that no tracked file differs
        changed=None if status is None else bool(status),
    )


def describe_machine() -> _Machine:
    """Return the names of this machine's processor and operating system."""
    return _Machine(processor=find_processor_name(), system=platform.platform())


def utc_now() -> str:
    """Return the time in ISO 8601 and UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _run_git(directory: Path, *arguments: str) -> str | None:
    """Return a git command's output; None if it fails or git is missing."""
    # without optional locks, `git status` does not write to the repository's index
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
