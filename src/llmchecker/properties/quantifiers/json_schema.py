"""Validators of JSON Schemas, which are checked when they are built.

A validator is jsonschema's with three differences: regular expressions are those of ECMA 262,
multiples are exact, and `nullable` has its meaning of OpenAPI 3.0. Formats are asserted by
jsonschema-rs, which is right on the whole official test suite.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import jsonschema_rs
from jsonschema import (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    FormatChecker,
    SchemaError,
    ValidationError,
)
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref, specification_with

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.properties.quantifiers.ecma_pattern import PatternEngine
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from referencing._core import Resolver  # public by name, but not exported

_log = logging.getLogger(__name__)

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
_FOREIGN_KEYWORDS = frozenset(
    # OpenAPI (and pydantic for discriminator); Gemini; editors; generators of forms and code
    """discriminator example externalDocs xml propertyOrdering
    defaultSnippets deprecationMessage doNotSuggest enumDescriptions errorMessage
    markdownDescription markdownEnumDescriptions patternErrorMessage suggestSortText
    enumNames javaType propertyOrder tsEnumNames tsType""".split()
)
"""Keywords of other specifications and tools, which assert nothing."""
_NULLABLE = "nullable"
"""OpenAPI 3.0's keyword: next to a `type`, true accepts null too."""
_REPORTED_KEYWORDS = _FOREIGN_KEYWORDS | {"contentEncoding", "contentMediaType", "contentSchema"}
"""Keywords that a user could expect to assert something."""


class _DraftValidator(Validator, Protocol):
    """Protocol of jsonschema's own validators: what their keywords use of them."""

    @classmethod
    def check_schema(cls, schema: Any, format_checker: FormatChecker = ...) -> None: ...

    def evolve(self, **changes: Any) -> "_DraftValidator": ...

    def descend(
        self, instance: Any, schema: Any, path: object = None, schema_path: object = None
    ) -> Iterator[ValidationError]: ...


_FORMATS = (
    (
        Draft4Validator,
        jsonschema_rs.Draft4Validator,
        "date-time email hostname idn-email ipv4 ipv6 regex uri",
    ),
    (Draft6Validator, jsonschema_rs.Draft6Validator, "json-pointer uri-reference uri-template"),
    (
        Draft7Validator,
        jsonschema_rs.Draft7Validator,
        "date idn-hostname iri iri-reference relative-json-pointer time",
    ),
    (Draft201909Validator, jsonschema_rs.Draft201909Validator, "duration uuid"),
    (Draft202012Validator, jsonschema_rs.Draft202012Validator, ""),
)
"""Drafts, the classes that check their formats, and the formats that each adds to those before."""

_REFERENCE_DRAFTS = (Draft4Validator, Draft6Validator, Draft7Validator)
"""Drafts in which a `$ref` replaces all keywords next to it."""

_TYPE_NAMES = ("array", "boolean", "integer", "null", "number", "object", "string")
"""Names of the types; Gemini's schemas have them in capitals."""

_ENGINE = PatternEngine()

_MAX_INTEGER = 10**4300
"""Least integer that Python does not print."""


def build_validator(key: str, schema: Any) -> Validator:
    """Build the validator of a schema, after checks of the schema.

    The log reports each place in the schema whose meaning a user could misjudge.

    Args:
        key: str, the setting's name for messages.
        schema: the JSON Schema.

    Raises:
        ConfigError: the schema is invalid, has an unknown keyword, an invalid pattern or an
            unresolvable reference.
    """
    if not isinstance(schema, Mapping | bool):
        raise ConfigError(f"{key}: {quote_value(schema)} is a value, not a JSON Schema")
    places = _locate_mappings(key, schema)
    draft_uri = schema.get("$schema") if isinstance(schema, Mapping) else None
    default = Draft202012Validator if draft_uri is None else None
    # the stubs lack the default None
    found_class = validator_for(schema, default=default)  # type: ignore[arg-type]
    draft_class = cast("type[_DraftValidator] | None", found_class)
    if draft_class is None:
        raise ConfigError(
            f"{key}: $schema {quote_value(draft_uri)} is not a draft of JSON Schema; use one "
            "from 4 to 2020-12"
        )
    if draft_class is Draft3Validator:  # its subschemas are in places that are not searched here
        raise ConfigError(f"{key}: $schema {draft_uri!r} is too old; use draft 4 or later")
    _check_schema(key, draft_class, schema)
    keywords = _collect_keywords(draft_class)
    format_checker = _build_format_checker(draft_class)
    notices: list[str] = []
    for subschema in _iter_subschemas(key, draft_class, schema):
        place = places[id(subschema)]
        _check_keywords(place, subschema, keywords, is_root=subschema is schema)
        _check_patterns(place, subschema)
        notices += (f"{place}: {notice}" for notice in _iter_notices(draft_class, subschema))
    for notice in sorted(notices):
        _report_once(notice)
    if isinstance(schema, Mapping):  # a reference to the root would create an unextended validator
        schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    overrides = {
        keyword: override
        for keyword, override in _OVERRIDES.items()
        if keyword in draft_class.VALIDATORS
    }
    # the stubs have no types for `extend`
    validator_class: type[Validator] = extend(draft_class, overrides)  # type: ignore[no-untyped-call]
    # an empty registry downloads nothing
    return validator_class(schema, registry=Registry(), format_checker=format_checker)


