"""What the names of a query mean: quantifiers with their settings, and assertions, in words.

{ type: pattern, pattern: "^Yes" }      pattern(pattern="^Yes")
{ contains: Yes, at_least: 0.9 }        contains "Yes", at least 0.9

Stored answers have the whole settings. What people read has long values shortened.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from llmchecker.properties.plugins import find_installed_types
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import BUILTIN_TYPES, TYPE_KEY
from llmchecker.utils.printable_text import shorten

PROBABILITY_KEYS = ("at_least", "at_most")
"""Keys of the probability of an assertion."""
REPEAT_KEYS = ("all_of", "any_of")
"""Keys of the number of answers of an assertion."""
_MAX_SHOWN = 100
"""The largest number of characters of a value that people read, such as a schema."""


def describe_quantifiers(quantifiers: Mapping[str, Quantifier]) -> dict[str, dict[str, Any]]:
    """Describe quantifiers by their names, each as in a configuration file.

    Args:
        quantifiers: the quantifiers by name.

    Returns:
        Values of JSON: the type of each, and its settings other than defaults.
    """
    return {name: _describe_quantifier(each) for name, each in quantifiers.items()}


def _describe_quantifier(quantifier: Quantifier) -> dict[str, Any]:
    settings: dict[str, Any] = {TYPE_KEY: _find_type_name(quantifier)}
    # a foreign class need not be a dataclass; then it has no settings
    if not is_dataclass(quantifier):
        return settings
    for field in fields(quantifier):
        if not field.init:
            continue
        value = encode(getattr(quantifier, field.name))
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != encode(default):
            settings[field.name.rstrip("_")] = value
    return settings


def _find_type_name(quantifier: Quantifier) -> str:
    """Return the name of a quantifier's type in a configuration, or else that of its class."""
    class_ = type(quantifier)
    # a class that no configuration names, such as that of functions
    if isinstance(name := getattr(class_, "type_name", None), str):
        return name
    place = class_.__module__, class_.__qualname__
    for name, entry in BUILTIN_TYPES.items():
        if (entry.module, entry.attr) == place:
            return name
    for name, entry in find_installed_types().items():
        if (entry.module, entry.attr) == place:
            return name
    return f"{class_.__module__}.{class_.__qualname__}"


def encode(value: Any) -> Any:
    """Return a setting as a value of JSON: paths as texts, models and functions by their names."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(encode, value), key=str)
    if isinstance(value, Sequence):
        return [encode(item) for item in value]
    name = getattr(value, "name", None)
    # a model has a name, and any other object is known by its function or class
    if isinstance(name, str):
        return name
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def format_definitions(
    quantifiers: Mapping[str, Mapping[str, Any]], assertion: Mapping[str, Any] | None
) -> dict[str, str]:
    """Format what a query asks for, for people, by `assertion` or `quantifiers`.

    A quantifier that is a type without settings, such as `gender`, explains itself, and so does a
    function of its name.

    Args:
        quantifiers: settings of the quantifiers by name, as of `describe_quantifiers`.
        assertion: the assertion that the query stands for; None for none.
    """
    if assertion is not None:
        return {"assertion": format_assertion(assertion, _format_value)}
    contents = [
        f"{name} = {format_settings(settings)}"
        for name, settings in quantifiers.items()
        if settings != {TYPE_KEY: name}
        and str(settings.get("function", "")).rpartition(".")[2] != name
    ]
    return {"quantifiers": ", ".join(contents)} if contents else {}


def format_settings(settings: Mapping[str, Any]) -> str:
    """Format a quantifier, as `words(words=["swordfish"])`, with long values shortened."""
    options = (
        # a pattern keeps its backslashes
        f'{name}="{_shorten(value)}"'
        if isinstance(value, str)
        else f"{name}={_shorten(_dump(value))}"
        for name, value in settings.items()
        if name != TYPE_KEY
    )
    return f"{settings.get(TYPE_KEY, 'quantifier')}({', '.join(options)})"


def format_assertion(
    entry: Mapping[str, Any], format_text: Callable[[str], str] = lambda text: text
) -> str:
    """Format an assertion with any probability, as `contains "Madrid", at least 0.95`.

    Args:
        entry: the assertion, as in a suite.
        format_text: shortens a value; the value is whole by default.
    """
    # the assertion before its repeats and its probability, in any order of the file
    last = (*REPEAT_KEYS, *PROBABILITY_KEYS)
    names = sorted(entry, key=lambda name: last.index(name) if name in last else -1)
    parts = []
    for name in names:
        # a probability is a text, so that no digit is lost
        value = str(entry[name]) if name in PROBABILITY_KEYS else format_text(_dump(entry[name]))
        parts.append(f"{name.replace('_', ' ')} {value}".rstrip())
    return ", ".join(parts)


def _dump(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _format_value(text: str) -> str:
    """Shorten the value of an assertion; `refuses: true` is in words `refuses`."""
    return "" if text == "true" else _shorten(text)


def _shorten(text: str) -> str:
    return shorten(text, _MAX_SHOWN)
