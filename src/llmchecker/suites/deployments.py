"""The deployments of a suite, whose decoding and system prompt may have columns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker.config.deployment import Deployment
from llmchecker.config.models import read_decoding
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Start
from llmchecker.suites.matrix import Alternative
from llmchecker.suites.templates import Row, insert_columns, insert_values, locate_errors


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
    if (first.model.decoding, first.model.reader) != (
        second.model.decoding,
        second.model.reader,
    ):
        differing.append((first.describe_decoding(), second.describe_decoding()))
    if first.system != second.system:
        differing.append((_name_system(first, 1), _name_system(second, 2)))
    # the same deployment twice, or one whose files differ
    if not differing:
        return f"{first.name} − {second.name}"
    sides = (" with ".join(side) for side in zip(*differing, strict=True))
    return ", ".join([*same, " − ".join(sides)])


def _name_system(deployment: Deployment, number: int) -> str:
    if deployment.system_name:
        return deployment.system_name
    return f"system {number}" if deployment.system else "no system"


class RowDeployments:
    """The deployments of one name: one for each decoding that the rows of tables contain.

    Args:
        deployment: the deployment, whose decoding is that of rows without one.
        decoding: keys of a decoding with columns; None if the decoding has no columns.
        folder: the folder of the suite file, to which paths are relative.
        system_key, decoding_key: keys of the suite file, for messages.
    """

    def __init__(
        self,
        deployment: Deployment,
        decoding: str | Mapping[str, Any] | None = None,
        folder: Path | None = None,
        *,
        system_key: str = "system",
        decoding_key: str = "decoding",
    ) -> None:
        self.deployment = deployment
        self._decoding = decoding
        self._folder = folder
        self._system_key = system_key
        self._decoding_key = decoding_key
        self._by_decoding: dict[str, Deployment] = {}

    def add_alternative(self, system: Alternative) -> "RowDeployments":
        """Return the deployments with one of several system prompts."""
        name = f"{self.deployment.name}, {system.name}" if system.name else self.deployment.name
        return RowDeployments(
            replace(self.deployment, name=name, system=system.content, system_name=system.name),
            self._decoding,
            self._folder,
            system_key=system.key,
            decoding_key=self._decoding_key,
        )

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
                decoding = read_decoding(entry, self._folder)
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
        with prefix_errors(f"{self._system_key}: {place}"):
            system = insert_columns(system, row)
        return replace(prompt, messages=(("system", system), *prompt.messages))