@lru_cache(maxsize=1024)
def _report_once(message: str) -> None:
    """Log a message, once for the many rows of a suite that share a schema."""
    _log.warning("%s", message)


def _locate_mappings(key: str, schema: Any) -> dict[int, str]:
    """Return the place of each mapping in a schema by its id.

    Raises:
        ConfigError: a value is not of JSON, or has more digits than Python prints.
    """
    places: dict[int, str] = {}
    visited_ids = set()
    stack = [(key, schema)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, Mapping | list):
            # a value may be in several places, or in itself
            if id(value) in visited_ids:
                continue
            visited_ids.add(id(value))
        if isinstance(value, Mapping):
            places[id(value)] = place
            for name, item in value.items():
                if not isinstance(name, str):
                    raise ConfigError(f"{place}: the key {name!r} is not a text; quote it")
                # pydantic writes an infinite default, which asserts nothing
                if name != "default" or not isinstance(item, float):
                    stack.append((f"{place}[{name!r}]", item))
        elif isinstance(value, list):
            stack += [(f"{place}[{index}]", item) for index, item in enumerate(value)]
        elif isinstance(value, int):
            if abs(value) >= _MAX_INTEGER:
                raise ConfigError(f"{place}: a number of more than 4,300 digits; shorten it")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise ConfigError(f"{place}: {value!r} is not a number of JSON; remove it")
        elif value is not None and not isinstance(value, str):
            raise ConfigError(f"{place}: {value!r} is not a value of JSON; use lists and texts")
    return places


def _check_schema(key: str, validator_class: type[_DraftValidator], schema: Any) -> None:
    """Check a schema by the metaschema of its draft, without the formats of its texts.

    Raises:
        ConfigError: it is not a schema.
    """
    try:
        validator_class.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        location = "".join(f"[{step!r}]" for step in error.absolute_path)
        problem, names = error.message, _TYPE_NAMES
        # the message about the metaschema's alternatives lacks the names
        is_type = list(error.absolute_schema_path)[-2:] == ["type", "anyOf"]
        if is_type and isinstance(error.instance, str):
            hint = did_you_mean(error.instance.lower(), names) or f"; use {', '.join(names)}"
            problem = f"{quote_value(error.instance)} is not a type{hint}"
        raise ConfigError(f"{key}{location}: not a JSON Schema: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{key}: nested too deeply; use a $ref") from error


def _collect_keywords(validator_class: type[_DraftValidator]) -> frozenset[str]:
    """Return a draft's keywords: defined, validated, or annotations."""
    metaschema = validator_class.META_SCHEMA
    resolver = REGISTRY.resolver(base_uri=_find_draft_uri(validator_class))
    metaschemas = [
        metaschema,
        *(resolver.lookup(reference["$ref"]).contents for reference in metaschema.get("allOf", ())),
    ]
    defined_keywords = {name for schema in metaschemas for name in schema.get("properties", ())}
    return (
        _ANNOTATION_KEYWORDS
        | _FOREIGN_KEYWORDS
        | {_NULLABLE}
        | (_AUXILIARY_KEYWORDS & defined_keywords)
        | frozenset(validator_class.VALIDATORS)
    )


def _find_draft_uri(validator_class: type[_DraftValidator]) -> str:
    metaschema = validator_class.META_SCHEMA
    uri: str = metaschema["$id"] if "$id" in metaschema else metaschema["id"]
    return uri


