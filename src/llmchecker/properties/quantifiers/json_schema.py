"""Validators of JSON Schemas, which are checked when they are built.

A validator is jsonschema's with three differences: regular expressions are those of ECMA 262,
multiples are exact, and `nullable` has its meaning of OpenAPI 3.0. Formats are asserted.
"""

import logging
import math
import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from jsonschema import (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
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


def _build_email_syntax(letters: str) -> str:
    """Build the pattern of a mailbox of RFC 5321, whose words may have more letters than ASCII."""
    atom = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{letters}-]++"
    quoted = rf'"(?:[ !#-\[\]-~{letters}]|\\[ -~])*+"'
    label = rf"[A-Za-z0-9{letters}](?:[A-Za-z0-9{letters}-]*[A-Za-z0-9{letters}])?"
    return rf"(?:{atom}(?:\.{atom})*+|{quoted})@(?:{label}(?:\.{label})*|\[[!-Z^-~]+\])"


_FORMAT_SYNTAX = {
    "date-time": r"[0-9TtZz:.+-]+",
    "duration": r"P(?:[0-9.]+[YMWD])*(?:T(?:[0-9.]+[HMS])+)?",
    "email": _build_email_syntax(""),
    "hostname": r"[A-Za-z0-9.-]*[A-Za-z0-9]",
    "idn-email": _build_email_syntax("\xa0-\ud7ff\ue000-\U0010ffff"),
    "relative-json-pointer": r"(?:0|[1-9][0-9]*+)(?:#|(?:/.*+)?)",
    "time": r"[0-9Zz:.+-]+",
    "uri": r"[!-~]+",
    "uri-reference": r"[!-~]*",
    "uri-template": r"[^\s\x00-\x1f\x7f]*",
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
}
"""Necessary syntax where jsonschema's checkers accept more, such as a line break at the end."""

_TIME_FORMATS = ("time", "date-time")
"""Formats whose texts may have a leap second."""
_LEAP_SECOND = re.compile(
    r"(?P<minute>(?:(?P<date>\d{4}-\d\d-\d\d)[Tt])?(?P<hours>\d\d):(?P<minutes>\d\d))"
    r":60(?P<rest>(?:\.\d+)?(?:[Zz]|(?P<sign>[+-])(?P<offset_hours>\d\d):(?P<offset_minutes>\d\d)))",
    re.ASCII,
)
"""A time of RFC 3339 in the second 60."""

_IRI_LETTERS = re.compile(
    "[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane)}-{chr(plane + 0xFFFD)}" for plane in range(0x10000, 0xE0000, 0x10000))
    + "\U000e1000-\U000efffd]"
)
"""`ucschar` of RFC 3987: letters of an IRI that a URI lacks."""
_IRI_QUERY_LETTERS = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
"""`iprivate` of RFC 3987: letters that only the query of an IRI may have."""

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


def _build_format_checker(validator_class: type[_DraftValidator]) -> FormatChecker:
    """Return a checker of the draft's formats that raises no error on any text."""
    draft_checkers = validator_class.FORMAT_CHECKER.checkers
    format_checker = FormatChecker(())
    for name, (is_conforming, _) in draft_checkers.items():
        format_checker.checkers[name] = (_build_format_check(name, is_conforming), ())
    format_checker.checkers["regex"] = (_is_pattern, ())
    if validator_class not in (Draft4Validator, Draft6Validator):
        for name in ("iri", "iri-reference"):
            is_uri = format_checker.checkers[name.replace("iri", "uri")][0]
            format_checker.checkers[name] = (_build_iri_check(is_uri), ())
    return format_checker


def _build_iri_check(is_uri: Callable[[object], bool]) -> Callable[[object], bool]:
    """Build the check of an IRI from that of a URI.

    An IRI of RFC 3987 is a URI that has further letters where a URI may have `~`. jsonschema's own
    check builds 38 parsers at import, which takes seconds.
    """

    def check_iri(value: object) -> bool:
        if not isinstance(value, str):
            return True
        # the address in brackets has no further letters
        if re.search(r"\[[^\]]*[^\x00-\x7f]", value):
            return False
        rest, mark, fragment = value.partition("#")
        path, query_mark, query = rest.partition("?")
        query = _IRI_QUERY_LETTERS.sub("~", query)
        return is_uri(_IRI_LETTERS.sub("~", f"{path}{query_mark}{query}{mark}{fragment}"))

    return check_iri


def _build_format_check(
    name: str, is_conforming: Callable[[object], bool]
) -> Callable[[object], bool]:
    syntax = re.compile(_FORMAT_SYNTAX.get(name, ".*+"), re.DOTALL)

    def check_format(value: object) -> bool:
        if not isinstance(value, str):
            return True
        if syntax.fullmatch(value) is None:
            return False
        try:
            if name in _TIME_FORMATS and (leap := _LEAP_SECOND.fullmatch(value)) is not None:
                # the second before it has the same form
                usual = f"{leap['minute']}:59{leap['rest']}"
                return bool(is_conforming(usual)) and _is_leap_minute(leap)
            return bool(is_conforming(value))
        except (RecursionError, MemoryError):
            raise
        # the libraries raise various errors for odd texts
        except Exception:
            return False

    return check_format


def _is_leap_minute(leap: re.Match[str]) -> bool:
    """Return whether a leap second may end the minute of a time of RFC 3339.

    It follows 23:59:59 UTC, with a date at the end of a month.

    Args:
        leap: a match of `_LEAP_SECOND`.
    """
    hours, minutes = int(leap["hours"]), int(leap["minutes"])
    offset = 0
    if leap["sign"] is not None:
        offset = 60 * int(leap["offset_hours"]) + int(leap["offset_minutes"])
    offset = -offset if leap["sign"] == "-" else offset
    days, minute = divmod(60 * hours + minutes - offset, 24 * 60)
    if minute != 24 * 60 - 1:
        return False
    if leap["date"] is None:
        return True
    day = date.fromisoformat(leap["date"]) + timedelta(days=days)
    return day.day == monthrange(day.year, day.month)[1]


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
