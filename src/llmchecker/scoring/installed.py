"""The types of quantifiers that installed packages add, by the entry points of one group."""

from importlib.metadata import EntryPoint, entry_points

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.scoring.own_class import ANY_ERROR, raised

GROUP = "llmchecker.quantifiers"
"""The group of entry points. The name of one is that of a type; it leads to a class."""


def installed_types() -> dict[str, EntryPoint]:
    """The entry points of installed packages by name; none of them is loaded.

    Raises:
        ConfigError: two packages have the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ConfigError(
                f"two installed packages have a type {entry.name!r}: {_package(other)} and "
                f"{_package(entry)}; uninstall one"
            )
    return found


def load_type(entry: EntryPoint) -> type[Quantifier]:
    """The class that an entry point leads to. Its package's code runs.

    Raises:
        ConfigError: it cannot be imported or is no class.
    """
    who = f"the type {entry.name!r} of the installed package {_package(entry)}"
    try:
        kind = entry.load()
    except ANY_ERROR as error:
        raise ConfigError(f"{who} cannot be loaded; it raised {raised(error)}") from error
    if not isinstance(kind, type) or "__call__" not in dir(kind):
        raise ConfigError(f"{who} is {kind!r}, not a class with __call__(start, continuation)")
    return kind


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