def _check_keywords(
    place: str, schema: Mapping[str, Any], keywords: frozenset[str], is_root: bool
) -> None:
    """Check the keywords of one schema, without the schemas in it.

    Raises:
        ConfigError: a keyword is unknown, or names a draft in a subschema.
    """
    for name in schema:
        # all parts are checked by the root's draft
        if name == "$schema" and not is_root:
            raise ConfigError(f"{place}: it has a $schema; name the draft only at the root")
        if name not in keywords and not name.startswith("x-"):
            raise ConfigError(
                f"{place}: {name!r} is not a keyword of the draft and does not begin with "
                f"x-{did_you_mean(name, keywords - _FOREIGN_KEYWORDS)}"
            )
    if not isinstance(schema.get(_NULLABLE, False), bool):
        raise ConfigError(
            f"{place}[{_NULLABLE!r}]: {quote_value(schema[_NULLABLE])} is not true or false"
        )


def _check_patterns(place: str, schema: Mapping[str, Any]) -> None:
    """Check the regular expressions of one schema, without the schemas in it.

    Raises:
        ConfigError: one is invalid.
    """
    patterns = [schema["pattern"]] if "pattern" in schema else []
    for pattern in (*patterns, *schema.get("patternProperties", ())):
        keyword = "pattern" if pattern in patterns else "patternProperties"
        try:
            _ENGINE.check_pattern(pattern)
        except ConfigError as error:
            raise ConfigError(f"{place}[{keyword!r}]: {error}") from error


