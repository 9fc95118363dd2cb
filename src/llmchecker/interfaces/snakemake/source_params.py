"""Params of rules that fetch: sources as plain values, for Snakemake."""

from collections.abc import Mapping
from typing import Any

from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.source_spec import parse_source


def parse_model_source(about: Mapping[str, Any]) -> ModelSource | ServerSource:
    """Parse the source of a model from its property `about`."""
    source = parse_source(about["source"])
    if source.scheme == "server":
        return ServerSource.from_record(about)
    parts = tuple((parse_source(part["source"]), part["file"]) for part in about["parts"])
    return ModelSource(source, about["file"], parts, about["sha256"])


def describe_dataset(dataset: DatasetSource) -> dict[str, Any]:
    """Describe the source of a data set as a dict of its fields."""
    return dict(vars(dataset)) | {"source": str(dataset.source)}


def parse_dataset(described: Mapping[str, Any]) -> DatasetSource:
    """Parse the description of `describe_dataset`."""
    return DatasetSource(**{**described, "source": parse_source(described["source"])})
