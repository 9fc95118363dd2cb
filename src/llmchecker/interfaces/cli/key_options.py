"""Options of commands from the descriptions of keys: each key is an option of the same name."""

import argparse
from collections.abc import Collection
from typing import Any

from pydantic.fields import FieldInfo

from llmchecker.utils.section import Section


def add_key_options(
    group: argparse._ActionsContainer,
    section: type[Section],
    names: Collection[str] | None = None,
    prefix: str = "--",
) -> None:
    """Add an option for each key of a section that the section does not refuse.

    Values are checked when the section is parsed, so that a wrong one has the same message as in a
    file.

    Args:
        group: the command, or a group of its arguments.
        section: the section.
        names: the keys; None for all.
        prefix: the beginning of the names of the options.
    """
    for name, field in section.model_fields.items():
        if name not in section.refused_keys and (names is None or name in names):
            option = f"{prefix}{name.replace('_', '-')}"
            group.add_argument(option, **_find_form(field), help=_format_help(field))


def collect_keys(
    arguments: argparse.Namespace, section: type[Section], prefix: str = ""
) -> dict[str, Any]:
    """Return the keys of a section whose options were given.

    Args:
        arguments: the arguments of the command line.
        section: the section.
        prefix: the beginning of the names of the arguments.
    """
    values = {name: getattr(arguments, f"{prefix}{name}", None) for name in section.model_fields}
    # argparse gives False to an absent flag, which 0 equals
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def _parse_number(text: str) -> Any:
    """Parse a number; another text stays a text, as in a file."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _find_form(field: FieldInfo) -> dict[str, Any]:
    """Return the arguments of argparse for the type of a key."""
    if field.annotation is bool:
        return {"action": "store_true"}
    return {} if field.annotation is str else {"type": _parse_number}


def _format_help(field: FieldInfo) -> str:
    """Return the description of a key with its default."""
    words = " ".join((field.description or "").split()).rstrip(".")
    words = words[:1].lower() + words[1:]
    # an absent value and a flag need no words
    default = f" (default: {field.default})" if field.default else ""
    return f"{words}{default}".replace("%", "%%")
