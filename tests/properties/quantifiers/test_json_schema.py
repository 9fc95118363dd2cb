"""JSON Schemas: patterns of ECMA 262, formats, annotations, and schemas that pydantic writes."""

import enum
import json
import logging
import math
import re
from datetime import date, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.ecma_pattern import PatternEngine
from llmchecker.properties.quantifiers.json_schema import _report_once
from llmchecker.properties.quantifiers.json_validity import JsonText

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
LATEST = "https://json-schema.org/draft/2020-12/schema"
PROPERTIES = Path(__file__).parents[3] / "docs/reference/quantifiers_form.md"


def is_valid(schema, document) -> bool:
    """Whether a document satisfies a schema."""
    score = JsonText(schema)("", json.dumps(document))
    assert score in (1, 2)
    return score == 2


# by `new RegExp(pattern, "u").test(text)` in Node 20, with V8 11.3 and Unicode 17
PATTERNS = [
    ("^a$", ["a"], ["a\n", "ba"]),
    ("a|b$", ["ac", "cb"], ["b\n"]),
    (r"^\d+$", ["12"], ["٣", "1\n"]),
    (r"^\w$", ["a", "_", "9"], ["é", "ſ"]),
    (r"^\s$", ["\u2028", "\ufeff", "\u00a0"], ["\x1c", "\x85"]),
    (r"\bé", ["aé"], ["é", " é"]),
    ("^.$", ["\U0001f600", "\ud800", "\x00", "\x85"], ["\n", "\r", "\u2028", "ab", ""]),
    (r"^\p{L}+$", ["é", "αb"], ["1", "", "\ud800"]),
    (r"^\p{Script=Greek}$", ["α"], ["a"]),
    (r"^\P{Lu}$", ["a"], ["A"]),
    (r"^(?<year>\d{4})-\k<year>$", ["2024-2024"], ["2024-2025"]),
    (r"^(a)?b\1$", ["b", "aba"], ["ab"]),
    (r"^\u{1F600}$", ["\U0001f600"], ["\ud83d"]),
    (r"^\ud83d\ude00$", ["\U0001f600"], []),
    (r"^[\ud800-\udfff]$", ["\ud800"], ["\U0001f600"]),
    ("^[\U0001f600-\U0001f602]$", ["\U0001f601"], ["\U0001f603"]),
    ("[]", [], ["", "a"]),
    ("^[^]$", ["\n", "a"], ["", "ab"]),
    (r"(?<!a)b", ["b", "cb"], ["ab"]),
    (r"^\cJ\x41\0$", ["\nA\x00"], ["cJ"]),
    (r"^[\w.\-]+@[a-z]+\.[a-z]{2,}$", ["a-b.c@d.ef"], ["a@b", "é@d.ef", "a@d.ef\n"]),
]


@pytest.mark.few(10)
@pytest.mark.parametrize(("pattern", "matching", "others"), PATTERNS, ids=ascii)
def test_patterns_are_those_of_ecma_262(pattern: str, matching: list, others: list) -> None:
    """Patterns match as in a JavaScript engine, also in the names of properties."""
    for text in (*matching, *others):
        expected = text in matching
        assert is_valid({"pattern": pattern}, text) == expected, text
        assert is_valid({"propertyNames": {"pattern": pattern}}, {text: 1}) == expected, text
        assert is_valid({"patternProperties": {pattern: False}}, {text: 1}) != expected, text
        # the text of a pattern, which the metaschema of a format must accept too
        assert is_valid({"format": "regex"}, pattern)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "pattern",
    [
        *("(", r"\Z", r"\A", r"\_", r"\a", "(?P<n>a)", "(?i)a", "a++", "(?>a)", "a{2", r"\p{Foo}"),
        *("]", "[b-a]", r"\k<n>", r"\2(a)", "(?#a)", "(" * 300 + ")" * 300),
    ],
)
@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_7, DRAFT_2019, None])
def test_a_pattern_of_another_syntax_is_refused_with_its_place(pattern: str, draft) -> None:
    """A text that is no pattern with the flag u is refused where it is, and violates `regex`."""
    head = {} if draft is None else {"$schema": draft}
    message = re.escape(f"{pattern!r}: not an ECMA 262 pattern")
    for schema, place in (
        ({"items": {"pattern": pattern}}, "['items']['pattern']"),
        ({"properties": {"a": {"patternProperties": {pattern: {}}}}}, "['a']['patternProperties']"),
        ({"allOf": [{"not": {"pattern": pattern}}]}, "['allOf'][0]['not']['pattern']"),
    ):
        with pytest.raises(ConfigError, match=rf"schema.*{re.escape(place)}: {message}"):
            JsonText({**head, **schema})
    assert not is_valid({**head, "format": "regex"}, pattern)


