"""Quantifier types of installed packages, found by entry points."""

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from llmchecker.errors import ConfigError
from llmchecker.utils.plugins import QUANTIFIERS, describe_plugin, find_plugins, load_plugin

if TYPE_CHECKING:
    from llmchecker.properties.quantifiers.interface import Quantifier


def find_installed_types() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages by name, without loading them.

    Raises:
        ConfigError: two packages use the same name for different classes.
    """
    return find_plugins(QUANTIFIERS, "quantifier type")


def load_type(entry: EntryPoint) -> "type[Quantifier]":
    """Load the class of an entry point. This runs code of its package.

    Raises:
        ConfigError: the class cannot be imported or is not a class.
    """
    class_ = load_plugin(entry, "type")
    if not isinstance(class_, type) or "__call__" not in dir(class_):
        raise ConfigError(
            f"{describe_plugin(entry, 'type')}: {class_!r} is not a class with "
            "__call__(start, continuation)"
        )
    return class_
