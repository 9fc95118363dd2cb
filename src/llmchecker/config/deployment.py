"""Deployments: models with a decoding and a system prompt, as users meet them.

    smollm2-135m                    a model of the configuration
    ./model, ./model.gguf           a directory or a GGUF file
    hf:owner/name@commit            a repository of the hub
    pypi:wheel==version             a wheel with one GGUF file
    openai:gpt-4o-mini              a model of a provider, which returns texts alone
    {source: http://…, api: …, …}   a server, or any other source with the keys of a model

Suites and the command line resolve these names here. A fetched model is in the user's cache folder,
next to the models of all other projects.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.config import paths
from llmchecker.config.models import (
    ModelConfig,
    describe_application,
    describe_directory,
    expand_keys,
    parse_adapter_source,
    parse_model,
    read_adapter_keys,
    select_decoding,
    select_reader,
    select_template,
)
from llmchecker.config.plan import compute_short_hash
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import AdapterKeys, DeploymentKeys
from llmchecker.errors import ConfigError, UnknownName, did_you_mean, prefix_errors
from llmchecker.models.application import Application
from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.models.decoding.settings import DecodingChoice
from llmchecker.models.servers.providers import PROVIDER_SCHEMES, suggest_api, suggest_name
from llmchecker.models.servers.settings import TEXT_SETTINGS
from llmchecker.models.sources.source_spec import Source, parse_source, pin_source
from llmchecker.utils.atomic_files import compute_sha256
from llmchecker.utils.section import parse_section

_ADDRESS_SCHEMES = ("http://", "https://")
_REMOTE_SCHEMES = ("hf:", "pypi:", "server:", *PROVIDER_SCHEMES, *_ADDRESS_SCHEMES)
_SOURCE_SCHEMES = ("path:", *_REMOTE_SCHEMES)
"""Beginnings of names that are sources."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@\w+)?")
"""A name such as `owner/name`, which may be meant for the hub."""

DeploymentName = str | Mapping[str, Any]
"""A name, a source, a path, or the keys of a model."""
GivenModel = DeploymentName | Application
"""A name as above, or an application of Python."""


@dataclass(frozen=True)
class Deployment:
    """A model with a decoding and a system prompt.

    With a table of prompts, the decoding may differ between rows, so that several deployments have
    one name.

    Attributes:
        name: the name in all outputs of a suite.
        model: the model with its decoding.
        system: the system prompt of chats, with columns of the prompts; None for none.
        system_name: the name of the system prompt if a suite has several; else empty.
    """

    name: str
    model: ModelConfig
    system: str | None = None
    system_name: str = ""

    @property
    def key(self) -> tuple[str, DecodingChoice, AnswerReader]:
        """What distinguishes the deployments of a suite: each is opened by itself."""
        return self.name, self.model.decoding, self.model.reader

    def describe_decoding(self) -> str:
        """Describe the decoding and the stops in words, as `temperature 0.2, stop 'User:'`."""
        decoding = self.model.decoding
        words = "temperature 1" if decoding is None else str(decoding)
        return ", ".join(filter(None, (words, str(self.model.reader))))

    def describe(self) -> dict[str, Any]:
        """Return all that determines the answers, as JSON."""
        return {"name": self.name, **self.model.answer_settings, "system": self.system}


def resolve_deployment(
    place: str,
    name: GivenModel | None,
    registry: Registry,
    *,
    folder: Path | None = None,
    system: str | None = None,
    decoding: Mapping[str, Any] | None = None,
    decoding_place: str = "decoding",
    template: Mapping[str, Any] | None = None,
    template_place: str = "template",
    reading: Mapping[str, Any] | None = None,
    reading_prefix: str = "",
) -> Deployment:
    """Find the model of a name, without fetching or loading it.

    A name of the configuration precedes a directory of the same name. A repository of the hub
    without a commit has the commit that was its newest at the first use on this machine.

    Args:
        place: the key or the option with the name, for messages.
        name: the name, or an application; None for the first model of the configuration with
            distributions.
        registry: the configuration; an empty one without a file.
        folder: the folder to which paths are relative; by default the current one.
        system: the system prompt.
        decoding: keys with or without `decoding`; by default that of the model.
        decoding_place: the key or the options of the decoding, for messages.
        template: settings of the chat template; None for those of the model.
        template_place: the key or the option of these settings, for messages.
        reading: keys with or without `stop`, `include_stop`, `max_tokens` and `thought`; by default
            those of the model.
        reading_prefix: the beginning of the names of these keys in messages, such as `--`.

    Raises:
        UnknownName: no model, directory or source has the name.
        ConfigError: a source has an invalid form or lacks a key, or the model does not support the
            decoding.
        SourceUnavailable: the hub does not return the newest commit.
    """
    folder = (folder or Path.cwd()).absolute()
    text, model = _find_model(place, name, registry, folder)
    model = replace(
        model,
        decoding=select_decoding(decoding_place, decoding or {}, model, folder),
        template=select_template(template_place, template, model),
        reader=select_reader(reading_prefix, reading or {}, model),
    )
    return Deployment(text, model, system)