@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_7, DRAFT_2019, None])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("STRING", "is not a type, did you mean 'string'?"),
        ("any", "is not a type; use array, boolean, integer, null, number, object, string"),
    ],
)
def test_an_unknown_type_is_refused_with_the_types(name: str, hint: str, draft) -> None:
    """A type of another language is refused where it is; a property with that name is no type."""
    head = {} if draft is None else {"$schema": draft}
    message = re.escape(f"['a']['type']: not a JSON Schema: {name!r} {hint}")
    with pytest.raises(ConfigError, match=message):
        JsonText({**head, "properties": {"a": {"type": name}}})
    with pytest.raises(ConfigError, match=r"\['type'\]: .* is not of type 'object'"):
        JsonText({**head, "properties": {"type": name}})


def test_a_catastrophic_pattern_is_stopped() -> None:
    """A search that would take ages is an error with the pattern and the text, and no answer."""
    engine, pattern = PatternEngine(max_seconds=0.05), "^(a|aa)+$"
    assert engine.is_found(pattern, "aaa")
    message = r"pattern '\^\(a\|aa\)\+\$': interrupted after at most 0.05 s on the text 'aaa"
    with pytest.raises(ConfigError, match=message):
        engine.is_found(pattern, "a" * 80 + "!")
    assert not engine.is_found(pattern, "aab")


def test_a_deep_text_has_its_patterns_checked() -> None:
    """Patterns are also searched in the thread of deep validations."""
    schema = {"pattern": "^a$", "items": {"$ref": "#"}}
    for text, expected in (("a", 2), ("b", 1)):
        assert JsonText(schema)("", "[" * 400 + f'"{text}"' + "]" * 400) == expected


NAMES = {"properties": {"a": {}}, "patternProperties": {r"^\d$": {}, r"^(x)\1": {}}}
EVALUATES = {
    "properties": {"allOf": [{"properties": {"a": {}}}, {"patternProperties": {r"^\d$": {}}}]},
    "any": {"anyOf": [{"properties": {"a": {"const": 1}}}, {"required": ["b"], **NAMES}]},
    "if": {"if": {"required": ["a"]}, "then": {"properties": {"a": {}}}, "else": {"required": []}},
    "ref": {"$ref": "#/$defs/named", "$defs": {"named": NAMES}},
    "dependent": {"dependentSchemas": {"a": NAMES}},
    "additional": {"oneOf": [{"additionalProperties": {"type": "integer"}}]},
    "not": {"not": {"not": {"properties": {"a": {}}}}},
}
"""Schemas next to `unevaluatedProperties: false`."""


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        *(
            ({**head, **NAMES, "additionalProperties": False}, ["a", "1", "xxy"], ["b", "٣", "xy"])
            for head in ({"$schema": DRAFT_4}, {"$schema": DRAFT_7}, {"$schema": DRAFT_2019}, {})
        ),
        ({**NAMES, "unevaluatedProperties": False}, ["a", "1", "xxy"], ["b", "٣", "1\n"]),
        (EVALUATES["properties"], ["a", "1"], ["b", "٣"]),
        (EVALUATES["any"], ["a"], ["1", "c"]),
        (EVALUATES["if"], ["a"], ["b"]),
        (EVALUATES["ref"], ["a", "1"], ["b", "٣"]),
        (EVALUATES["dependent"], ["a"], ["1", "b"]),
        (EVALUATES["additional"], ["a", "type"], []),
        (EVALUATES["not"], [], ["a"]),
    ],
    ids=str,
)
def test_properties_that_no_pattern_matches_are_additional(schema, valid, invalid) -> None:
    """Additional and unevaluated properties are those that no name, pattern or part covers."""
    if schema in EVALUATES.values():
        schema = {**schema, "unevaluatedProperties": False}
        cases = [schema, {"$schema": DRAFT_2019, **schema}]
    else:
        cases = [schema]
    for case in cases:
        assert [is_valid(case, {name: 1}) for name in valid] == [True] * len(valid)
        assert [is_valid(case, {name: 1}) for name in invalid] == [False] * len(invalid)


