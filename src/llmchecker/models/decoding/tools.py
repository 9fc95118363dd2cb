"""Tools of chats: descriptions of functions.

A chat template receives the descriptions of functions, as transformers and providers take them:

    {"type": "function", "function": {"name": "f", "description": "…", "parameters": {…}}}
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmchecker.errors import ConfigError, did_you_mean, prefix_errors
from llmchecker.utils.printable_text import quote_value

_FUNCTION = "function"
"""The type of a tool, and the key of its function."""

_KEYS = ("name", "description", "parameters", "return", "strict")
"""The keys of a function; `return` is that of transformers, `strict` that of providers."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of functions that providers accept."""


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    Attributes:
        name: the name.
        text: the description as JSON, whose keys keep their order.
    """

    name: str
    text: str

    @classmethod
    def parse(cls, value: object) -> "Tool":
        """Parse the description of a function, with or without the key `function` around it.

        Raises:
            ConfigError: it is no description of a function. The schema of the parameters must be an
                object, and is not checked further.
        """
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"tool: {quote_value(value)} is no description; write {{name: …, parameters: …}}"
            )
        function = value
        if _FUNCTION in value or "type" in value:
            if value.keys() != {"type", _FUNCTION} or value["type"] != _FUNCTION:
                raise ConfigError(
                    f"type: a tool has {', '.join(map(str, value))}; write {{type: function, "
                    "function: {…}}"
                )
            function = value[_FUNCTION]
        if not isinstance(function, Mapping):
            raise ConfigError(
                f"function: {quote_value(function)} is no description; write {{name: …}}"
            )
        for key in function:
            if key not in _KEYS:
                hint = did_you_mean(str(key), _KEYS) or ";"
                raise ConfigError(f"{key}: a function has no such key{hint} use {', '.join(_KEYS)}")
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"name: {quote_value(name)} is no name of a function; use up to 64 letters, "
                "digits, _, . or -"
            )
        if not isinstance(function.get("description", ""), str):
            raise ConfigError(
                f"description: {quote_value(function['description'])} is no text; write one"
            )
        if not isinstance(function.get("parameters", {}), Mapping):
            raise ConfigError(
                f"parameters: {quote_value(function['parameters'])} is no JSON Schema; write "
                f"{{type: object}}"
            )
        try:
            content = {"type": _FUNCTION, _FUNCTION: function}
            text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        # a date of YAML, or a number that JSON does not have
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name}: it is no JSON: {error}; write texts in quotes") from error
        return cls(name, text)

    @property
    def description(self) -> dict[str, Any]:
        """The description, as chat templates receive it."""
        content: dict[str, Any] = json.loads(self.text)
        return content

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        parameters: dict[str, Any] = self.description[_FUNCTION].get("parameters", {})
        return parameters


def parse_tools(place: str, entries: object) -> tuple[Tool, ...]:
    """Parse a list of descriptions.

    Args:
        place: the key with the list, for messages.
        entries: the list.

    Raises:
        ConfigError: as in `Tool.parse`, or two tools have one name.
    """
    if not isinstance(entries, list | tuple) or not entries:
        raise ConfigError(f"{place}: {quote_value(entries)} is no list of functions; write one")
    tools: list[Tool] = []
    for index, entry in enumerate(entries):
        with prefix_errors(f"{place}[{index}]"):
            tool = Tool.parse(entry)
            if tool.name in {each.name for each in tools}:
                raise ConfigError(f"name: {tool.name!r} is also another tool; rename one")
        tools.append(tool)
    return tuple(tools)
