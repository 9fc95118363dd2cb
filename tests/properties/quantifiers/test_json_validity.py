"""JSON as Python's own parser reads it, and what is the beginning of JSON, by brute force."""

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.plain_json import is_json, score_any_json
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft7Validator, Draft201909Validator
from jsonschema import Draft202012Validator as Latest

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.json_validity import JsonText

ANY = JsonText()
NAMED = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}},
}

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_every_prefix_of_a_document_can_still_become_json(document, ascii_only, indent) -> None:
    """No beginning of a JSON text scores 0, and the whole text scores 2."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    assert all(ANY("", text[:end]) >= 1 for end in range(len(text)))
    assert ANY("", text) == 2


@pytest.mark.long
@pytest.mark.parametrize("symbols", ['"[]{},:0 ', '"\\unl-01.e+'], ids=["structure", "scalars"])
def test_short_texts_score_as_brute_force_says(symbols: str) -> None:
    """Of all texts of up to 4 symbols, those score 0 that nothing completes, and 2 what is JSON."""
    for text in ("".join(t) for n in range(5) for t in itertools.product(symbols, repeat=n)):
        assert ANY("", text) == score_any_json(text), text


@given(DOCUMENTS.map(json.dumps), st.data())
def test_a_damaged_document_scores_as_the_parser_says(text: str, data) -> None:
    """A letter put into a JSON text leaves a text that Python reads, or none that scores 2."""
    place = data.draw(st.integers(0, len(text)))
    letter = data.draw(st.sampled_from('"\\una[]{},:-01.e x\n\x00'))
    damaged = text[:place] + letter + text[place:]
    assert (ANY("", damaged) == 2) == is_json(damaged)


@given(DOCUMENTS.map(json.dumps), st.text(alphabet='"\\una[]{},:-01.e ', max_size=4))
def test_what_no_longer_can_never_will(text: str, more: str) -> None:
    """Whatever is written after a text that scores 0, it scores 0."""
    damaged = text + "x"
    for dead in (damaged, f"{text} {text}", "]" + text):
        if ANY("", dead) == 0:
            assert ANY("", dead + more) == 0
    assert ANY("", "Sure! " + text) == 0


@given(DOCUMENTS.map(json.dumps), st.data())
def test_no_character_that_is_completed_makes_it_json_again(text: str, data) -> None:
    """What scores 0 with half a character at its end scores 0 with any character there."""
    beginning = text[: data.draw(st.integers(0, len(text)))]
    character = data.draw(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
    if ANY("", beginning + "\ufffd") == 0:
        assert ANY("", beginning + character) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 1),
        ('{"name": "Ada"}', 2),
        (' {"name": "Ada"}\n', 2),
        ('{"name": "Ada"} and', 0),
        ('{"name": 3}', 1),
        ("{}", 1),
        ('["name"]', 1),
        ('{"name": "Ada"', 1),
        ("```json", 0),
        ("NaN", 0),
        ("{'name'", 0),
    ],
)
def test_a_schema_asks_of_complete_texts(text: str, expected: int) -> None:
    """What is JSON and violates the schema can still become JSON, and scores 1."""
    assert JsonText(NAMED)("Reply:", text) == expected


def test_the_start_string_may_begin_the_json() -> None:
    """With `of: text` the start string is a part of the JSON text."""
    assert JsonText(NAMED, of="text")('{"name":', ' "Ada"}') == 2
    assert JsonText(NAMED)('{"name":', ' "Ada"}') == 0


def test_a_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    """A file means what its content means."""
    file = tmp_path / "named.json"
    file.write_text(json.dumps(NAMED))
    assert JsonText(file=str(file))("", '{"name": ""}') == 2
    assert JsonText(file=file).file == file
    assert JsonText({"$ref": "#/$defs/n", "$defs": {"n": NAMED}})("", "{}") == 1


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NUMBERS = {"type": ["array", "integer"], "items": {"type": "integer", "multipleOf": 0.5}}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (True, "[" * 5000 + "]" * 5000, 2),
        (True, "[" * 5000, 1),
        (True, "[" * 5000 + "}", 0),
        ({"type": "array"}, "[" * 5000 + "]" * 5000, 2),
        ({"type": "object"}, "[" * 5000 + "]" * 5000, 1),
        ({"items": {"items": {"type": "array"}}}, '[[[{"a":' * 1000 + "[]" + "}]]]" * 1000, 2),
        ({"type": "array"}, "[" * 50_000 + "]" * 50_000, 1),
        (NUMBERS, "[" + "9" * 5000 + "]", 2),
        (NUMBERS, "[1e999]", 2),
        (NUMBERS, "[1e99999999999]", 1),
        (NUMBERS, "[1." + "1" * 400 + "e309]", 1),
        ({"maximum": 1}, "1e999", 1),
        ({"minimum": 1}, "1e999", 2),
        ({"exclusiveMinimum": 0}, "1e-999", 2),
        ({"exclusiveMinimum": 0}, "0e-999", 1),
        ({"$schema": DRAFT_7, "items": {"$ref": "#"}, "multipleOf": 0.5}, "[1e999]", 2),
        *(
            ({"items": {"anyOf": [schema]}}, f"[{number}]", score)
            for number in ("7" * 5000, "7e5000", "7e-5000", "7." + "7" * 5000)
            for schema, score in ((False, 1), ({"type": "string"}, 1), ({"not": {"const": 7}}, 2))
        ),
        ({"maximum": 7}, "7" * 5000, 1),
        ({"minimum": 7}, "7e-5000", 1),
        ({"enum": [7]}, '{"a": ' + "7" * 5000 + "}", 1),
        ({"multipleOf": 7}, "8" * 5001, 1),
        ({"multipleOf": 0.1}, "7e-5000", 1),
        ({"maxLength": 1}, r'"\ud800"', 2),
        ({"enum": ["a"]}, r'"\ud800"', 1),
        ({"properties": {"a": {"type": "string"}}}, '{"a": 7, "a": "b"}', 2),
        ({"multipleOf": 0.1}, "0.3", 2),
    ],
)
def test_deep_texts_and_great_numbers_have_scores(schema, text: str, expected: int) -> None:
    """A deep text or a great number is scored, and beyond a limit satisfies no schema but true."""
    assert JsonText(schema)("", text) == expected


def test_a_schema_that_refers_to_itself_reads_deep_texts() -> None:
    """Recursive validation is right far beyond Python's own limit, which stays as it was."""
    schema = {"type": "array", "items": {"anyOf": [{"$ref": "#"}]}}
    limit = sys.getrecursionlimit()
    assert JsonText(schema)("", "[" * 500 + "]" * 500) == 2
    assert JsonText(schema)("", "[" * 500 + "0" + "]" * 500) == 1
    assert JsonText(schema)("", "[" * 3000 + "]" * 3000) == 1
    assert sys.getrecursionlimit() == limit