def test_the_schema_of_other_properties_is_applied() -> None:
    """A schema of additional or unevaluated properties judges their values."""
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        schema = {"patternProperties": {r"^\d$": {}}, keyword: {"type": "string"}}
        assert is_valid(schema, {"1": 1, "a": "b"})
        assert not is_valid(schema, {"1": 1, "a": 1})
    recursive = {"$recursiveAnchor": True, "$schema": DRAFT_2019, **NAMES}
    recursive |= {"unevaluatedProperties": {"$recursiveRef": "#"}}
    assert is_valid(recursive, {"b": {"a": 1}})


# by the specifications: RFC 3339, 5321, 1123, 5890, 4291, 3986, 6901, 6570, 4122
FORMATS = {
    "date": (["2024-02-29"], ["2023-02-29", "2024-2-9", "2024-02-29\n", "٢٠٢٤-٠٢-٢٩"]),
    "date-time": (
        ["2024-02-29T23:59:59Z", "2024-02-29T23:59:59.5+01:00"],
        ["2024-02-29", "2024-02-29T23:59:59", "2024-02-29T25:00:00Z", "2024-02-29T23:59:59Z\n"],
    ),
    "time": (["23:59:59Z", "23:59:59-02:00"], ["23:59:59", "24:00:00Z", "23:59:59Z\n"]),
    "duration": (
        ["P1D", "PT36H", "P4Y", "P1DT5S"],
        ["P", "1D", "PT", "P1", "-P1D", "P1e5D", "P1D2T3H", "P1DT0.5S", "P1Y2D", "P1D\n"],
    ),
    "email": (
        ["a@example.com", "te~s.t@a", '"joe @ bloggs"@a.b', "a@[127.0.0.1]", "a@[IPv6:::1]"],
        ["a", "", "@", "@a", "a@", ".a@b", "a.@b", "a..b@c", "a b@c", "a@b, c@d", "a@b\n", "é@b"],
    ),
    "idn-email": (["é@例え.jp", "a@b"], ["é", "@", "é @b", "é@b\n"]),
    "hostname": (["a.example.com"], ["-a", "a..b", "a_b", "a.b\n", "a.b.", "٣"]),
    "ipv4": (["127.0.0.1"], ["256.0.0.1", "127.0.0", "127.0.0.1\n", "٣.0.0.1"]),
    "ipv6": (["::1", "2001:db8::ff"], ["1", ":::1", "::1%1", "::1\n"]),
    "uri": (["https://a.b/c?d#e"], ["/c", "https://a b", "https://a\n", "https://é"]),
    "uri-reference": (["/c", "#d"], ["a b", "\\a"]),
    "iri": (
        ["https://é.b", "http://a/\U00010000?\ue000#é?", "http://[::1]/é"],
        ["/é", "http://\ue000", "http://a#\ue000", "http://[v1.é]", "http://é\n", "a:\ufffe"],
    ),
    "iri-reference": (["", "é?\U00100000"], ["é b", "[é]", "\x80"]),
    "json-pointer": (["", "/a/0", "/~0~1"], ["a", "/~2"]),
    "relative-json-pointer": (["0", "1/a", "2#"], ["", "/a", "01", "²", "1²/a"]),
    "uri-template": (["/{id}"], ["/{id", "/{a b}"]),
    "uuid": (
        ["123e4567-E89B-12d3-a456-426614174000"],
        [
            *("123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400_"),
            *("123e4567-e89b-12d3-a456-426614174000-", ""),
        ],
    ),
    "idn-hostname": (["é.example"], ["\u3002", "\ud800"]),
    "regex": ([r"\p{L}"], ["("]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_asserted(name: str, caplog) -> None:
    """A format of the draft accepts texts of its specification and no others, silently."""
    valid, invalid = FORMATS[name]
    schema = {"format": name}
    assert [is_valid(schema, text) for text in valid] == [True] * len(valid)
    assert [is_valid(schema, text) for text in invalid] == [False] * len(invalid)
    # a format is about texts alone, and a negation needs its answer too
    assert is_valid(schema, 3)
    assert is_valid({"not": schema}, invalid[0])
    assert not caplog.messages


# by RFC 3339, with the same verdicts as in the official JSON-Schema-Test-Suite
LEAP_SECONDS = {
    "time": (
        ["23:59:60Z", "23:59:60.52Z", "23:59:60+00:00", "01:29:60+01:30", "23:29:60+23:30"],
        ["22:59:60Z", "23:58:60Z", "23:59:61Z", "23:59:60+01:00", "23:59:60+00:30", "23:59:60"],
    ),
    "date-time": (
        ["1998-12-31T23:59:60Z", "1998-12-31T15:59:60.123-08:00", "1999-01-01T00:59:60+01:00"],
        ["1998-12-31T22:59:60Z", "1998-12-31T23:58:60Z", "1998-12-31T23:59:61Z"],
    ),
}


@pytest.mark.parametrize("name", LEAP_SECONDS)
def test_a_leap_second_ends_a_minute_at_midnight(name: str) -> None:
    """A leap second is valid at 23:59:60 UTC alone, by the plain call and by the transducer."""
    schema = {"type": "string", "format": name}
    found = JsonText(schema)
    for texts, score in zip(LEAP_SECONDS[name], (2, 1), strict=True):
        for text in texts:
            assert is_valid(schema, text) == (score == 2), text
            scores = run_transducer(found, json.dumps(text))
            assert scores is None or scores[-1] == found("", json.dumps(text))
    assert is_valid({"format": "date-time"}, "9999-12-31T23:59:60Z")


def run_transducer(quantifier: JsonText, text: str) -> list[int] | None:
    """The scores of the beginnings of a text by the transducer; None without one."""
    transducer = quantifier.build_transducer()
    if transducer is None:
        return None
    state, score = transducer.start("")
    scores = [score]
    for character in text:
        state, score = transducer.advance(state, transducer.effect(character))
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    ("draft", "count"), [(DRAFT_4, 8), (DRAFT_6, 11), (DRAFT_7, 17), (DRAFT_2019, 19), (LATEST, 19)]
)
def test_every_draft_has_its_own_formats(draft: str, count: int, caplog) -> None:
    """A format is asserted from the draft on that the documents list, and reported before."""
    _report_once.cache_clear()
    listed = re.search(r"(?s)- Draft 4: .*?\n\n", PROPERTIES.read_text(encoding="utf-8"))[0]
    names = re.findall(r"`([a-z0-9-]+)`", listed)
    assert len(names) == 19
    for name in names:
        JsonText({"$schema": draft, "format": name})
    reported = {message.split("'")[1] for message in caplog.messages}
    assert reported == set(names[count:])


READERS = {"date": date.fromisoformat, "ipv4": IPv4Address, "ipv6": IPv6Address, "uuid": UUID}
"""What the standard library reads of a format; it raises a ValueError for other texts."""


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FORMATS)
@given(text=st.text(st.characters(), max_size=12) | st.sampled_from(FORMATS["date-time"][0]))
def test_every_text_has_a_score_for_every_format(name: str, text: str) -> None:
    """No text raises, and what conforms is read by the standard library too."""
    if is_valid({"format": name}, text) and name in READERS:
        READERS[name](text)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"format": "int32"}, "schema: format 'int32' is not one of the draft"),
        ({"items": {"format": "date-tme"}}, r"schema\['items'\]: format 'date-tme' .*'date-time'"),
        ({"$schema": DRAFT_7, "format": "uuid"}, "format 'uuid' is not one of the draft"),
        ({"$schema": DRAFT_4, "not": {"format": "date"}}, r"schema\['not'\]: format 'date' is not"),
        ({"$ref": "#/x-a", "x-a": {"format": "own"}}, r"schema\['x-a'\]: format 'own' is not"),
        ({"anyOf": [{"discriminator": {"propertyName": "a"}}]}, r"\[0\]: discriminator asserts no"),
        ({"propertyOrdering": ["a"]}, "schema: propertyOrdering asserts nothing"),
        ({"example": 3}, "schema: example asserts nothing"),
        ({"xml": {}}, "schema: xml asserts nothing"),
        ({"externalDocs": {"url": "a"}}, "schema: externalDocs asserts nothing"),
        ({"contentEncoding": "base64"}, "schema: contentEncoding asserts nothing"),
        ({"contentMediaType": "a/b"}, "schema: contentMediaType asserts nothing"),
        ({"enumNames": ["a"], "enum": [1]}, "schema: enumNames asserts nothing"),
        ({"type": "string", "nullable": True}, "schema: nullable is read as in OpenAPI 3.0"),
        (
            {"$schema": DRAFT_7, "definitions": {"a": {}}, "$ref": "#/definitions/a", "minimum": 9},
            "schema: minimum asserts nothing next to a",
        ),
    ],
    ids=str,
)
def test_what_asserts_nothing_is_reported(schema: dict, message: str, caplog) -> None:
    """The log has one line for each place, however often the schema is used."""
    _report_once.cache_clear()
    for _ in range(3):
        assert JsonText(schema)("", "[]") in (1, 2)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert re.search(message, record.message)


