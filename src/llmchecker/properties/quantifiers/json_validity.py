"""Quantifier of JSON validity: JSON, possible JSON prefix, or neither."""

import itertools
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.properties.transducers.json_schemas import SchemaGraph, UnsupportedSchema
from llmchecker.properties.transducers.json_text import JsonTransducer
from llmchecker.properties.transducers.patterns import UnsupportedPattern

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_MAX_CALLS = 10_000
"""Maximum nested calls of a validation; RFC 8259 allows parsers a limit.

A text beyond it satisfies no schema but `true`.
"""
_MAX_DIGITS = 100_000
"""Maximum digits of a number.

A text beyond it satisfies no schema but `true`.
"""
_MAX_SHALLOW_DEPTH = 200  # no useful schema needs 50 calls per level of a text
_STACK_BYTES = 2**28  # a nested call takes less than 2 KiB; unused pages cost nothing
_DEEP_STACK_LOCK = threading.Lock()  # guards two limits of the whole process


class _TooLongNumber(Exception):
    """Error for a number with more digits than `_MAX_DIGITS`."""


class _Integer(int):
    """An integer that jsonschema can print in a message; Python prints at most 4,300 digits."""

    def __repr__(self) -> str:
        return f"an integer of {self.bit_length()} bits"


class _Ratio(Fraction):
    """A fraction that jsonschema can print in a message."""

    def __repr__(self) -> str:
        return f"a fraction of {self.denominator.bit_length()} bits"


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _TooLongNumber
    return _Integer(Decimal(text))  # int(text) rejects more than 4,300 digits


def _parse_number(text: str) -> float | int | Fraction:
    """Parse a number with fraction or exponent, exact beyond the range of floats."""
    value = float(text)
    digits, _, exponent = text.lower().partition("e")
    # a float is exact enough, unless it overflowed, or underflowed to 0
    if math.isfinite(value) and (value or not digits.strip("-.0")):
        return value
    if len(digits) > _MAX_DIGITS or len(exponent) > 7 or abs(int(exponent or 0)) > _MAX_DIGITS:
        raise _TooLongNumber
    exact_value = _Ratio(Decimal(text))
    return _Integer(exact_value.numerator) if exact_value.denominator == 1 else exact_value


def _call_in_deep_thread(function: Callable[[], bool]) -> bool:
    """Call a function in a thread with a stack for `_MAX_CALLS` nested calls."""
    with _DEEP_STACK_LOCK:
        recursion_limit, stack_size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(max(recursion_limit, _MAX_CALLS))
        try:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(function).result()
        finally:
            threading.stack_size(stack_size)
            sys.setrecursionlimit(recursion_limit)