def is_address(name: str) -> bool:
    """Return whether a name is the address of a server, with or without `server:`."""
    return name.removeprefix("server:").startswith(_ADDRESS_SCHEMES)


def is_provider_name(name: str) -> bool:
    """Return whether a name is a short one of a provider's model, such as `openai:gpt-4o-mini`."""
    return name.startswith(PROVIDER_SCHEMES)


def relate_name(name: DeploymentName, folder: Path) -> DeploymentName:
    """Return a name of the command line as a file in a folder contains it.

    A path such as `./model` in the current folder becomes a path from the folder of the file,
    unless it is one already.
    """
    if not isinstance(name, str) or name.startswith(_REMOTE_SCHEMES):
        return name
    text = name.removeprefix("path:")
    path = Path(text).expanduser()
    # a name without a slash may be one of the configuration
    is_path = "/" in name and not path.is_absolute()
    if not is_path or not path.exists() or (folder / path).exists():
        return name
    return name.removesuffix(text) + os.path.relpath(path, folder)


def _find_model(
    place: str, name: GivenModel | None, registry: Registry, folder: Path
) -> tuple[str, ModelConfig]:
    """Return the name of a deployment and its model."""
    if name is None:
        # servers that only write texts cannot answer a query, so the default skips them
        models = registry.distribution_models or registry.models
        if not models:
            raise ConfigError(f"{place}: the configuration has no model; name a directory")
        return next(iter(models.items()))
    if isinstance(name, Application):
        return name.name, describe_application(name)
    if isinstance(name, Mapping):
        keys = parse_section(DeploymentKeys, name, place)
        if keys.source in registry.models:
            raise ConfigError(
                f"{place}: {keys.source!r} is a model of the configuration, which has its own "
                "keys; write them there, or name its source"
            )
        name = keys.label or keys.source + _format_parts(keys)
        return name, _parse_source_keys(place, keys, folder)
    if name in registry.models:
        return name, registry.models[name]
    if name.startswith(_SOURCE_SCHEMES):
        return name, _parse_source_keys(place, DeploymentKeys(source=name), folder)
    # the folder itself is `.`
    if not name:
        raise UnknownName(f"{place}: the name is empty; name a directory or hf:owner/name")
    path = folder / Path(name).expanduser()
    if path.is_dir():
        return name, describe_directory(_build_slug(path.name), path)
    if path.is_file():
        return name, _parse_source_keys(place, DeploymentKeys(source=f"path:{path}"), folder)
    raise UnknownName(f"{place}: {_explain_unknown(name, registry, folder)}")


