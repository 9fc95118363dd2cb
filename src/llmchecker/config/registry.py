"""The registry of a configuration: its models, start strings and quantifiers.

A question from the shell and a suite read only the registry. The workflow's plan is in `config`.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from llmchecker.config.judges import create_quantifier_or_judge
from llmchecker.config.models import (
    ModelConfig,
    check_models,
    parse_model,
)
from llmchecker.config.project import find_project
from llmchecker.config.prompt import parse_messages
from llmchecker.config.registry_keys import (
    ExpansionConfig,
    MessageKeys,
    RegistryKeys,
)
from llmchecker.config.yaml_reader import SHARED_SCHEMA, locate_keys, read_yaml
from llmchecker.errors import UnknownName, did_you_mean, prefix_errors
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import LazyQuantifiers, find_type
from llmchecker.utils.plugins import PLUGIN_EXTRAS, SECTIONS, find_plugins
from llmchecker.utils.printable_text import quote_value
from llmchecker.utils.section import parse_section


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The models, start strings and quantifiers of a configuration, by name.

    Attributes:
        models: models by name.
        start_strings: start strings by name; texts to continue, or messages to answer.
        quantifiers: quantifiers by name, each created on access.
        expansion: the settings of the expansion of trees.
        project: the directory to which paths in the configuration are relative.
    """

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    start_strings: Mapping[str, Start] = field(default_factory=dict)
    quantifiers: Mapping[str, Quantifier] = field(default_factory=dict)
    expansion: ExpansionConfig = field(default_factory=ExpansionConfig)
    project: Path = field(default_factory=Path.cwd, compare=False)

    @classmethod
    def read(cls, file: str | Path, /) -> "Registry":
        """Read the registry of a YAML file in its project, wherever the command runs.

        Raises:
            ConfigError: the file is absent, or as in `read_yaml` and `parse`, with the file and the
                line. Access to a quantifier raises it for a setting that is unusable.
        """
        path = Path(file).absolute()
        # paths in a configuration are relative to the project, as in a run of the workflow
        with contextlib.chdir(find_project(path)):
            yaml_file = read_yaml(path, SHARED_SCHEMA)
            with locate_keys([yaml_file]):
                registry = Registry.parse(yaml_file.content)

        def create(name: str) -> Quantifier:
            with contextlib.chdir(registry.project), locate_keys([yaml_file]):
                return registry.quantifiers[name]

        return replace(registry, quantifiers=LazyQuantifiers(registry.quantifiers, create))

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Registry":
        """Validate the registry of YAML files and build it.

        The plan and the sections of other packages are not looked at.

        Raises:
            ConfigError: a key is invalid; the message contains the key, its value and the fix.
        """
        sections = {*find_plugins(SECTIONS, "section"), *PLUGIN_EXTRAS[SECTIONS]}
        keys = {key: value for key, value in raw.items() if key not in sections}
        return cls.from_keys(parse_section(RegistryKeys, keys))

    @staticmethod
    def from_keys(keys: RegistryKeys) -> "Registry":
        """Build a registry from its validated keys.

        Raises:
            ConfigError: as in `parse`.
        """
        models = {name: parse_model(name, entry) for name, entry in keys.models.items()}
        check_models(models)

        @cache
        def create(name: str) -> Quantifier:
            return _create_quantifier(name, keys.quantifiers[name], models, keys.expansion)

        for name, entry in keys.quantifiers.items():
            with prefix_errors(f"quantifiers.{name}"):
                quantifier_type = find_type(name, entry)
            # a judge names a model of the configuration, and opens it only when it grades
            if quantifier_type.name == "judge":
                create(name)
        return Registry(
            models=models,
            start_strings={
                name: _parse_start(name, entry) for name, entry in keys.start_strings.items()
            },
            quantifiers=LazyQuantifiers(keys.quantifiers, create),
            expansion=keys.expansion,
        )

    @cached_property
    def distribution_models(self) -> Mapping[str, ModelConfig]:
        """The models with next-token distributions: all but text-only servers."""
        return {name: model for name, model in self.models.items() if not model.is_text_only}


def parse_quantifiers(
    settings: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]
) -> Mapping[str, Quantifier]:
    """Create some quantifiers of a configuration, without its other models.

    Args:
        settings: the settings of each quantifier, by name.
        config: the content of the configuration, whose models may judge.
    """
    named = {each.get("model") for each in settings.values()}
    models = {name: keys for name, keys in config.get("models", {}).items() if name in named}
    expansion = config.get("expansion", {})
    sections = {"models": models, "expansion": expansion, "quantifiers": settings}
    return dict(Registry.parse(sections).quantifiers)


def _parse_start(name: str, entry: str | tuple[MessageKeys, ...]) -> Start:
    # a text needs no chat template
    if isinstance(entry, str):
        return entry
    messages = [message.explicit_keys for message in entry]
    with prefix_errors(f"start_strings.{name}"):
        return parse_messages(messages)


def _create_quantifier(
    name: str,
    settings: Mapping[str, Any],
    models: Mapping[str, ModelConfig],
    expansion: ExpansionConfig,
) -> Quantifier:
    def find_model(model: Any) -> ModelConfig:
        if not isinstance(model, str) or model not in models:
            hint = did_you_mean(str(model), models) or ";"
            raise UnknownName(
                f"model: {quote_value(model)} is no model of the configuration{hint} known are "
                f"{', '.join(models) or 'none'}"
            )
        return models[model]

    with prefix_errors(f"quantifiers.{name}"):
        return create_quantifier_or_judge(name, settings, find_model, expansion)