def _iter_notices(
    validator_class: type[_DraftValidator], schema: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what a user could misjudge in one schema, without the schemas in it."""
    formats = _build_format_checker(validator_class).checkers
    if "$ref" in schema and validator_class in _REFERENCE_DRAFTS:
        asserting = {*validator_class.VALIDATORS, _NULLABLE} - {"$ref"}
        for keyword in sorted(asserting & schema.keys()):
            yield f"{keyword} asserts nothing next to a $ref in this draft"
        return
    for keyword in sorted(_REPORTED_KEYWORDS & schema.keys()):
        yield f"{keyword} asserts nothing"
    if _NULLABLE in schema:
        yield f"{_NULLABLE} is read as in OpenAPI 3.0: next to a type, true accepts null too"
    name = schema.get("format")
    if name is not None and name not in formats:
        hint = did_you_mean(name, formats)
        yield f"format {name!r} is not one of the draft and asserts nothing{hint}"


def _iter_subschemas(
    key: str, validator_class: type[_DraftValidator], schema: Any
) -> Iterator[Mapping[str, Any]]:
    """Yield a schema, its subschemas, and the targets of its references, but no booleans.

    Raises:
        ConfigError: a reference resolves to no schema.
    """
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
    try:
        resolved = resolver.lookup(str(reference))
    # a ValueError for a text that is not a URI
    except (Unresolvable, ValueError) as error:
        raise ConfigError(
            f"{key}: the {keyword} {reference!r} leads outside the schema; nothing is fetched"
        ) from error
    if not isinstance(resolved.contents, Mapping | bool):
        raise ConfigError(f"{key}: the {keyword} {reference!r} leads to a value; name a schema")
    return resolved.contents, resolved.resolver


@cache
def _build_format_checker(validator_class: type[_DraftValidator]) -> FormatChecker:
    """Return a checker of the draft's formats that raises no error on any text."""
    format_checker = FormatChecker(())
    draft_classes: list[object] = [draft_class for draft_class, _, _ in _FORMATS]
    drafts = _FORMATS[: draft_classes.index(validator_class) + 1]
    format_class = drafts[-1][1]
    for name in " ".join(names for _, _, names in drafts).split():
        # a pattern has the engine that searches it
        check = _is_pattern if name == "regex" else _build_format_check(format_class, name)
        format_checker.checkers[name] = (check, ())
    return format_checker


def _build_format_check(
    format_class: type[jsonschema_rs.Validator], name: str
) -> Callable[[object], bool]:
    validator = format_class({"format": name}, validate_formats=True)

    def check_format(value: object) -> bool:
        if not isinstance(value, str):
            return True
        try:
            return validator.is_valid(value)
        # a lone surrogate is part of no format
        except UnicodeEncodeError:
            return False

    return check_format


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return True
    try:
        _ENGINE.check_pattern(value)
    except ConfigError:
        return False
    return True


def _check_type(
    validator: _DraftValidator, types: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Yield an error unless a value has one of the types, or is a null that OpenAPI allows."""
    names = [types] if isinstance(types, str) else types
    is_allowed_null = value is None and schema.get(_NULLABLE) is True
    if not is_allowed_null and not any(validator.is_type(value, name) for name in names):
        yield ValidationError(f"it is not of type {', '.join(names)}")


def _check_multiple(
    validator: _DraftValidator, divisor: float, value: Any, schema: Any
) -> Iterator[ValidationError]:
    """Yield an error unless a number is a multiple, computed exactly.

    An integer may exceed every float.
    """
    if validator.is_type(value, "number") and _to_fraction(value) % _to_fraction(divisor):
        yield ValidationError(f"it is not a multiple of {divisor!r}")


def _to_fraction(number: float | Fraction) -> Fraction:
    """Return a number as written: 0.1 is a tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _check_text(
    validator: _DraftValidator, pattern: str, value: Any, schema: Any
) -> Iterator[ValidationError]:
    """Yield an error unless a pattern matches in a text."""
    if validator.is_type(value, "string") and not _ENGINE.is_found(pattern, value):
        yield ValidationError(f"it does not match {pattern!r}")


def _check_matching_properties(
    validator: _DraftValidator, schemas: Mapping[str, Any], value: Any, schema: Any
) -> Iterator[ValidationError]:
    """Yield the errors of properties whose names match the pattern of a schema."""
    if validator.is_type(value, "object"):
        for pattern, subschema in schemas.items():
            for name in value:
                if _ENGINE.is_found(pattern, name):
                    yield from validator.descend(value[name], subschema, name, pattern)


def _check_additional_properties(
    validator: _DraftValidator, subschema: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Yield the errors of properties that the schema neither names nor matches."""
    if validator.is_type(value, "object"):
        for name in value.keys() - _find_declared_names(value, schema):
            yield from validator.descend(value[name], subschema, name)


def _check_unevaluated_properties(
    validator: _DraftValidator, subschema: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Yield the errors of properties that no other part of the schema evaluates."""
    if validator.is_type(value, "object"):
        other_parts = {k: v for k, v in schema.items() if k != "unevaluatedProperties"}
        for name in value.keys() - _find_evaluated_names(validator, value, other_parts):
            yield from validator.descend(value[name], subschema, name)


def _find_declared_names(value: Mapping[str, Any], schema: Mapping[str, Any]) -> set[str]:
    """Return the properties that a schema names or matches."""
    patterns = schema.get("patternProperties", {})
    names: set[str] = schema.get("properties", {}).keys() & value.keys()
    return names | {
        name for name in value if any(_ENGINE.is_found(pattern, name) for pattern in patterns)
    }


def _find_evaluated_names(
    validator: _DraftValidator, value: Mapping[str, Any], schema: Any
) -> set[str]:
    """Return the properties that a schema evaluates, by the rules of 2019-09 and later.

    Args:
        value: an object that satisfies the schema.
    """
    if isinstance(schema, bool):
        return set()
    # such a keyword evaluates all properties that the others leave
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(value)
    names = _find_declared_names(value, schema)
    for evolved, subschema in _iter_applied(validator, value, schema):
        names |= _find_evaluated_names(evolved, value, subschema)
    return names


def _iter_applied(
    validator: _DraftValidator, value: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[_DraftValidator, Any]]:
    """Yield the subschemas that an object satisfies as a whole, each with its validator."""
    # the keywords of jsonschema read it too, but the stubs lack it
    resolver: Resolver = validator._resolver  # type: ignore[attr-defined]
    resolved = [resolver.lookup(schema[name]) for name in ("$ref", "$dynamicRef") if name in schema]
    if "$recursiveRef" in schema:
        resolved.append(lookup_recursive_ref(resolver))
    for target in resolved:
        evolved = validator.evolve(schema=target.contents, _resolver=target.resolver)
        yield evolved, target.contents

    def is_valid(subschema: Any) -> bool:
        return next(validator.descend(value, subschema), None) is None

    for name, subschema in schema.get("dependentSchemas", {}).items():
        if name in value:
            yield validator, subschema
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, ()):
            if is_valid(subschema):
                yield validator, subschema
    if "if" in schema:
        is_satisfied = is_valid(schema["if"])
        if is_satisfied:
            yield validator, schema["if"]
        branch = "then" if is_satisfied else "else"
        if branch in schema:
            yield validator, schema[branch]


_OVERRIDES = {
    "additionalProperties": _check_additional_properties,
    "multipleOf": _check_multiple,
    "pattern": _check_text,
    "patternProperties": _check_matching_properties,
    "type": _check_type,
    "unevaluatedProperties": _check_unevaluated_properties,
}
"""Implementations in place of jsonschema's, by keyword."""
