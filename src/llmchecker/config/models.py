"""Language models of a configuration: where each comes from and how it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.config import paths
from llmchecker.config.validation import at_key
from llmchecker.deployed.decoding import (
    AS_PUBLISHED,
    Asked,
    Decoding,
    decoding_as_json,
    read_decoding,
)
from llmchecker.errors import ConfigError
from llmchecker.fetching.models import ModelSource
from llmchecker.fetching.sources import Source, parse_source
from llmchecker.serving.settings import SERVER_KEYS, ServerSource, server_source

_MARK = Path(paths.trees_mark("model")).suffix


@dataclass(frozen=True)
class ModelConfig:
    """A language model: where it comes from and how it runs.

    Attributes:
        name: in the configuration and in paths.
        label: in tables and figures.
        source: where the weights come from, or which server answers.
        kind, dtype, device: as in `load_model`; a server has its own, and is `served` or, if it
            only writes texts, a `writer`.
        mem_mb: memory of a job with the model, in MB.
        gpu_mem_mb: memory of the GPU that such a job needs, in MB.
        decoding: how next tokens are chosen.
    """

    name: str
    label: str
    source: ModelSource | ServerSource
    kind: str
    dtype: str
    device: str
    mem_mb: int
    gpu_mem_mb: int
    decoding: Asked = None

    @property
    def tells(self) -> bool:
        """Whether it tells distributions of next tokens, so that trees can be grown of it."""
        return self.kind != "writer"

    def asked(self, decoding: Asked = None) -> str:
        """What tables and answers call the model: its label, and how its next tokens are chosen.

        Args:
            decoding: of an experiment; None for that of the model, which is not named where tokens
                are drawn at temperature 1 from all.
        """
        chosen = self.decoding if decoding is None else decoding
        if chosen is None:
            return self.label
        return f"{self.label}, {'as published' if chosen == AS_PUBLISHED else chosen}"


def read_model(name: str, entry: Mapping[str, Any], written: Mapping[str, Any]) -> ModelConfig:
    """Read a model of the configuration.

    Args:
        name: of the model.
        entry: its keys, with their defaults.
        written: its keys as they are written, without defaults.

    Raises:
        ConfigError: names the key, its value and what would be right.
    """
    if name.endswith(_MARK):
        raise ConfigError(
            f"models.{name}: a name that ends in {_MARK} would be that of a file of another model"
        )
    with at_key(f"models.{name}"):
        place = parse_source(entry["source"])
        source = (
            server_source(place, written)
            if place.scheme == "server"
            else _model_source(place, written)
        )
    settings = {
        key: entry[key] for key in ("label", "kind", "dtype", "device", "mem_mb", "gpu_mem_mb")
    }
    if place.scheme == "server":
        kind = "writer" if source.writes_only else "served"
        settings |= {"kind": kind, "dtype": "as served", "device": "server"}
    model = ModelConfig(name=name, source=source, **settings)
    return replace(model, decoding=decoding_of(f"models.{name}.decoding", entry, model))


def decoding_of(key: str, entry: Mapping[str, Any], model: ModelConfig) -> Asked:
    """The decoding that an entry names for a model, or else the model's own.

    Args:
        key: of the decoding, for messages.
        entry: which may have the key `decoding`.

    Raises:
        ConfigError: a value that cannot be used, or a model that is not decoded.
    """
    if "decoding" not in entry:
        return model.decoding
    if model.kind != "causal":
        raise ConfigError(
            f"{key}: {model.name} is a {model.kind} model; only causal models that run here are "
            "decoded, since a server tells too little of a distribution, and `generate` of "
            "transformers fills in no mask"
        )
    with at_key(key):
        return read_decoding(entry["decoding"])


def own_decoding_of(key: str, entry: Mapping[str, Any], model: ModelConfig) -> Asked:
    """The decoding that an entry names, for a model that has another one; else None.

    Temperature 1 and uncut is then a `Decoding` without settings.

    Raises:
        ConfigError: as `decoding_of` raises it.
    """
    asked = decoding_of(key, entry, model)
    if decoding_as_json(asked) == decoding_as_json(model.decoding):
        return None
    return Decoding() if asked is None else asked


def check_labels(models: Mapping[str, ModelConfig]) -> None:
    """Refuse equal labels: tables and figures tell models apart by them alone."""
    first: dict[str, str] = {}
    for name, model in models.items():
        if first.setdefault(model.label, name) != name:
            raise ConfigError(
                f"models.{name}.label: {model.label!r} is the label of "
                f"models.{first[model.label]} too; labels must differ"
            )


def require_tells(key: str, model: ModelConfig) -> None:
    """Refuse a server that only writes texts where distributions are needed.

    Args:
        key: the key, or the option of the shell, that names the model.

    Raises:
        ConfigError: it tells no distributions.
    """
    if not model.tells:
        raise ConfigError(
            f"{key}: {model.name} is asked by an interface that only writes texts; it may propose "
            "invariants, but a tree needs distributions, as vLLM and llama.cpp tell them"
        )


def require_told(key: str, k: int, model: ModelConfig) -> None:
    """Refuse a k for which a server would have to tell more tokens than it is asked for.

    Args:
        key: the key, or the option of the shell, that says k.

    Raises:
        ConfigError: there is no such head.
    """
    source = model.source
    if isinstance(source, ServerSource) and k > source.tokens:
        raise ConfigError(
            f"{key}: {k} is more than models.{model.name}.tokens, {source.tokens}, which is how "
            "many of the most probable tokens the server is asked for; raise that (and vLLM's "
            "--max-logprobs), or lower this"
        )


def _model_source(source: Source, entry: Mapping[str, Any]) -> ModelSource:
    if unwanted := [key for key in SERVER_KEYS if key in entry]:
        raise ConfigError(f"{unwanted[0]} is for a server, and the source is {source}")
    return ModelSource(
        source=source,
        file=entry.get("file"),
        parts=tuple((parse_source(p["source"]), p["file"]) for p in entry.get("parts", [])),
        sha256=entry.get("sha256"),
    )
