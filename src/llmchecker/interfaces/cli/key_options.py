"""Options of commands from the descriptions of keys: each key is an option of the same name."""

import argparse
from collections.abc import Collection, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from llmchecker.models.servers.settings import ApiName
from llmchecker.utils.section import Section

_FORMS: Mapping[str, Mapping[str, Any]] = {
    "adapter": {
        **{"action": "append", "metavar": "ADAPTER"},
        "help": "a LoRA adapter of the model: a directory or hf:owner/name@commit, or with a scale "
        "'{source: ./lora, scale: 0.5}'; several add up",
    },
    "decoding": {"metavar": "YAML"},
    "prices": {"nargs": 2, "metavar": ("INPUT", "OUTPUT")},
    "stop": {"action": "append", "metavar": "TEXT"},
    "template": {"action": "append", "metavar": "KEY=VALUE"},
    "thought": {
        **{"nargs": 2, "metavar": ("BEGIN", "END")},
        "help": "the marks of a thought before an answer, such as <think> and </think>; by default "
        "those of the chat template. Requirements are about the answer after the thought",
    },
}
"""Forms of keys with several values, in the arguments of argparse."""
_TEXTS = (str, str | None, ApiName, ApiName | None)


def add_key_options(
    group: argparse._ActionsContainer,
    section: type[Section],
    names: Collection[str] | None = None,
    prefix: str = "--",
    *,
    is_required: bool = False,
) -> None:
    """Add an option for each key of a section that the section does not refuse.

    Values are checked when the section is parsed, so that a wrong one has the same message as in a
    file.

    Args:
        group: the command, or a group of its arguments.
        section: the section.
        names: the keys; None for all.
        prefix: the beginning of the names of the options.
        is_required: whether the command needs each of them.
    """
    for name, field in section.model_fields.items():
        if name not in section.refused_keys and (names is None or name in names):
            option = f"{prefix}{name.replace('_', '-')}"
            form = _FORMS.get(name) or _find_form(field)
            words = " ".join((field.description or "").split()).rstrip(".")
            words = words[:1].lower() + words[1:]
            is_absent = field.is_required() or field.default is None or field.default is False
            default = "" if is_absent else f" (default: {field.default})"
            help_text = f"{words}{default}".replace("%", "%%")
            group.add_argument(option, required=is_required, **{"help": help_text, **form})


def collect_keys(
    arguments: argparse.Namespace, section: type[Section], names: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the keys of a section whose options were given.

    Args:
        arguments: the arguments of the command line.
        section: the section.
        names: the keys; None for all.
    """
    chosen = section.model_fields if names is None else names
    values = {name: getattr(arguments, name, None) for name in chosen}
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
    if field.annotation in (bool, bool | None):
        return {"action": "store_true"}
    return {} if field.annotation in _TEXTS else {"type": _parse_number}