@dataclass(frozen=True)
class JsonText:
    """Score 2 for JSON that satisfies a schema, 1 for possible JSON, else 0.

    A text with score 1 is a prefix of a JSON text, not necessarily of a text that satisfies the
    schema. A text with score 0 is not a prefix of any JSON text, so that every continuation scores
    0. This holds even if the text ends with half a character that is completed later. A text with
    score 2 may score 1 or 0 with more tokens.

    JSON is that of RFC 8259: white space may surround it, but no word and no code fence. Of equal
    keys of an object, the last one counts. The draft is that of the schema's `$schema`, by default
    2020-12. Every keyword belongs to that draft, is a known annotation, or begins with `x-`. A
    `pattern` is of ECMA 262, and a `format` of the draft is asserted; the log names every other
    `format`, and keywords that assert nothing. A text satisfies no schema but `true` if its
    validation nests beyond `_MAX_CALLS`, or a number exceeds `_MAX_DIGITS`. Numbers with a fraction
    are floats. A `$ref` refers to a place in the schema itself.

    Attributes:
        schema: the JSON Schema; the default accepts every JSON text.
        file: path of a file with the schema instead.
        of: `continuation` reads the generated text alone, `text` the start string too.
        validator: the schema's validator.

    Raises:
        ConfigError: the schema is invalid, has an unknown keyword, an invalid pattern or an
            unresolvable `$ref`. Both a schema and a file are given, or the file cannot be read. In
            a call: the search for a pattern takes too long.
    """

    schema: Mapping[str, Any] | bool = True
    file: Path | None = None
    of: str = "continuation"
    validator: "Validator" = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2
    final: ClassVar[frozenset[int]] = frozenset({0})

    def __post_init__(self) -> None:
        # imported here: it takes a tenth of a second, and most runs need no JSON
        from llmchecker.properties.quantifiers.json_schema import build_validator

        check_one_of("of", self.of, TEXT_PARTS)
        key, schema = "schema", self.schema
        if self.file is not None:
            if schema is not True:
                raise ConfigError("schema, file: both are set; remove one")
            key, schema = f"file {str(self.file)!r}", read_schema("file", self.file)
            object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "validator", build_validator(key, schema))

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        reader = _build_reader()
        state, _ = reader.advance(reader.start("")[0], reader.effect(text))
        score = reader.score(state)
        # the reader's schema is `true`, which all JSON satisfies
        is_complete = score == 2
        return 1 if is_complete and not self._is_schema_valid(text) else score

    def _is_schema_valid(self, text: str) -> bool:
        if self.validator.schema is True:
            return True
        try:
            try:
                return self._is_valid(text)
            except RecursionError:
                # only after a RecursionError, so that shallow texts need no thread
                return _call_in_deep_thread(lambda: self._is_valid(text))
        except _TooLongNumber:
            return False
        except RecursionError as error:
            # a shallow text cannot need so many calls, unless a $ref refers to itself
            if _compute_depth(text) > _MAX_SHALLOW_DEPTH:
                return False
            raise ConfigError(
                "schema: a $ref leads to itself; let it read a part of the text"
            ) from error

    def _is_valid(self, text: str) -> bool:
        value = json.loads(text, parse_int=_parse_integer, parse_float=_parse_number)
        return self.validator.is_valid(value)

    def build_transducer(self) -> JsonTransducer | None:
        """Build the incremental form; None for a schema of which states would be too large."""
        schema, keywords = self.validator.schema, self.validator.VALIDATORS
        # the protocol lacks the format checker, which `build_validator` sets
        formats = cast("Any", self.validator).format_checker.checkers
        try:
            graph = SchemaGraph(schema, keywords, formats)
            return JsonTransducer(graph, self._judge_scalar, reads_start=self.of == "text")
        except (UnsupportedSchema, UnsupportedPattern):
            return None

    def _judge_scalar(self, schema: Any, text: str) -> bool | None:
        """Return whether a scalar satisfies a part of the schema; None for a number too long."""
        try:
            value = json.loads(text, parse_int=_parse_integer, parse_float=_parse_number)
        except _TooLongNumber:
            return None
        return self.validator.evolve(schema=schema).is_valid(value)


@cache
def _build_reader() -> JsonTransducer:
    """Build the reader of any JSON, whose schema `true` judges no value."""
    return JsonTransducer(SchemaGraph(True, (), ()), lambda schema, text: True, reads_start=False)


def _compute_depth(text: str) -> int:
    """Return how deep the arrays and objects of a JSON text are nested."""
    depths = itertools.accumulate(
        (character in "[{") - (character in "]}") for character in _STRING.sub("", text)
    )
    return max(depths, default=0)


def read_schema(key: str, path: str | Path) -> Any:
    """Read a file with a JSON Schema, which is not checked.

    Args:
        key: the setting's name for messages.
        path: path of the file.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or has a key twice.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_build_object)
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{key}: {str(path)!r} cannot be read as JSON: {error}") from error


def _build_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of a schema, in which a second equal key would replace the first."""
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f"the key {name!r} occurs twice in an object")
        content[name] = value
    return content