def test_plain_annotations_are_silent(caplog) -> None:
    """Titles, descriptions, defaults and names with x- need no word."""
    annotations = {"title": "", "description": "", "default": 1, "examples": [], "$comment": ""}
    assert is_valid({**annotations, "deprecated": True, "readOnly": True, "x-own": 1}, 3)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("schema", "accepts_null"),
    [
        ({"type": "string", "nullable": True}, True),
        ({"type": ["string", "integer"], "nullable": True, "maxLength": 1}, True),
        ({"type": "string", "nullable": False}, False),
        ({"enum": ["a"], "nullable": True}, False),
        ({"type": "string", "enum": ["a"], "nullable": True}, False),
        ({"type": "string", "enum": ["a", None], "nullable": True}, True),
        ({"allOf": [{"type": "string"}], "nullable": True}, False),
        ({"$schema": DRAFT_4, "type": "string", "nullable": True}, True),
    ],
)
def test_nullable_has_its_meaning_of_openapi(schema: dict, accepts_null: bool) -> None:
    """Next to a type, `nullable: true` allows null, and nothing else changes."""
    assert is_valid(schema, None) == accepts_null
    assert is_valid(schema, "a")
    assert not is_valid({**schema, "nullable": True, "type": "string"}, 3)


class Color(enum.StrEnum):
    """A choice of texts."""

    RED = "red"
    BLUE = "blue"


