"""How a model was asked: with which weights, code and versions, where and when.

Each job that grows a tree notes its `Making` in the tree's record. So a later run that keeps the
tree tells how it was grown, not how that run would have grown it.
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
from llmchecker.deployed.decoding import Asked, decoding_as_json
from llmchecker.fetching.model_files import PROVENANCE
from llmchecker.files import read_json
from llmchecker.trees import fingerprints

ASKING = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
"""Packages that take part in what a model answers."""


@dataclass(frozen=True)
class CodeVersion:
    """The code that ran.

    Attributes:
        version: of this package.
        commit: of the git repository that tracks this package; None where none does.
        changed: whether tracked files differ from the commit; None without a commit.
    """

    version: str
    commit: str | None
    changed: bool | None


@dataclass(frozen=True)
class Machine:
    """Processor and operating system by name."""

    processor: str
    system: str


@dataclass(frozen=True)
class Making:
    """How a model was asked.

    Attributes:
        source: as the model was fetched, with its commit or version, or the server's name for it.
        files: sha256 of every file of the model, the weights' and the tokenizer's among them.
        kind, dtype, device, threads: as in `load_model`.
        decoding: how next tokens are chosen, by the names of `Decoding`; None for temperature 1.
        versions: of Python and of the packages that take part, and of the server's program.
        date: in ISO 8601 and UTC.
    """

    source: str
    files: Mapping[str, str]
    kind: str
    dtype: str
    device: str
    threads: int
    decoding: Any
    versions: Mapping[str, str]
    program: CodeVersion
    machine: Machine
    date: str


def describe_making(
    directory: str | Path,
    files: Mapping[str, str],
    kind: str,
    dtype: str,
    device: str,
    threads: int,
    decoding: Asked = None,
) -> Making:
    """Say how the model in a directory is asked here and now, given the sha256 of its files."""
    about = as_fetched(directory := Path(directory))
    return Making(
        source=about.get("source", f"path:{directory}") + _served_as(about),
        files=files,
        kind=kind,
        dtype=dtype,
        device=device,
        threads=threads,
        decoding=decoding_as_json(decoding),
        versions=versions(ASKING) | about.get("versions", {}),
        program=code_version(),
        machine=machine(),
        date=utc_now(),
    )


def _served_as(about: Mapping[str, Any]) -> str:
    """What the source of a model is followed by: its name on its server, if it has one."""
    return f" ({about['serving']['model']})" if "serving" in about else ""


def as_fetched(directory: Path) -> dict[str, Any]:
    """What was noted when a model was fetched; nothing if the directory was not fetched."""
    path = directory / PROVENANCE
    return read_json(path) if path.is_file() else {}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a machine that checks needs no torch
            continue
    return found


def code_version(file: str | Path = __file__) -> CodeVersion:
    """The code that runs, and the commit of the repository that tracks `file`, a part of it."""
    file = Path(file)
    # a repository around this one does not track the file, and knows nothing of it
    tracked = _git(file.parent, "ls-files", "--error-unmatch", file.name)
    commit = _git(file.parent, "rev-parse", "HEAD") if tracked else None
    status = _git(file.parent, "status", "--porcelain", "--untracked-files=no") if commit else None
    return CodeVersion(
        version=llmchecker.__version__,
        commit=commit or None,
        changed=None if status is None else bool(status),
    )


def machine() -> Machine:
    """The machine that this runs on."""
    return Machine(processor=fingerprints.processor(), system=platform.platform())


def utc_now() -> str:
    """The time in ISO 8601 and UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git(directory: Path, *arguments: str) -> str | None:
    """What git prints, None where it fails or there is none."""
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
