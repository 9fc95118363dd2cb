"""The quantifiers of a suite, created when they are needed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.config.deployment import Deployment, DeploymentName, resolve_deployment
from llmchecker.config.judges import create_quantifier_or_judge
from llmchecker.config.registry import Registry
from llmchecker.properties.quantifiers.interface import JudgesAnswers, Quantifier
from llmchecker.properties.registry import BUILTIN_TYPES, LazyQuantifiers, find_quantifier_files
from llmchecker.suites.tools import needs_tools
from llmchecker.utils.file_state import compute_checksums

_PATH_KEYS = ("file", "directory")
"""Settings of quantifiers that are paths, relative to the suite file."""
_MAX_RECENT = 64
"""Number of quantifiers in memory; cases in a row mostly share theirs."""


class QuantifierPool:
    """The quantifiers of a suite, created when they are needed.

    Args:
        registry: the configuration.
        properties: the settings of the suite's quantifiers by name.
        folder: folder to which paths in settings are relative.

    Attributes:
        judges: the judges among the quantifiers that were created.
        files: the sha256 of the files of these quantifiers when they were created, by path.
        properties: as above.
        names: the names of all quantifiers that a query may contain.
    """

    def __init__(
        self, registry: Registry, properties: Mapping[str, Mapping[str, Any]], folder: Path
    ) -> None:
        self._registry = registry
        self._folder = folder
        self._recent: dict[str, Quantifier] = {}
        self.judges: list[Quantifier] = []
        self.files: dict[Path, str] = {}
        self.properties = properties
        self.names = {*properties, *registry.quantifiers, *BUILTIN_TYPES}

    def create(self, name: str, settings: Mapping[str, Any] | None = None) -> Quantifier:
        """Return the quantifier of a name, and keep the recent ones.

        Args:
            name: name in the query.
            settings: settings with inserted columns; None for a quantifier of the configuration, or
                a type without settings.

        Raises:
            ConfigError: the type is unknown, or a setting is unusable.
        """
        if settings is None and name in self._registry.quantifiers:
            return self._keep(self._registry.quantifiers[name])
        key = json.dumps([name, settings], sort_keys=True, default=str)
        if key not in self._recent:
            if len(self._recent) >= _MAX_RECENT:
                self._recent.clear()
            self._recent[key] = create_quantifier_or_judge(
                name,
                self._resolve_paths(settings or {}),
                lambda model: self.find_deployment(model).model,
                self._registry.expansion,
            )
            self._keep(self._recent[key])
        return self._recent[key]

    def select(self, settings: Mapping[str, Mapping[str, Any] | None]) -> Mapping[str, Quantifier]:
        """Return the quantifiers of a query, each created on access.

        Args:
            settings: the settings of each by name, as in `create`.
        """
        return LazyQuantifiers(settings, lambda name: self.create(name, settings[name]))

    def needs_tools(self, name: str, settings: Mapping[str, Any] | None) -> bool:
        """Return whether a quantifier reads the calls of the case's own tools."""
        return name not in self._registry.quantifiers and needs_tools(name, settings)

    def _keep(self, quantifier: Quantifier) -> Quantifier:
        """Return a quantifier; keep it if it is a judge, and the checksums of its files."""
        paths = [path.absolute() for path in find_quantifier_files(quantifier)]
        self.files |= compute_checksums({p: p for p in paths if p not in self.files})
        if isinstance(quantifier, JudgesAnswers) and quantifier not in self.judges:
            self.judges.append(quantifier)
        return quantifier

    def find_deployment(self, name: DeploymentName, **options: Any) -> Deployment:
        """Find another model than the suite's, as of a judge, by any name of a model.

        Args:
            name, options: as in `resolve_deployment`.
        """
        return resolve_deployment("model", name, self._registry, folder=self._folder, **options)

    def _resolve_paths(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: str(self._folder / value)
            if key in _PATH_KEYS and isinstance(value, str)
            else value
            for key, value in settings.items()
        }
