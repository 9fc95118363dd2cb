"""Quantifier types of installed packages, found by entry points."""

from importlib.metadata import EntryPoint, entry_points

from llmchecker.errors import ConfigError
from llmchecker.properties.custom_class import FOREIGN_ERRORS, format_foreign_error
from llmchecker.properties.quantifiers.interface import Quantifier

ENTRY_POINT_GROUP = "llmchecker.quantifiers"
"""Group of the entry points, which map names of types to classes."""


def find_installed_types() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages by name, without loading them.

    Raises:
        ConfigError: two packages use the same name for different classes.
    """
    types: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        previous = types.setdefault(entry.name, entry)
        # the same entry point may be found twice, which is no conflict
        if previous.value != entry.value:
            raise ConfigError(
                f"quantifier type {entry.name!r}: both {_package_name(previous)} and "
                f"{_package_name(entry)} install it; uninstall one"
            )
    return types


def load_type(entry: EntryPoint) -> type[Quantifier]:
    """Load the class of an entry point. This runs code of its package.

    Raises:
        ConfigError: the class cannot be imported or is not a class.
    """
    label = f"the type {entry.name!r} of the installed package {_package_name(entry)}"
    try:
        class_ = entry.load()
    # the import runs foreign code, which may raise anything
    except FOREIGN_ERRORS as error:
        raise ConfigError(f"{label}: loading it raised {format_foreign_error(error)}") from error
    if not isinstance(class_, type) or "__call__" not in dir(class_):
        raise ConfigError(f"{label}: {class_!r} is not a class with __call__(start, continuation)")
    return class_


def _package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
