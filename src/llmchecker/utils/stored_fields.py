"""Types of the fields of stored JSON, which a damaged file may have changed.

check_fields({"text": "a", "count": 1}, {"text": TEXT, "count": optional(COUNT)})
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmchecker.utils.printable_text import quote_value

_MAX_SHOWN = 60
"""The largest number of characters of a value in a message."""
_MAX_COUNT = 2**64


@dataclass(frozen=True)
class FieldType:
    """A type of a stored value.

    Attributes:
        name: its name, for messages.
        includes: returns whether a value is of the type.
    """

    name: str
    includes: Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    # `bool` is a subclass of int
    return type(value) is int and -_MAX_COUNT < value < _MAX_COUNT


def _is_number(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value))


TEXT = FieldType("a text", lambda value: isinstance(value, str))
TRUTH = FieldType("true or false", lambda value: isinstance(value, bool))
COUNT = FieldType("a whole number of 64 bits", _is_count)
NUMBER = FieldType("a finite number", _is_number)
OBJECT = FieldType("an object", lambda value: isinstance(value, dict))
END = FieldType("a finite number, true or false", lambda v: isinstance(v, bool) or _is_number(v))
"""An end of an interval of probabilities, scores or truths."""


def optional(kind: FieldType) -> FieldType:
    """Return the type of values of a type, and of null."""
    return FieldType(f"{kind.name} or null", lambda value: value is None or kind.includes(value))


def list_of(kind: FieldType, length: int | None = None) -> FieldType:
    """Return the type of lists, of any or of one length, whose items are of a type."""
    size = "" if length is None else f"{length} times "
    return FieldType(
        f"a list of {size}{kind.name}",
        lambda value: (
            isinstance(value, list)
            and length in (None, len(value))
            and all(map(kind.includes, value))
        ),
    )


def mapping_of(kind: FieldType) -> FieldType:
    """Return the type of objects whose values are of a type."""
    return FieldType(
        f"an object of {kind.name}",
        lambda value: isinstance(value, dict) and all(map(kind.includes, value.values())),
    )


def record(fields: Mapping[str, FieldType]) -> FieldType:
    """Return the type of objects with these fields and no others."""
    return FieldType(
        f"an object with {', '.join(fields)}",
        lambda value: (
            isinstance(value, dict)
            and value.keys() == fields.keys()
            and all(kind.includes(value[name]) for name, kind in fields.items())
        ),
    )


def check_fields(content: Any, fields: Mapping[str, FieldType], place: str = "") -> None:
    """Check that an object has these fields; it may have others.

    Args:
        content: the object.
        fields: the type of each field.
        place: the field of the object in its file, for messages.

    Raises:
        ValueError: the content is no object, or a field is absent or of another type.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{place or 'line'}: {quote_value(content, _MAX_SHOWN)} is no object")
    for name, kind in fields.items():
        field = f"{place}.{name}" if place else name
        if name not in content:
            raise ValueError(f"{field}: it is missing")
        if not kind.includes(content[name]):
            raise ValueError(
                f"{field}: {quote_value(content[name], _MAX_SHOWN)} is not {kind.name}"
            )
