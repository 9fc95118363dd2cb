"""JSON as Python's own parser reads it, and what is the beginning of JSON, by brute force."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.json_text import JsonText

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


def is_json(text: str) -> bool:
    """Whether Python's parser reads a text, without the constants that are not JSON."""

    def refused(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refused)
    except ValueError:
        return False
    return True


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_every_prefix_of_a_document_can_still_become_json(document, ascii_only, indent) -> None:
    """No beginning of a JSON text scores 0, and the whole text scores 2."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    assert all(ANY("", text[:end]) >= 1 for end in range(len(text)))
    assert ANY("", text) == 2


CLOSERS = ["".join(c) for n in range(5) for c in itertools.product("]}", repeat=n)]
STRUCTURE = ('"[]{},:0 ', [f"{a}{b}" for b in CLOSERS for a in ("", '"', "0", '":0', ":0", '"":0')])
SCALARS = (
    '"\\unl-01.e+',
    ["", '"', "0", "ull", "ll", "l", 'n"', *(f'{"0" * n}"' for n in range(1, 5))],
)
"""Symbols, and ways to complete every text of up to 4 of them that something completes."""


@pytest.mark.parametrize(("symbols", "endings"), [STRUCTURE, SCALARS], ids=["structure", "scalars"])
def test_short_texts_score_as_brute_force_says(symbols: str, endings: list[str]) -> None:
    """Of all texts of up to 4 symbols, those score 0 that nothing completes, and 2 what is JSON."""
    for text in ("".join(t) for n in range(5) for t in itertools.product(symbols, repeat=n)):
        possible = any(is_json(text + ending) for ending in endings)
        assert ANY("", text) == (2 if is_json(text) else int(possible)), text


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


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "9" * 5000])
def test_a_text_that_python_cannot_read_is_an_error(text: str) -> None:
    """A text that is nested too deeply, or a number too long, gives an error and no score."""
    with pytest.raises(ConfigError, match="cannot be read"):
        ANY("", text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": {"type": "objekt"}}, r"schema\['type'\] is no JSON Schema: 'objekt' is not"),
        ({"schema": {"required": "name"}}, r"schema\['required'\] is no JSON Schema"),
        ({"schema": "name"}, "schema is 'name', which is no JSON Schema"),
        ({"schema": {"pattern": "("}}, r"schema\['pattern'\] is no JSON Schema"),
        ({"schema": {"$schema": "http://a/b"}}, r"\$schema is 'http://a/b', which is no draft"),
        ({"schema": {"$ref": "#/$defs/x"}}, r"\$ref '#/\$defs/x' leads to no place in the schema"),
        ({"schema": {"items": {"$ref": "https://a/b"}}}, r"'https://a/b' leads to no place"),
        ({"schema": NAMED, "file": "x.json"}, "there are both a schema and a file"),
        ({"file": "nowhere.json"}, "file is 'nowhere.json', which cannot be read as JSON"),
        ({"of": "answer"}, "of is 'answer'; it must be one of continuation, text"),
    ],
)
def test_a_schema_that_is_none_is_refused(settings: dict, message: str) -> None:
    """One message names the setting and the place in the schema."""
    with pytest.raises(ConfigError, match=message):
        JsonText(**settings)


def test_a_file_that_holds_no_schema_is_refused(tmp_path: Path) -> None:
    """A file that is no JSON, or no schema, is named."""
    file = tmp_path / "schema.json"
    for content, message in (("{", "cannot be read as JSON"), ('{"type": 3}', "is no JSON Schema")):
        file.write_text(content)
        with pytest.raises(ConfigError, match=f"schema.json.*{message}"):
            JsonText(file=file)
