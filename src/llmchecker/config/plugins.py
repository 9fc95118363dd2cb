"""Sections of a configuration that installed packages add, found by entry points.

The class of a section is a `Section`. The first line of its docstring describes its key. Its method
`complete` checks it with the models of the configuration, and returns it with all defaults.
"""

from collections.abc import Collection, Mapping
from functools import cache
from inspect import getdoc
from typing import Any

from pydantic import Field, create_model

from llmchecker.config.keys import ConfigKeys
from llmchecker.config.models import ModelConfig
from llmchecker.errors import MissingTool
from llmchecker.utils.plugins import SECTIONS, find_missing_plugin, find_plugins, load_plugin
from llmchecker.utils.section import OptionalKey


def extend_keys(names: Collection[str]) -> type[ConfigKeys]:
    """Return the keys of a configuration with the sections of installed packages.

    Args:
        names: the sections to load; the others are known keys without a type.

    Raises:
        MissingTool: the package of a section of `names` is not installed.
        ConfigError: a section of `names` cannot be loaded.
    """
    for name in names:
        if (message := find_missing_plugin(SECTIONS, name)) is not None:
            raise MissingTool(message)
    sections = {
        name: load_plugin(entry, "section") if name in names else None
        for name, entry in find_plugins(SECTIONS, "section").items()
        # No installed package replaces a section of this package.
        if name not in ConfigKeys.model_fields
    }
    return _extend_keys(tuple(sections.items()))


# pydantic needs a moment to build a model
@cache
def _extend_keys(sections: tuple[tuple[str, type | None], ...]) -> type[ConfigKeys]:
    fields: dict[str, Any] = {}
    for name, section in sections:
        summary = (getdoc(section) or "").partition("\n")[0] if section else ""
        # a type that is known at run time alone
        value = OptionalKey[section] if section else Any  # type: ignore[misc,valid-type]
        fields[name] = (value, Field(default=None, description=summary))
    return create_model("ConfigKeys", __base__=ConfigKeys, **fields)


def complete_sections(keys: ConfigKeys, models: Mapping[str, ModelConfig]) -> dict[str, Any]:
    """Complete the sections of installed packages, by name.

    Raises:
        ConfigError: a section does not fit the models.
    """
    names = type(keys).model_fields.keys() - ConfigKeys.model_fields.keys()
    sections = {name: getattr(keys, name) for name in sorted(names)}
    return {
        name: section.complete(models) for name, section in sections.items() if section is not None
    }