class Cat(pydantic.BaseModel):
    """A member of a union."""

    kind: Literal["cat"]
    lives: Annotated[int, pydantic.Field(ge=1, lt=10, multiple_of=2)]


class Dog(pydantic.BaseModel):
    """The other member, which refers to itself."""

    kind: Literal["dog"]
    name: Annotated[str, pydantic.Field(pattern=r"^\p{L}+$", max_length=5)]
    puppies: list["Dog"] = []


class Home(pydantic.BaseModel):
    """A model with all that pydantic writes into schemas."""

    model_config = pydantic.ConfigDict(extra="forbid")

    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    id: UUID
    since: datetime
    born: date
    visit: timedelta
    color: Color
    rooms: dict[str, int]
    note: str | None = None
    secret: pydantic.SecretStr | None = None
    size: Annotated[int, pydantic.Field(deprecated=True, examples=[1])] = 1
    limit: float = math.inf


HOME = {
    "pet": {"kind": "dog", "name": "Éva", "puppies": [{"kind": "dog", "name": "b"}]},
    "id": "123e4567-e89b-12d3-a456-426614174000",
    "since": "2024-02-29T23:59:59Z",
    "born": "2024-02-29",
    "visit": "P1DT2H",
    "color": "red",
    "rooms": {"hall": 1},
}
WRONG_HOMES = [
    {"pet": {"kind": "cat", "lives": 3}},
    {"pet": {"kind": "cat", "lives": 10}},
    {"pet": {"kind": "cow"}},
    {"pet": {"kind": "dog", "lives": 2}},
    {"pet": {"kind": "dog", "name": "b2"}},
    {"pet": {"kind": "dog", "name": "b", "puppies": [{"kind": "dog", "name": 1}]}},
    {"id": "123e4567"},
    {"since": "yesterday"},
    {"born": "2023-02-29"},
    {"visit": "2 hours"},
    {"color": "green"},
    {"rooms": {"hall": "one"}},
    {"note": 1},
    {"size": "large"},
    {"garden": True},
]