def test_a_schema_without_an_end_is_named() -> None:
    """A reference that leads back to itself without reading on is refused, whatever the text."""
    with pytest.raises(ConfigError, match="leads to itself"):
        JsonText({"$ref": "#"})("", "3")


LONG_TEXT = """
import resource, sys
from llmchecker.properties.quantifiers.json_validity import JsonText
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))  # a reader with quadratic steps takes minutes
print(JsonText()("", "[" + sys.argv[1] * 200_000))
"""


@pytest.mark.long
@pytest.mark.parametrize("unit", ["[", '{"a":', "[1,", "1,", '"a",', '"\\u00e9",', " "])
def test_a_text_of_a_million_characters_is_read(unit: str) -> None:
    """The reader ends on texts for which steps that grow with the square would not end."""
    ended = subprocess.run([sys.executable, "-c", LONG_TEXT, unit], capture_output=True, text=True)
    assert ended.stdout.split() == ["1"], ended.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": {"type": "objekt"}}, r"schema\['type'\]: not a JSON Schema: 'objekt' is not"),
        ({"schema": {"required": "name"}}, r"schema\['required'\]: not a JSON Schema"),
        ({"schema": "name"}, "schema: 'name' is a value, not a JSON Schema"),
        ({"schema": {"pattern": 3}}, r"schema\['pattern'\]: not a JSON Schema"),
        ({"schema": {3: True}}, "schema: the key 3 is not a text"),
        ({"schema": {"const": 10**4300}}, r"schema\['const'\]: .* more than 4,300 digits"),
        ({"schema": {"enum": [1, {2}]}}, r"schema\['enum'\]\[1\]: \{2\} is not a value of JSON"),
        ({"schema": {"maximum": math.inf}}, r"schema\['maximum'\]: inf is not a number of JSON"),
        ({"schema": {"type": "null", "nullable": 1}}, "'nullable'.: 1 is not true or false"),
        ({"schema": {"$schema": "http://a/b"}}, r"\$schema 'http://a/b' is not a draft"),
        ({"schema": {"$ref": "#/$defs/x"}}, r"\$ref '#/\$defs/x' leads outside the schema"),
        ({"schema": {"items": {"$ref": "https://a/b"}}}, r"'https://a/b' leads outside the schema"),
        ({"schema": {"$dynamicRef": "#x"}}, r"\$dynamicRef '#x' leads outside the schema"),
        ({"schema": {"$ref": "#/enum", "enum": [1]}}, "'#/enum' leads to a value"),
        (
            {"schema": {"$ref": "#/x-a", "x-a": {"type": 3}}},
            r"'#/x-a'\['type'\]: not a JSON Schema",
        ),
        ({"schema": {"items": {"$schema": DRAFT_7}}}, r"schema\['items'\]: it has a \$schema"),
        ({"schema": {"$schema": DRAFT_4.replace("4", "3")}}, "use draft 4 or later"),
        ({"schema": NAMED, "file": "x.json"}, "schema, file: both are set"),
        ({"file": "nowhere.json"}, "file: 'nowhere.json' cannot be read as JSON"),
        ({"of": "answer"}, "of: 'answer' is unknown; use one of continuation, text"),
    ],
)
def test_a_schema_that_is_none_is_refused(settings: dict, message: str) -> None:
    """One message names the setting and the place in the schema."""
    with pytest.raises(ConfigError, match=message):
        JsonText(**settings)


