"""Quantifier of JSON validity: JSON, possible JSON prefix, or neither."""

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator
    from referencing._core import Resolver  # public by name, but not exported

# possessive quantifiers (*+, ++) never backtrack, so matching is linear
_SPACE = re.compile(r"[ \t\n\r]*+")
_CHARACTERS = r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_STRING = re.compile(_CHARACTERS + '"')
_STRING_PREFIX = re.compile(_CHARACTERS + r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_DIGITS = re.compile(r"[-+.eE0-9]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_NUMBER_PREFIX = re.compile(
    r"-|-?(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?)"  # a complete number is a prefix too
)
_LITERALS = ("true", "false", "null")
_NEXT_EXPECTED = {"value": "comma", "item": "comma", "key": "colon", "name": "colon"}

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

_ANNOTATION_KEYWORDS = frozenset(
    """$comment $defs contentEncoding contentMediaType contentSchema default definitions deprecated
    description examples readOnly title writeOnly""".split()
)
"""Keywords that assert nothing and are allowed in every draft."""
_AUXILIARY_KEYWORDS = frozenset(
    """$anchor $dynamicAnchor $id $recursiveAnchor $schema $vocabulary else exclusiveMaximum
    exclusiveMinimum id maxContains minContains then""".split()
)
"""Keywords that other keywords read; a draft has those of its metaschema."""


@dataclass(frozen=True)
class _Shape:
    """Shape of a JSON prefix: whether it is complete, and its nesting depth."""

    is_whole: bool
    depth: int


def _read_shape(text: str) -> _Shape | None:
    """Return the shape of a JSON prefix (RFC 8259), or None for other texts.

    Each step reads one token and moves past it, so that the steps are linear in the text.
    """
    closers: list[str] = []
    depth = 0
    expected = "value"
    position = _skip_space(text, 0)
    while position < len(text):
        character = text[position]
        is_opening = expected in ("value", "item") and character in "[{"
        is_closing = expected in ("comma", "item", "key") and closers[-1:] == [character]
        if is_opening:
            closers.append("]" if character == "[" else "}")
            depth = max(depth, len(closers))
            expected = "item" if character == "[" else "key"
            position += 1
        elif is_closing:
            closers.pop()
            expected = "comma"
            position += 1
        elif expected == "colon" and character == ":":
            expected = "value"
            position += 1
        elif expected == "comma" and closers and character == ",":
            # after a comma a closing bracket is invalid, so not "item" and "key"
            expected = "value" if closers[-1] == "]" else "name"
            position += 1
        elif expected in _NEXT_EXPECTED and (character == '"' or expected in ("value", "item")):
            end = _find_scalar_end(text, position)
            # a scalar that the text cuts is valid only at the end of the text
            if end is None:
                return _Shape(False, depth) if _is_scalar_prefix(text, position) else None
            expected = _NEXT_EXPECTED[expected]
            position = end
        else:
            return None
        position = _skip_space(text, position)
    return _Shape(expected == "comma" and not closers, depth)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _find_scalar_end(text: str, position: int) -> int | None:
    """Return the end of the scalar at a position, or None without a scalar."""
    if text[position] == '"':
        match = _STRING.match(text, position)
        return None if match is None else match.end()
    for word in _LITERALS:
        if text.startswith(word, position):
            return position + len(word)
    digits = _DIGITS.match(text, position)
    end = position if digits is None else digits.end()
    return end if _NUMBER.fullmatch(text, position, end) is not None else None


def _is_scalar_prefix(text: str, position: int) -> bool:
    """Return whether the text from a position on is a prefix of a scalar."""
    if text[position] == '"':
        return _STRING_PREFIX.fullmatch(text, position) is not None
    if any(
        len(text) - position < len(word) and word.startswith(text[position:]) for word in _LITERALS
    ):
        return True
    return _NUMBER_PREFIX.fullmatch(text, position) is not None


class _TooLongNumber(Exception):
    """Error for a number with more digits than `_MAX_DIGITS`."""


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _TooLongNumber
    return int(Decimal(text))  # int(text) rejects more than 4,300 digits


def _parse_number(text: str) -> float | int | Fraction:
    """Parse a number with fraction or exponent, exact beyond the range of floats."""
    value = float(text)
    digits, _, exponent = text.lower().partition("e")
    # a float is exact enough, unless it overflowed, or underflowed to 0
    if math.isfinite(value) and (value or not digits.strip("-.0")):
        return value
    if len(digits) > _MAX_DIGITS or len(exponent) > 7 or abs(int(exponent or 0)) > _MAX_DIGITS:
        raise _TooLongNumber
    exact_value = Fraction(Decimal(text))
    return exact_value.numerator if exact_value.denominator == 1 else exact_value


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

    JSON is that of RFC 8259: white space may surround it, but no word and no code fence. The draft
    is that of the schema's `$schema`, by default 2020-12. Every keyword belongs to that draft or
    begins with `x-`, which asserts nothing; nor does `format`. A text satisfies no schema but
    `true` if its validation nests beyond `_MAX_CALLS`, or a number exceeds `_MAX_DIGITS`. Numbers
    with a fraction are floats. A `$ref` refers to a place in the schema itself.

    Attributes:
        schema: the JSON Schema; the default accepts every JSON text.
        file: path of a file with the schema instead.
        of: `continuation` reads the generated text alone, `text` the start string too.
        validator: the schema's validator.

    Raises:
        ConfigError: the schema is invalid, has an unknown keyword or an unresolvable `$ref`. Both a
            schema and a file are given, or the file cannot be read.
    """

    schema: Mapping[str, Any] | bool = True
    file: Path | None = None
    of: str = "continuation"
    validator: "Validator" = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2
    final: ClassVar[frozenset[int]] = frozenset({0})

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        key, schema = "schema", self.schema
        if self.file is not None:
            if schema is not True:
                raise ConfigError("schema, file: both are set; remove one")
            key, schema = f"file {str(self.file)!r}", _read_schema(self.file)
            object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "validator", _build_validator(key, schema))

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        shape = _read_shape(text)
        # no continuation can become JSON: the final score
        if shape is None:
            return 0
        return 2 if shape.is_whole and self._is_schema_valid(text, shape.depth) else 1

    def _is_schema_valid(self, text: str, depth: int) -> bool:
        # a complete text is valid JSON, which is all that `true` requires
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
            if depth > _MAX_SHALLOW_DEPTH:
                return False
            raise ConfigError(
                "schema: a $ref leads to itself; let it read a part of the text"
            ) from error

    def _is_valid(self, text: str) -> bool:
        value = json.loads(text, parse_int=_parse_integer, parse_float=_parse_number)
        return self.validator.is_valid(value)


def _read_schema(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"file: {path!r} cannot be read as JSON: {error}") from error


def _build_validator(key: str, schema: Any) -> "Validator":
    """Build the validator of a schema, after checks of the schema.

    Args:
        key: str, the setting's name for messages.
        schema: the JSON Schema.

    Raises:
        ConfigError: as in `JsonText`.
    """
    # Imported here: it takes a tenth of a second, and most runs need no JSON.
    from jsonschema import Draft3Validator, Draft202012Validator
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    if not isinstance(schema, Mapping | bool):
        raise ConfigError(f"{key}: {schema!r} is a value, not a JSON Schema")
    draft_uri = schema.get("$schema") if isinstance(schema, Mapping) else None
    draft_class = validator_for(schema, default=Draft202012Validator if draft_uri is None else None)
    if draft_class is None:
        raise ConfigError(
            f"{key}: $schema {draft_uri!r} is not a draft of JSON Schema; use one from 4 to 2020-12"
        )
    if draft_class is Draft3Validator:  # its subschemas are in places that are not searched here
        raise ConfigError(f"{key}: $schema {draft_uri!r} is too old; use draft 4 or later")
    _check_schema(key, draft_class, schema)
    keywords = _collect_keywords(draft_class)
    for subschema in _iter_subschemas(key, draft_class, schema):
        _check_keywords(key, subschema, keywords, is_root=subschema is schema)
    if draft_uri is not None:  # a reference to the root would create an unextended validator
        schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    validator_class = extend(draft_class, {"multipleOf": _check_multiple})
    return validator_class(schema, registry=Registry())  # an empty registry downloads nothing


def _check_schema(key: str, validator_class: "type[Validator]", schema: Any) -> None:
    """Check a schema by the metaschema of its draft.

    Raises:
        ConfigError: it is not a schema.
    """
    from jsonschema import SchemaError

    try:
        validator_class.check_schema(schema)
    except SchemaError as error:
        location = "".join(f"[{step!r}]" for step in error.absolute_path)
        raise ConfigError(f"{key}{location}: not a JSON Schema: {error.message}") from error


def _collect_keywords(validator_class: "type[Validator]") -> frozenset[str]:
    """Return a draft's keywords: defined, validated, or annotations."""
    from jsonschema_specifications import REGISTRY

    metaschema = validator_class.META_SCHEMA
    resolver = REGISTRY.resolver(base_uri=_find_draft_uri(validator_class))
    metaschemas = [
        metaschema,
        *(resolver.lookup(reference["$ref"]).contents for reference in metaschema.get("allOf", ())),
    ]
    defined_keywords = {name for schema in metaschemas for name in schema.get("properties", ())}
    return (
        _ANNOTATION_KEYWORDS
        | (_AUXILIARY_KEYWORDS & defined_keywords)
        | frozenset(validator_class.VALIDATORS)
    )


def _find_draft_uri(validator_class: "type[Validator]") -> str:
    return validator_class.META_SCHEMA.get("$id") or validator_class.META_SCHEMA["id"]


def _check_keywords(key: str, schema: Any, keywords: frozenset[str], is_root: bool) -> None:
    """Check the keywords of one schema, without the schemas in it.

    Raises:
        ConfigError: a keyword is unknown, or names a draft in a subschema.
    """
    for name in schema if isinstance(schema, Mapping) else ():
        # all parts are checked by the root's draft
        if name == "$schema" and not is_root:
            raise ConfigError(f"{key}: a part of it has a $schema; name the draft only at the root")
        if name not in keywords and not str(name).startswith("x-"):
            raise ConfigError(
                f"{key}: {name!r} is not a keyword of the draft and does not begin with "
                f"x-{did_you_mean(str(name), keywords)}"
            )


def _iter_subschemas(key: str, validator_class: "type[Validator]", schema: Any) -> Iterator[Any]:
    """Yield a schema, its subschemas, and the targets of its references.

    Raises:
        ConfigError: a reference resolves to no schema.
    """
    from referencing import Registry
    from referencing.jsonschema import specification_with

    draft = specification_with(_find_draft_uri(validator_class))
    root = draft.create_resource(schema)
    stack = [(root, Registry().resolver_with_root(root))]
    visited_ids = set()
    while stack:
        resource, resolver = stack.pop()
        contents = resource.contents
        # schemas may refer to each other in a cycle
        if not isinstance(contents, Mapping) or id(contents) in visited_ids:
            continue
        visited_ids.add(id(contents))
        yield contents
        for keyword in {"$ref", "$dynamicRef"} & contents.keys():
            target, target_resolver = _resolve_reference(key, resolver, keyword, contents[keyword])
            _check_schema(f"{key}: {keyword} {contents[keyword]!r}", validator_class, target)
            stack.append((draft.create_resource(target), target_resolver))
        subresources = [
            subresource
            for subresource in resource.subresources()
            if isinstance(subresource.contents, Mapping)
        ]
        # Up to draft 7 the values are schemas or lists of names, which `subresources` can confuse.
        for schema_or_names in contents.get("dependencies", {}).values():
            if isinstance(schema_or_names, Mapping):
                subresources.append(draft.create_resource(schema_or_names))
        stack += [
            (subresource, resolver.in_subresource(subresource)) for subresource in subresources
        ]


def _resolve_reference(
    key: str, resolver: "Resolver", keyword: str, reference: Any
) -> "tuple[Any, Resolver]":
    """Resolve a reference; return the schema and its own resolver.

    Raises:
        ConfigError: the reference resolves to no schema.
    """
    from referencing.exceptions import Unresolvable

    try:
        resolved = resolver.lookup(str(reference))
    except Unresolvable as error:
        raise ConfigError(
            f"{key}: the {keyword} {reference!r} leads outside the schema; nothing is fetched"
        ) from error
    if not isinstance(resolved.contents, Mapping | bool):
        raise ConfigError(f"{key}: the {keyword} {reference!r} leads to a value; name a schema")
    return resolved.contents, resolved.resolver


def _check_multiple(
    validator: "Validator", divisor: float, value: Any, schema: Any
) -> Iterator["ValidationError"]:
    """Yield an error unless a number is a multiple, computed exactly.

    An integer may exceed every float.
    """
    from jsonschema import ValidationError

    if validator.is_type(value, "number") and _to_fraction(value) % _to_fraction(divisor):
        yield ValidationError(f"it is not a multiple of {divisor!r}")


def _to_fraction(number: float | Fraction) -> Fraction:
    """Return a number as written: 0.1 is a tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
