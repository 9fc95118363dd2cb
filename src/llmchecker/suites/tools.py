"""Tools in suites: functions that the model may call, and quantifiers that read the calls.

tools:
  - type: function
    function: { name: weather, parameters: { type: object, required: [city] } }
require:
  - "P>=0.9 [ F calls = 2 ]"            all calls of an answer are valid
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llmchecker.errors import prefix_errors
from llmchecker.models.decoding.tools import Tool, parse_tools

_CALLS, _TYPE = "calls", "type"
"""The type of quantifiers that read calls, and the key of a type."""


def parse_suite_tools(place: str, entries: Sequence[Mapping[str, Any]] | None) -> tuple[Tool, ...]:
    """Parse the tools of a suite or a case, with the JSON Schemas of their arguments.

    Raises:
        ConfigError: a description or a schema is invalid.
    """
    if entries is None:
        return ()
    # imported here: it takes a tenth of a second, and most suites have no tools
    from llmchecker.properties.quantifiers.json_schema import build_validator

    tools = parse_tools(place, entries)
    for index, tool in enumerate(tools):
        with prefix_errors(f"{place}[{index}]"):
            build_validator("parameters", tool.parameters)
    return tools


def needs_tools(name: str, settings: Mapping[str, Any] | None) -> bool:
    """Return whether a quantifier reads the calls of the case's own tools.

    Args:
        name: its name.
        settings: its settings in the suite; None without any.
    """
    settings = settings or {}
    return settings.get(_TYPE, name) == _CALLS and "tools" not in settings


def add_tools(settings: Mapping[str, Any] | None, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the settings of a quantifier of calls with the tools of a case."""
    return {**(settings or {}), "tools": {tool.name: tool.parameters for tool in tools}}
