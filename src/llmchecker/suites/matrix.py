"""The matrix of a suite: each model, with each system prompt, answers each form of a prompt.

    model: [first, second]
    system: { brief: "Answer briefly.", kind: "Be kind." }
    user: ["Is {city} in Spain?", "Does {city} belong to Spain?"]

Where a suite file takes a text, it may take several: a list, or a mapping by name. Outputs contain
the names, as in `first, brief`, and the numbers of a list, as in `prompt 2`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from llmchecker.utils.printable_text import quote_value
from llmchecker.utils.section import build_error

_NO_SYSTEM = "no system"
_MAX_NAME = 100
"""Maximum number of characters of a name."""


@dataclass(frozen=True)
class Alternative:
    """One of the values of a key.

    Attributes:
        key: its key in the suite file, such as `system.brief` or `system[1]`.
        name: its name in outputs; empty for the only value of a key.
        content: the value, such as a text; None for no system prompt.
    """

    key: str
    name: str
    content: Any

    @property
    def given_name(self) -> str:
        """The name that the suite file gives it; empty for a number in a list."""
        return "" if self.key.endswith("]") else self.name


def list_alternatives(key: str, value: Any, noun: str) -> tuple[Alternative, ...]:
    """List the texts of a key: one, those of a list, or those of a mapping by name.

    Args:
        key: the key.
        value: its validated value.
        noun: the word before the number of a text without a name.
    """
    if isinstance(value, Mapping):
        return tuple(Alternative(f"{key}.{name}", name, text) for name, text in value.items())
    if isinstance(value, list | tuple):
        return tuple(
            Alternative(f"{key}[{n}]", _NO_SYSTEM if text is None else f"{noun} {n + 1}", text)
            for n, text in enumerate(value)
        )
    return (Alternative(key, "", value),)


def _check_texts(value: Any) -> Any:
    """Check a text, or several distinct texts."""
    texts = list(value.values()) if isinstance(value, dict) else value
    if any(text is None for text in texts) and not isinstance(value, str):
        raise build_error("null is not of type string; write a text")
    return value


def _check_systems(value: Any) -> Any:
    """Check a text, or several distinct texts, one of which may be missing."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | dict):
        raise build_error(f"{quote_value(value)} is not of type string, array or object")
    if not value:
        raise build_error(f"{value} is too short; add at least 1 entry")
    texts = list(value.values()) if isinstance(value, dict) else value
    if isinstance(value, dict):
        _check_names(value)
    for position, text in enumerate(texts):
        if not isinstance(text, str | None):
            raise build_error(f"{quote_value(text)} is not of type string")
        if text in texts[:position]:
            raise build_error(f"{quote_value(text)} occurs twice; remove one")
    return tuple(value) if isinstance(value, list) else value


def _check_names(texts: Mapping[str, Any]) -> None:
    """Check the names of several texts."""
    if list(texts.values()) == [None]:
        template = f"{{{next(iter(texts))}}}"
        raise build_error(f'{template} is a mapping in YAML; write "{template}" in quotes')
    for name in texts:
        if not 0 < len(name) <= _MAX_NAME:
            raise build_error(f"{quote_value(name)}: write a name of 1 to {_MAX_NAME} characters")


def _describe_json(entry_types: str | list[str]) -> WithJsonSchema:
    """Return the JSON schema of a text, or several by number or name."""
    entry = {"type": entry_types}
    return WithJsonSchema(
        {"type": ["string", "array", "object"], "items": entry, "additionalProperties": entry}
    )


Texts = Annotated[
    Any, AfterValidator(_check_systems), AfterValidator(_check_texts), _describe_json("string")
]
"""A text, or several: a list, or a mapping by name."""

Systems = Annotated[Any, AfterValidator(_check_systems), _describe_json(["string", "null"])]
"""A system prompt, or several, one of which may be missing."""
