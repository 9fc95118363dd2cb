"""Quantifier of a field of JSON: which of several values it has."""

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jsonpointer import JsonPointer, JsonPointerException

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of
from llmchecker.properties.quantifiers.json_validity import JsonText
from llmchecker.properties.transducers.json_text import JsonTransducer
from llmchecker.utils.printable_text import quote_value

_VALID_JSON = 2
"""The score of a text that satisfies a schema."""
_INDEX = re.compile("0|[1-9][0-9]*")
_MAX_INDEX = 10_000
"""The largest index of an item, as a schema has an entry for each item before it."""


@dataclass(frozen=True)
class JsonField:
    """Score the place of a field's value in a list, from 1 on, and 0 for all else.

    A text scores 0 if it is no whole JSON text, lacks the field or has another value there. JSON
    is that of `JsonText`: of equal keys of an object the last one counts, and 1 equals 1.0.

    Attributes:
        pointer: the JSON Pointer (RFC 6901) of the field, such as `/refund`; empty for the whole
            text.
        values: the values in the order of their scores: texts, numbers, truth values or null.
        of: as in `JsonText`.

    Raises:
        ConfigError: the pointer is invalid, or the values are: there are none, two are equal, or
            one has another type.
    """

    pointer: str
    values: Sequence[str | int | float | bool | None]
    of: str = "continuation"
    maximum: int | None = field(init=False, repr=False, compare=False)
    _texts: tuple[JsonText, ...] = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        names = _parse_pointer(self.pointer)
        _check_values(self.values)
        texts = tuple(JsonText(_build_schema(names, each), of=self.of) for each in self.values)
        object.__setattr__(self, "maximum", len(texts))
        object.__setattr__(self, "_texts", texts)

    def __call__(self, start: str, continuation: str) -> int:
        return _find_place(text(start, continuation) for text in self._texts)

    def build_transducer(self) -> "FieldTransducer | None":
        """Build the incremental form; None if a schema has none."""
        parts = [text.build_transducer() for text in self._texts]
        return None if None in parts else FieldTransducer(tuple(filter(None, parts)))


@dataclass(frozen=True)
class FieldTransducer:
    """Transducer of the scores of `JsonField`, a product of one transducer for each value.

    Attributes:
        parts: the transducers of JSON whose field has the value.
    """

    parts: tuple[JsonTransducer, ...]

    def start(self, start: str) -> tuple[Hashable, int]:
        """Return the states and the count 0 after a start string without a continuation."""
        return tuple(part.start(start)[0] for part in self.parts), 0

    def effect(self, piece: str) -> Hashable:
        """Return the effect of a piece on each state."""
        return tuple(part.effect(piece) for part in self.parts)

    def advance(self, state: Any, effect: Any) -> tuple[Hashable, int]:
        """Return the states after an effect, and 0."""
        steps = zip(self.parts, state, effect, strict=True)
        return tuple(part.advance(each, own)[0] for part, each, own in steps), 0

    def score(self, state: Any) -> int:
        """Return the place of the first value that the field has; 0 for none."""
        return _find_place(part.score(each) for part, each in self._list(state))

    def find_range(self, state: Any) -> tuple[int, int]:
        """Return 0 and the place of the last value that the field may still get."""
        possible = [part.find_range(each)[1] == _VALID_JSON for part, each in self._list(state)]
        return 0, max((place for place, is_so in enumerate(possible, 1) if is_so), default=0)

    def _list(self, state: Any) -> Iterable[tuple[JsonTransducer, Any]]:
        return zip(self.parts, state, strict=True)


def _find_place(scores: Iterable[int]) -> int:
    """Return the place of the first text that satisfies its schema, from 1 on; 0 for none."""
    return next((place for place, score in enumerate(scores, 1) if score == _VALID_JSON), 0)


def _parse_pointer(pointer: object) -> list[str]:
    """Return the names of a JSON Pointer.

    Raises:
        ConfigError: it is invalid.
    """
    if not isinstance(pointer, str):
        raise ConfigError(f"pointer: {quote_value(pointer)} is no text; write one such as /refund")
    try:
        names: list[str] = list(JsonPointer(pointer).parts)
    except JsonPointerException as error:
        raise ConfigError(
            f"pointer: {quote_value(pointer)} is no JSON Pointer; write one such as /refund or "
            "/items/0/name"
        ) from error
    # an object may have such a key, but an array may have such an item too
    for name in filter(_INDEX.fullmatch, names):
        if len(name) > len(str(_MAX_INDEX)) or int(name) > _MAX_INDEX:
            raise ConfigError(
                f"pointer: the index {name} is above {_MAX_INDEX:,}; use a smaller one"
            )
    return names


def _check_values(values: object) -> None:
    """Check that values are distinct scalars of JSON.

    Raises:
        ConfigError: they are not.
    """
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"values: {quote_value(values)} is no list of values; write one")
    known: set[tuple[bool, object]] = set()
    for value in values:
        is_finite = not isinstance(value, float) or math.isfinite(value)
        if not (isinstance(value, str | int | float | None) and is_finite):
            raise ConfigError(
                f"values: {quote_value(value)} is no text, number, truth value or null of JSON"
            )
        # in JSON 1 is 1.0, and true is neither
        key = (isinstance(value, bool), value)
        if key in known:
            raise ConfigError(f"values: {quote_value(value)} is given twice; leave one out")
        known.add(key)


def _build_schema(names: Sequence[str], value: object) -> dict[str, Any]:
    """Build the schema of JSON that has a value at a pointer."""
    schema: dict[str, Any] = {"const": value}
    for name in reversed(names):
        # keywords of objects assert nothing of arrays, nor those of arrays of objects
        types = ["object"]
        items: dict[str, Any] = {}
        if _INDEX.fullmatch(name):
            types.append("array")
            index = int(name)
            items = {"prefixItems": [*[True] * index, schema], "minItems": index + 1}
        schema = {"type": types, "properties": {name: schema}, "required": [name], **items}
    return schema