def _parse_source_keys(place: str, keys: DeploymentKeys, folder: Path) -> ModelConfig:
    """Return the model of a source: a directory, or a model in the user's cache folder."""
    with prefix_errors(place):
        keys = expand_keys(keys)
        source = _parse_source(keys.source, folder)
        is_text_only = keys.api in TEXT_SETTINGS
        label = _build_label(source)
        label += _format_parts(keys)
        # one address serves many models
        if is_text_only and keys.served_as is not None:
            label = f"{keys.served_as} at {label}"
        changes: dict[str, Any] = {"label": keys.label or label}
        if source.scheme == "server" and keys.api is None:
            raise ConfigError(
                f"{source.name}: no api; write {suggest_api(source.name)}, or api: vllm with a "
                "tokenizer"
            )
        if source.scheme == "server" and not is_text_only and keys.tokenizer is None:
            raise ConfigError(
                f"{source.name}: no tokenizer; add --api and --tokenizer, or write "
                "{source: …, api: …, tokenizer: …} in a suite"
            )
        source = _pin_source(source)
        if source.scheme == "path" and keys.sha256 is None and source.path.is_file():
            # the converted weights of an earlier file of this name are another model
            changes["sha256"] = compute_sha256(source.path)
        if keys.adapter is not None:
            changes["adapter"] = _resolve_adapters(keys.adapter, folder)
        if keys.tokenizer is not None:
            changes["tokenizer"] = str(_parse_source(keys.tokenizer, folder))
        explicit_keys = {**keys.explicit_keys, **changes, "source": str(source)}
        keys = parse_section(DeploymentKeys, explicit_keys)
    host = source.name.rstrip("/").rpartition("/")[2]
    # the folder of answers has the name of the model that wrote them
    slug = _build_slug((keys.served_as if is_text_only else None) or host)
    model = parse_model(slug, keys, place)
    # a model with an adapter has a directory of its own, with links to the files of both
    if source.scheme == "path" and source.path.is_dir() and keys.adapter is None:
        return replace(model, given_directory=source.path / (keys.subfolder or ""))
    # other settings, such as another checksum, need a directory of their own; answers that are paid
    # for are those of any number of connections, and of another key
    record = model.source_record if is_text_only else model.source.record
    settings = json.dumps(record, sort_keys=True, default=str)
    unique_name = f"{slug}-{compute_short_hash(settings)}"
    # a host has many models, whose stored answers must not be in one folder
    name = unique_name if source.scheme == "server" else slug
    return replace(
        model, name=name, cached_directory=paths.find_user_cache() / "models" / unique_name
    )


def _parse_source(text: str, folder: Path) -> Source:
    """Parse a source; an address needs no `server:`, and a path no `path:`."""
    if is_address(text):
        return parse_source(f"server:{text.removeprefix('server:')}")
    source = parse_source(text if text.startswith(_SOURCE_SCHEMES) else f"path:{text}")
    if source.scheme != "path":
        return source
    # an absolute path does not depend on the folder of a later step
    return replace(source, name=str(folder / Path(source.name).expanduser()))


def _format_parts(keys: DeploymentKeys) -> str:
    """Return what a name says of a subfolder and of adapters, as `/step-100 + lora x 0.5`."""
    words = f"/{keys.subfolder}" if keys.subfolder else ""
    for adapter in read_adapter_keys(keys.adapter):
        words += f" + {_build_label(parse_adapter_source(adapter.source))}"
        words += f"/{adapter.subfolder}" if adapter.subfolder else ""
        words += f" x {adapter.scale}" if adapter.scale != 1 else ""
    return words


def _resolve_adapters(
    entry: str | Sequence[str | AdapterKeys], folder: Path
) -> list[dict[str, Any]]:
    """Return adapters with absolute paths, and with the commits of hub repositories."""
    resolved = []
    for adapter in read_adapter_keys(entry):
        source = parse_adapter_source(adapter.source)
        if source.scheme == "path":
            source = _parse_source(source.name, folder)
        pinned = {"source": str(_pin_source(source)), "scale": adapter.scale}
        resolved.append(pinned | ({"subfolder": adapter.subfolder} if adapter.subfolder else {}))
    return resolved


def _pin_source(source: Source) -> Source:
    """Return the source with the commit of its first use on this machine, unless it has one."""
    if not source.needs_lock:
        return source
    name = str(source).removeprefix("hf:")
    lock = f"{_build_slug(name)}-{compute_short_hash(name)}.json"
    return pin_source(source, paths.find_user_cache() / "locks" / lock)


def _explain_unknown(name: str, registry: Registry, folder: Path) -> str:
    text = f"{name!r} is no model and no directory in {folder}"
    known = f" known are {', '.join(registry.models)}" if registry.models else ""
    if hint := did_you_mean(name, registry.models):
        return f"{text}{hint}{known}"
    if (meant := suggest_name(name)) is not None:
        meant = meant if meant.startswith("{") else repr(meant)
        return f"{text}, did you mean {meant}?{known}"
    if _HUB_NAME.fullmatch(name):
        return f"{text}; for a model of the hub write hf:{name}{known and f';{known}'}"
    other = known or " name a directory, hf:owner/name or pypi:wheel==version"
    return f"{text};{other}"


def _build_label(source: Source) -> str:
    """Return the label of a source, with a short form of a commit."""
    if source.scheme == "path":
        return source.path.name or str(source.path)
    if source.scheme != "hf" or not source.revision:
        return source.name
    return f"{source.name}@{source.revision if source.needs_lock else source.revision[:8]}"


def _build_slug(name: str) -> str:
    """Return a name for paths."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "model"
