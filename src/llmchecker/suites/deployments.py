"""Deployments: a model with a system prompt and a decoding, as users meet it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    describe_directory,
    select_decoding,
)
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import DecodingKeys
from llmchecker.config.section import parse_section
from llmchecker.errors import ConfigError, UnknownName, did_you_mean, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json, parse_decoding
from llmchecker.suites.templates import Row, insert_columns, insert_values, locate_errors


@dataclass(frozen=True)
class Deployment:
    """A model with a system prompt and a decoding.

    With a table of prompts, the decoding may differ between rows, so that several deployments have
    one name.

    Attributes:
        name: the name in all outputs.
        model: the model with its decoding.
        system: the system prompt of chats, with columns of the prompts; None for none.
    """

    name: str
    model: ModelConfig
    system: str | None

    @property
    def key(self) -> tuple[str, DecodingChoice]:
        """What distinguishes the deployments of a suite: each is opened by itself."""
        return self.name, self.model.decoding

    def describe_decoding(self) -> str:
        """Describe the decoding in words, as `temperature 0.2, top_p 0.9`."""
        decoding = self.model.decoding
        return "temperature 1" if decoding is None else str(decoding)

    def describe(self) -> dict[str, Any]:
        """Return all that determines the answers, as JSON."""
        return {
            "name": self.name,
            "source": str(self.model.source.source),
            "kind": self.model.kind,
            "dtype": self.model.dtype,
            "decoding": decoding_as_json(self.model.decoding),
            "system": self.system,
        }


def resolve_deployment(
    key: str,
    name: str,
    config: Registry | None,
    folder: Path,
    system: str | None,
    decoding: Mapping[str, Any],
) -> Deployment:
    """Find the model of a name: one of the configuration, or a directory.

    Args:
        key: the key with the name, for messages.
        name: the name of a model, or the path of a directory.
        config: the configuration; None without one.
        folder: the folder to which a path is relative.
        system: the system prompt.
        decoding: the keys of the suite, with or without `decoding`.

    Raises:
        UnknownName: the name is neither a model nor a directory.
        ConfigError: the model has no distributions, or no decoding.
    """
    models = {} if config is None else config.models
    # a server alone names neither its API nor the model's tokenizer
    if "://" in name:
        raise ConfigError(
            f"{key}: {name!r} is a server; add it to `models` of the configuration with api and "
            "tokenizer, and give its name"
        )
    directory = folder / Path(name).expanduser()
    if name in models:
        model = models[name]
    elif directory.is_dir():
        model = describe_directory(directory.name.lower() or "model", directory.absolute())
    else:
        hint = did_you_mean(name, models) or ";"
        known = ", ".join(models) or "no models, as no configuration was found"
        raise UnknownName(
            f"{key}: {name!r} is no directory in {folder} and no model{hint} known are {known}"
        )
    check_has_distributions(key, model)
    model = replace(model, decoding=select_decoding("decoding", decoding, model))
    return Deployment(name, model, system)


def name_difference(first: Deployment, second: Deployment) -> str:
    """Name what differs between two deployments.

    Models are named, a decoding by its settings, and system prompts by their number, as in `m,
    system 1 − system 2`.
    """
    same = []
    differing: list[tuple[str, str]] = []
    models = first.model.name, second.model.name
    if models[0] == models[1]:
        same = [models[0]]
    else:
        differing = [models]
    if first.model.decoding != second.model.decoding:
        differing.append((first.describe_decoding(), second.describe_decoding()))
    if first.system != second.system:
        systems = ((1, first.system), (2, second.system))
        names = [f"system {number}" if text else "no system" for number, text in systems]
        differing.append((names[0], names[1]))
    # the same deployment twice, or one whose files differ
    if not differing:
        return f"{first.name} − {second.name}"
    sides = (" with ".join(side) for side in zip(*differing, strict=True))
    return ", ".join([*same, " − ".join(sides)])


def relate_model(name: str, folder: Path) -> str:
    """Return a model of the command line as a suite in a folder names it.

    A path such as `./model` in the current folder becomes a path from the folder of the suite,
    unless it is one already.
    """
    directory = Path(name).expanduser()
    # a name without a slash may be one of the configuration
    is_path = "/" in name and not directory.is_absolute()
    if not is_path or not directory.is_dir() or (folder / directory).is_dir():
        return name
    return os.path.relpath(directory, folder)


class RowDeployments:
    """The deployments of one name: one for each decoding that the rows of tables contain.

    Args:
        deployment: the deployment, whose decoding is that of rows without one.
        decoding: keys of a decoding with columns; None if the decoding has no columns.
        system_key, decoding_key: keys of the suite file, for messages.
    """

    def __init__(
        self,
        deployment: Deployment,
        decoding: str | Mapping[str, Any] | None = None,
        *,
        system_key: str = "system",
        decoding_key: str = "decoding",
    ) -> None:
        self.deployment = deployment
        self._decoding = decoding
        self._system_key = system_key
        self._decoding_key = decoding_key
        self._by_decoding: dict[str, Deployment] = {}

    def select(self, place: str, row: Row) -> Deployment:
        """Return the deployment with the decoding of a row.

        Args:
            place: the key of the entry, for messages.
            row: the row; without cells for an entry without a table.

        Raises:
            ConfigError: a column is absent, or the decoding is invalid.
        """
        if self._decoding is None:
            return self.deployment
        with prefix_errors(f"{self._decoding_key}: {place}"):
            entry = insert_values(self._decoding, row)
        if repr(entry) not in self._by_decoding:
            with locate_errors(self._decoding_key, self._decoding, row):
                if isinstance(entry, Mapping):
                    entry = parse_section(DecodingKeys, entry).explicit_keys
                decoding = parse_decoding(entry)
            model = replace(self.deployment.model, decoding=decoding)
            self._by_decoding[repr(entry)] = replace(self.deployment, model=model)
        return self._by_decoding[repr(entry)]

    def add_system(self, place: str, prompt: Start, row: Row | None) -> Start:
        """Return a prompt with the system prompt before it.

        Args:
            place: the key of the entry, for messages.
            prompt: the prompt.
            row: the row for columns of the system prompt; None if it is no template.

        Raises:
            ConfigError: a column is absent, or the prompt cannot have a system prompt.
        """
        system = self.deployment.system
        if system is None:
            return prompt
        if isinstance(prompt, str):
            raise ConfigError(
                f"{place}: system: a system prompt belongs to a chat; use user in place of start"
            )
        if prompt.messages[0][0] == "system":
            raise ConfigError(
                f"{place}: messages: a system prompt is given, and the suite has one; remove one"
            )
        if row is not None:
            with prefix_errors(f"{self._system_key}: {place}"):
                system = insert_columns(system, row)
        return Chat((("system", system), *prompt.messages))
