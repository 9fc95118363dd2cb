"""Tools of chats: descriptions of functions, and the calls that models write.

A chat template receives the descriptions of functions, as transformers and providers take them:

    {"type": "function", "function": {"name": "f", "description": "…", "parameters": {…}}}

Chat models write calls in a few forms, which their templates describe to them:

    <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>     Hermes, Qwen, SmolLM
    [TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}]             Mistral
    <|python_tag|>{"name": "f", "parameters": {"x": 1}}             Llama 3.1
    <function=f>{"x": 1}</function>                                 Llama 3.1
    {"name": "f", "parameters": {"x": 1}}                           the whole text
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from llmchecker.errors import ConfigError, did_you_mean, prefix_errors
from llmchecker.utils.printable_text import quote_value

_FUNCTION = "function"
"""The type of a tool, and the key of its function."""

_KEYS = ("name", "description", "parameters", "return", "strict")
"""The keys of a function; `return` is that of transformers, `strict` that of providers."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of functions that providers accept."""

_BLOCK = re.compile(
    r"<tool_call>(?P<tagged>.*?)(?:</tool_call>|\Z)"
    r"|<function=(?P<name>[^>]*)>(?P<arguments>.*?)(?:</function>|\Z)"
    r"|(?:\[TOOL_CALLS\]|<\|python_tag\|>)(?P<rest>.*)",
    flags=re.DOTALL,
)
"""A call that is marked; an end token may have taken the place of its closing tag."""

_BEGINNING = re.compile(r'\s*(?:\[\s*)?\{\s*"(?:name|function)"\s*:')
"""The beginning of a call that is the whole text."""

_ARGUMENTS = ("arguments", "parameters")
"""The keys of the arguments of a call, in templates and in OpenAI's API."""


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


@dataclass(frozen=True)
class ToolCall:
    """A call in a text.

    Attributes:
        name: the name of the tool; empty for a call that cannot be read, since no tool has it.
        arguments: the arguments, of which an object alone is valid; None for those that are no
            JSON.
    """

    name: str
    arguments: Any


_INVALID_CALL = ToolCall("", None)
"""A call that cannot be read."""


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


def find_single_call(text: str) -> ToolCall | None:
    """Return the call of a text with exactly one; None for another text."""
    calls = list(iter_calls(text))
    return calls[0] if len(calls) == 1 else None


def iter_calls(text: str) -> Iterator[ToolCall]:
    """Yield the calls of a text, readable or not."""
    blocks = list(_BLOCK.finditer(text))
    for block in blocks:
        if block["name"] is not None:
            yield ToolCall(block["name"].strip(), _parse(block["arguments"]))
        else:
            content = block["tagged"] if block["tagged"] is not None else block["rest"]
            yield from _read_calls(_parse(content))
    if blocks:
        return
    value = _parse(text)
    entries = value if isinstance(value, list) else [value]
    # other JSON is an answer, and no call
    if entries and all(map(_has_call_keys, entries)):
        yield from _read_calls(value)
    elif value is None and _BEGINNING.match(text):
        yield _INVALID_CALL


def _read_calls(value: Any) -> Iterator[ToolCall]:
    """Yield the calls of a marked JSON value, of which each entry must be one."""
    entries = value if isinstance(value, list) else [value]
    # a mark without a call calls nothing that a program could run
    for entry in entries or [None]:
        yield _read_call(entry) if _has_call_keys(entry) else _INVALID_CALL


def _has_call_keys(value: Any) -> bool:
    """Return whether a JSON value has the keys of a call."""
    if not isinstance(value, dict):
        return False
    content = value.get("function", value)
    if not isinstance(content, dict):
        return False
    return isinstance(content.get("name"), str) and any(key in content for key in _ARGUMENTS)


def _read_call(value: dict[str, Any]) -> ToolCall:
    content = value.get("function", value)
    (key, *_) = (key for key in _ARGUMENTS if key in content)
    arguments = content[key]
    # OpenAI's API has the arguments as a text
    is_text = isinstance(arguments, str)
    return ToolCall(content["name"], _parse(arguments) if is_text else arguments)


def _parse(text: str) -> Any:
    """Return the JSON value of a text; None for other texts."""
    try:
        return json.loads(text, parse_constant=_check_constant)
    except (ValueError, RecursionError):
        return None


def _check_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