def test_schemas_that_pydantic_writes_are_judged_as_pydantic_does() -> None:
    """Documents of a model satisfy its schema, and documents that the model refuses do not."""
    schema = Home.model_json_schema()
    right = [HOME, HOME | {"pet": {"kind": "cat", "lives": 2}, "note": None, "secret": "a"}]
    for document in right:
        Home.model_validate_json(json.dumps(document))
        assert is_valid(schema, document)
    for change in WRONG_HOMES:
        with pytest.raises(pydantic.ValidationError):
            Home.model_validate_json(json.dumps(HOME | change))
        assert not is_valid(schema, HOME | change), change


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "integer"},
            {"type": ["string", "null"]},
            {"maximum": 2},
            {"multipleOf": 2},
            {"enum": ["a", 1, None]},
            {"minLength": 2},
            {"pattern": "^[ab]+"},
            {"pattern": "b"},
            {"format": "date"},
            {"format": "ipv4"},
            {"required": ["a"]},
            {"maxItems": 1},
            {"uniqueItems": True},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda *parts: {"anyOf": list(parts)}, inner, inner),
        st.builds(lambda *parts: {"oneOf": list(parts)}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b, "unevaluatedProperties": False}, inner, inner),
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda part: {"items": part}, inner),
        st.builds(
            lambda a, b, c: {
                "properties": {"a": a},
                "patternProperties": {"^b": b},
                "additionalProperties": c,
            },
            *(inner, inner, inner | st.booleans()),
        ),
        st.builds(
            lambda a, b, c: {"allOf": [a, {"properties": {"a": b}}], "unevaluatedProperties": c},
            *(inner, inner, inner | st.booleans()),
        ),
        st.builds(lambda part: {"propertyNames": part}, inner),
    ),
    max_leaves=6,
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "a", "ab", "2024-02-29"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(SCHEMAS, DOCUMENTS)
def test_documents_score_as_jsonschema_says(schema: dict, document) -> None:
    """A document scores 2 exactly if it is valid by a plain call of jsonschema."""
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert is_valid(schema, document) == validator.is_valid(document)


@given(SCHEMAS, DOCUMENTS.map(json.dumps), st.text(alphabet='"ab[]{},:1 ', max_size=3))
def test_no_schema_changes_what_can_still_become_json(schema: dict, text: str, more: str) -> None:
    """A text scores 0 exactly if no JSON begins with it, whatever the schema is."""
    quantifier, any_json = JsonText(schema), JsonText()
    for prefix in (text[:end] + more for end in range(len(text) + 1)):
        assert (quantifier("", prefix) == 0) == (any_json("", prefix) == 0)
    assert all(quantifier("", text[:end]) > 0 for end in range(len(text) + 1))


def test_a_schema_file_has_no_key_twice(tmp_path) -> None:
    """A second equal key, which would replace the first one, is refused."""
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "required": ["a"], "required": []}')
    with pytest.raises(ConfigError, match="the key 'required' occurs twice"):
        JsonText(file=file)
