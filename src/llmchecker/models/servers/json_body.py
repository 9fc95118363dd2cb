"""JSON bodies of requests to applications: templates with placeholders."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from llmchecker.errors import ConfigError

STANDARD_NAMES = ("messages", "prompt", "system", "max_tokens", "seed")
"""Names of placeholders for the values of each request; others are those of columns."""

_PART = re.compile(r"\{\{(?P<literal>[^\W\d][\w -]*)\}\}|\{(?P<name>[^\W\d][\w -]*)\}")
"""A placeholder, or a name in two pairs of braces, which stands for one pair."""


def list_placeholders(body: Any) -> list[str]:
    """List the names of the placeholders in all texts of a body, each once."""
    return list(dict.fromkeys(name for name, _ in _iter_placeholders(body)))


def check_body(body: Any) -> None:
    """Check that a body has a place for the messages, and that lists have whole texts.

    Raises:
        ConfigError: it is otherwise.
    """
    names = list_placeholders(body)
    if "messages" not in names and "prompt" not in names:
        raise ConfigError('body: no place for the messages; write "{messages}" or "{prompt}"')
    if ("messages", False) in _iter_placeholders(body):
        raise ConfigError("body: {messages} is a list; write it as a text of its own")


def check_columns(body: Any, columns: Mapping[str, Any], name: str) -> None:
    """Check that the columns of a prompt are those of a body.

    Args:
        body: the body.
        columns: JSON values by name.
        name: the name of the application, for messages.

    Raises:
        ConfigError: one is missing or unknown, or a list has no text of its own.
    """
    known = set(list_placeholders(body)) - set(STANDARD_NAMES)
    for column in sorted(known - columns.keys()):
        raise ConfigError(
            f"columns: the body of {name} has {{{column}}}; add the column, or write "
            f"{{{{{column}}}}} for braces"
        )
    for column in sorted(columns.keys() - known):
        raise ConfigError(f"columns: the body of {name} has no {{{column}}}; add it, or remove it")
    for column, is_whole in _iter_placeholders(body):
        if not is_whole and isinstance(columns.get(column), list | dict):
            raise ConfigError(
                f"columns: {column} is no text; write {{{column}}} as a text of its own"
            )


def fill_body(body: Any, values: Mapping[str, Any]) -> Any:
    """Replace placeholders in all texts of a body, but not in what replaces them."""
    if isinstance(body, dict):
        return {key: fill_body(each, values) for key, each in body.items()}
    if isinstance(body, list):
        return [fill_body(each, values) for each in body]
    if not isinstance(body, str):
        return body
    whole = _PART.fullmatch(body)
    if whole is not None and whole["name"] is not None:
        return values[whole["name"]]
    return _PART.sub(
        lambda part: f"{{{part['literal']}}}" if part["literal"] else str(values[part["name"]]),
        body,
    )


def _iter_placeholders(body: Any) -> Iterator[tuple[str, bool]]:
    """Yield the name of each placeholder, and whether it is a whole text."""
    if isinstance(body, dict):
        body = list(body.values())
    if isinstance(body, list):
        for each in body:
            yield from _iter_placeholders(each)
    if isinstance(body, str):
        for part in _PART.finditer(body):
            if part["name"] is not None:
                yield part["name"], part[0] == body
