"""Quantifier of tool calls: all valid, one invalid, or none.

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from llmchecker.errors import ConfigError, prefix_errors

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

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

_INVALID_CALL = ("", None)
"""What stands for a call that cannot be read: no tool has an empty name."""


@dataclass(frozen=True)
class ToolCalls:
    """Score 2 if a text calls tools and all calls are valid, 1 if one is invalid, 0 without a call.

    A call is valid if it is JSON, one of the tools has its name, and its arguments are an object
    that satisfies the schema of the tool. Text around marked calls is ignored. Without a mark the
    whole text must be a call, or a list of calls.

    Attributes:
        tools: the JSON Schema of the arguments of each tool, by name.
        validators: the validators of the schemas.

    Raises:
        ConfigError: there is no tool, or a schema is unusable as in `JsonText`.
    """

    tools: Mapping[str, Any]
    validators: "Mapping[str, Validator]" = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        # imported here: it takes a tenth of a second, and most runs need no JSON
        from llmchecker.properties.quantifiers.json_schema import build_validator

        if not isinstance(self.tools, Mapping) or not self.tools:
            raise ConfigError(
                f"tools: {self.tools!r} has no tools; write a mapping of names to JSON Schemas"
            )
        for name in self.tools:
            if not isinstance(name, str) or not name:
                raise ConfigError(f"tools: {name!r} is no name of a tool; write a text")
        with prefix_errors("tools"):
            validators = {name: build_validator(name, each) for name, each in self.tools.items()}
        object.__setattr__(self, "validators", validators)

    def __call__(self, start: str, continuation: str) -> int:
        del start  # a template may show calls as examples
        calls = list(_iter_calls(continuation))
        if not calls:
            return 0
        return 2 if all(self._is_valid(name, arguments) for name, arguments in calls) else 1

    def _is_valid(self, name: str, arguments: Any) -> bool:
        if name not in self.validators or not isinstance(arguments, dict):
            return False
        try:
            return self.validators[name].is_valid(arguments)
        # a number beyond all floats, or arguments as deep as no tool reads them
        except (OverflowError, RecursionError):
            return False


def _iter_calls(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the arguments of each call of a text."""
    blocks = list(_BLOCK.finditer(text))
    for block in blocks:
        if block["name"] is not None:
            yield block["name"].strip(), _parse(block["arguments"])
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


def _read_calls(value: Any) -> Iterator[tuple[str, Any]]:
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


def _read_call(value: dict[str, Any]) -> tuple[str, Any]:
    content = value.get("function", value)
    (key, *_) = (key for key in _ARGUMENTS if key in content)
    arguments = content[key]
    # OpenAI's API has the arguments as a text
    return content["name"], _parse(arguments) if isinstance(arguments, str) else arguments


def _parse(text: str) -> Any:
    """Return the JSON value of a text; None for other texts."""
    try:
        return json.loads(text, parse_constant=_check_constant)
    except (ValueError, RecursionError):
        return None


def _check_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
