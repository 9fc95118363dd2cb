"""Params of rules that fetch: sources as plain values, for Snakemake."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.adapters import AdapterSource
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.local_files import compute_local_state
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.utils.atomic_files import checksum_path
from llmchecker.utils.file_state import compute_current_sha256


def describe_model_source(
    source: ModelSource | ServerSource, directory: str | Path
) -> dict[str, Any]:
    """Describe the source of a model, with the state of its files on this machine.

    Another state is another param, so that a changed model is fetched again.

    Args:
        source: the source.
        directory: the model directory, whose record saves the reading of unchanged files.
    """
    state = compute_local_state(source.local_files, Path(directory))
    # a source elsewhere has a commit, a version or a checksum
    return {**source.record, "state": state} if state else source.record


def parse_model_source(about: Mapping[str, Any]) -> ModelSource | ServerSource:
    """Parse the source of a model from its property `about`."""
    source = parse_source(about["source"])
    if source.scheme == "server":
        return ServerSource.from_record(about)
    parts = tuple((parse_source(part["source"]), part["file"]) for part in about["parts"])
    adapters = tuple(AdapterSource.from_record(record) for record in about.get("adapters", ()))
    subfolder = about.get("subfolder", "")
    return ModelSource(source, about["file"], parts, about["sha256"], adapters, subfolder)


def describe_dataset(dataset: DatasetSource, path: str | Path) -> dict[str, Any]:
    """Describe the source of a data set as a dict of its fields, with the state of a local file.

    Args:
        dataset: the data set.
        path: the fetched file, which is the state of a source that is gone.
    """
    described = dict(vars(dataset)) | {"source": str(dataset.source)}
    file, checksum = dataset.local_file, checksum_path(path)
    if file is not None and file.is_file():
        return described | {"state": compute_current_sha256(file)}
    # the format of sha256sum begins with the checksum
    if file is not None and checksum.is_file():
        return described | {"state": checksum.read_text(encoding="utf-8").partition(" ")[0]}
    return described


def parse_dataset(described: Mapping[str, Any]) -> DatasetSource:
    """Parse the description of `describe_dataset`."""
    keys = {key: value for key, value in described.items() if key != "state"}
    return DatasetSource(**{**keys, "source": parse_source(described["source"])})
