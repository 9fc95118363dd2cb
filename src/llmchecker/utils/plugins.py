"""Plug-ins: objects of installed packages, found by entry points.

The repository has packages with plug-ins, which extras of llmchecker install.
"""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, LLMCheckerError

COMMANDS = "llmchecker.commands"
"""Group of the entry points of commands: functions that add a parser."""
QUANTIFIERS = "llmchecker.quantifiers"
"""Group of the entry points of types of quantifiers: classes."""
SECTIONS = "llmchecker.config_sections"
"""Group of the entry points of sections of a configuration: pydantic models."""
SUITE_FORMATS = "llmchecker.suite_formats"
"""Group of the entry points of formats of other programs: functions that convert a file."""
PLUGIN_EXTRAS = {
    COMMANDS: {"verify": "programs"},
    QUANTIFIERS: {"provable": "programs"},
    SECTIONS: {"invariants": "programs"},
    SUITE_FORMATS: {"promptfoo": "promptfoo"},
}
"""The extra that installs each plug-in of this repository, by its group and name."""


def find_plugin_packages() -> set[str]:
    """Return the names of the top-level packages whose plug-ins are installed."""
    return {
        entry.module.partition(".")[0]
        for group in (COMMANDS, QUANTIFIERS, SECTIONS)
        for entry in _read_entry_points(group)
    }


def find_plugins(group: str, noun: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without loading them.

    Args:
        group: the group of the entry points.
        noun: the word for a plug-in in messages.

    Raises:
        ConfigError: two packages use the same name for different objects.
    """
    plugins: dict[str, EntryPoint] = {}
    for entry in _read_entry_points(group):
        previous = plugins.setdefault(entry.name, entry)
        # the same entry point may be found twice, which is no conflict
        if previous.value != entry.value:
            raise ConfigError(
                f"{noun} {entry.name!r}: both {_package_name(previous)} and "
                f"{_package_name(entry)} install it; uninstall one"
            )
    return plugins


def find_missing_plugin(group: str, name: str) -> str | None:
    """Return the message for a plug-in of this repository that is not installed, or else None.

    Args:
        group: the group of the entry points.
        name: the name of any plug-in.
    """
    extra = PLUGIN_EXTRAS[group].get(name)
    if extra is None or name in _read_entry_points(group).names:
        return None
    return f"{name}: its package is missing; run pip install 'llmchecker[{extra}]'"


def load_plugin(entry: EntryPoint, noun: str) -> Any:
    """Load the object of an entry point. This runs code of its package.

    Raises:
        ConfigError: the object cannot be imported.
    """
    try:
        return entry.load()
    # the package of the plug-in lacks another package, and its message has the fix
    except LLMCheckerError as error:
        raise ConfigError(f"{noun} {entry.name!r}: {error}") from error
    # the import runs foreign code, which may raise anything
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ConfigError(f"{describe_plugin(entry, noun)}: loading it raised {problem}") from error


def describe_plugin(entry: EntryPoint, noun: str) -> str:
    """Describe a plug-in by its name and its package, for messages."""
    return f"the {noun} {entry.name!r} of the installed package {_package_name(entry)}"


def _read_entry_points(group: str) -> EntryPoints:
    """Read a group's entry points; again only after a change of the folders with packages."""
    folders = [Path(folder) for folder in sys.path]
    times = tuple((folder, folder.stat().st_mtime_ns) for folder in folders if folder.exists())
    return _read_entry_points_of(group, times)


# reading them opens a file of every installed package, and each configuration needs them
@lru_cache(maxsize=8)
def _read_entry_points_of(group: str, folders: tuple[tuple[Path, int], ...]) -> EntryPoints:
    """Read a group's entry points, where the search path has these folders and times."""
    return entry_points(group=group)


def _package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