MISSPELT = {"requird": ["name"]}
HAS_SCHEMA = "not if then else additionalProperties contains propertyNames items".split()
HAS_LIST = "allOf anyOf oneOf prefixItems".split()
HAS_NAMES = "properties patternProperties $defs definitions dependentSchemas".split()


@pytest.mark.parametrize(
    "schema",
    [
        MISSPELT,
        *({keyword: MISSPELT} for keyword in HAS_SCHEMA),
        {"unevaluatedItems": {"unevaluatedProperties": MISSPELT}},
        *({keyword: [True, MISSPELT]} for keyword in HAS_LIST),
        *({keyword: {"a": MISSPELT}} for keyword in HAS_NAMES),
        {"$ref": "#/x-parts/a", "x-parts": {"a": MISSPELT}},
        {"$ref": "#/default", "default": {"items": MISSPELT}},
        {"$schema": DRAFT_7, "items": [MISSPELT], "additionalItems": False},
        {"$schema": DRAFT_7, "dependencies": {"a": MISSPELT, "b": ["a"]}},
        {"$schema": DRAFT_7, "dependencies": {"b": ["a"], "a": MISSPELT}},
        {"$schema": DRAFT_4, "definitions": {"a": MISSPELT}},
    ],
    ids=str,
)
def test_an_unknown_keyword_is_refused_wherever_a_schema_stands(schema: dict) -> None:
    """A misspelt keyword is named with the nearest one, at the root and at every depth."""
    with pytest.raises(ConfigError, match=r"'requird' is not a keyword.*did you mean 'required'"):
        JsonText(schema)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"dependencies": {}}, "dependencies"),
        ({"$schema": DRAFT_7, "dependentRequired": {}}, "dependentRequired"),
        ({"$schema": DRAFT_4, "if": True}, "if"),
        ({"$schema": DRAFT_7, "id": "a"}, "id"),
    ],
)
def test_a_keyword_of_another_draft_is_refused(schema: dict, keyword: str) -> None:
    """A keyword that asserts nothing in the draft in force is not accepted."""
    with pytest.raises(ConfigError, match=f"{keyword}'? is not a keyword of the draft"):
        JsonText(schema)


@pytest.mark.parametrize("kind", [Draft4Validator, Draft7Validator, Draft201909Validator, Latest])
def test_every_keyword_that_a_validator_heeds_is_known(kind) -> None:
    """A keyword that jsonschema implements for a draft is accepted with a value of its type."""
    draft = kind.META_SCHEMA.get("$id") or kind.META_SCHEMA["id"]

    def accepts(schema: dict) -> bool:
        try:
            JsonText({"$schema": draft, **schema})
        except ConfigError:
            return False
        return True

    values = ({}, {"a": []}, [{}], ["a"], 1, True, "string")
    for keyword in set(kind.VALIDATORS) - {"$ref", "$dynamicRef", "$recursiveRef"}:
        assert any(accepts({keyword: value}) for value in values), keyword
    names = {"requird": {"title": "", "default": {"typ": 1}, "x-own": {"typ": 1}}}
    data = {"enum": [{"typ": 1}], "description": "", "examples": [{"typ": 1}], "$comment": ""}
    assert JsonText({"$schema": draft, "properties": names, **data})("", '{"typ": 1}') == 2


def test_a_file_that_holds_no_schema_is_refused(tmp_path: Path) -> None:
    """A file that is no JSON, or no schema, is named."""
    file = tmp_path / "schema.json"
    for content, message in (("{", "cannot be read as JSON"), ('{"type": 3}', "not a JSON Schema")):
        file.write_text(content)
        with pytest.raises(ConfigError, match=f"schema.json.*{message}"):
            JsonText(file=file)
