"""JSON texts and the content of JSON strings, against Python's own parser and jsonschema."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.marks import examples
from helpers.plain_json import score_json
from helpers.transducer_law import (
    Call,
    assert_equal_futures,
    assert_law,
    assert_law_of_table,
    load_pieces,
    rough_pieces,
)
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import TooManyStates
from llmchecker.properties.quantifiers.json_validity import JsonText
from llmchecker.properties.transducers.json_strings import StringReader
from llmchecker.properties.transducers.json_text import JsonTransducer
from llmchecker.properties.transducers.token_classes import TokenClasses

MODELS = Path(__file__).parents[3] / "resources/models"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 20}
TREE = {"properties": {"a": {"$ref": "#"}, "n": {"items": {"$ref": "#"}}}, "required": ["b"]}

SCHEMAS: dict[str, Any] = {
    "any": True,
    "nothing": False,
    "empty": {},
    "named": {"type": "object", "required": ["n"], "properties": {"n": TEXT}},
    "closed": {
        "required": ["n", "a"],
        "additionalProperties": False,
        "properties": {"n": {"type": "string", "minLength": 1, "maxLength": 2}, "a": COUNT},
    },
    "items": {"items": {"enum": ["a", "b", 1, None, True, ""]}, "minItems": 1, "maxItems": 3},
    "first items": {"prefixItems": [TEXT, {"type": "number"}], "items": False},
    "alternatives": {
        "anyOf": [
            {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
            {"type": "array", "items": {"properties": {"a": {"type": ["null", "string"]}}}},
            {"type": "null"},
        ]
    },
    "one": {"oneOf": [{"required": ["a"]}, {"required": ["n"]}, {"type": "integer"}]},
    "all": {"allOf": [{"properties": {"a": COUNT}}, {"properties": {"a": {"minimum": 3}}}]},
    "none": {"not": {"items": {"not": {"items": TEXT}}}},
    "tree": TREE,
    "reference": {"$ref": "#/$defs/a~1b", "required": ["n"], "$defs": {"a/b": {"required": ["b"]}}},
    "old reference": {
        "$schema": DRAFT_7,
        "$ref": "#/definitions/x",
        "required": ["n"],
        "definitions": {"x": {"properties": {"a": {"exclusiveMinimum": 1}}}},
    },
    "old integer": {"$schema": DRAFT_4, "items": {"type": "integer"}},
    "multiple": {"items": {"multipleOf": 0.5}},
    "text": {"enum": ["é😀", "", "a\n"]},
    "short": {"items": {"maxLength": 1}},
    "null too": {"items": {"type": "string", "nullable": True}},
}
QUANTIFIERS = {name: JsonText(schema) for name, schema in SCHEMAS.items()}


def plain_score(name: str, of: str = "continuation") -> Call:
    """The oracle of a schema."""
    # jsonschema lacks a keyword of OpenAPI
    plain = {"null too": {"items": {"type": ["string", "null"]}}}
    schema = plain.get(name, SCHEMAS[name])
    return lambda start, continuation: score_json(schema, start * (of == "text") + continuation)


SCALARS = st.sampled_from(
    [
        0,
        1,
        -3,
        12,
        2.5,
        3.0,
        1e22,
        True,
        False,
        None,
        "",
        "a",
        "b",
        "n",
        "é😀",
        "a\n",
        "abcd",
        '"\\',
    ]
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "n", "é"]), inner, max_size=4)
    ),
    max_leaves=10,
)
OWN_PIECES = [
    *(
        '{"a": 1',
        '{"n":"',
        '"a"',
        '"b":',
        '", "n": "',
        "[1, ",
        "[[",
        "]]",
        "]}",
        "}",
        "},",
        '"]',
        "1",
    ),
    *("1", "12", "0", "-", ".5", "e+2", "tr", "ue", "false", "nu", "ll", "{", "[", ","),
    *(":", '"', "\\"),
    *("\\u006", "1", "\\u0061", "\\ud83d", "\\ude00", '\\"', "\x01", " ", "\n", "a", "e", "t"),
]


def split(text: str, sizes: list[int]) -> list[str]:
    """The pieces of a text with the given sizes, in turn."""
    pieces, position = [], 0
    while position < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[position : position + size])
        position += size
    return pieces


@pytest.mark.parametrize("name", SCHEMAS)
def test_documents_have_the_scores_of_the_libraries(name: str) -> None:
    """Every prefix of a document, a damaged one and one with a key twice has the oracle's score."""
    quantifier, score = QUANTIFIERS[name], plain_score(name)
    transducer = quantifier.build_transducer()
    assert transducer is not None

    @examples(40)
    @given(
        st.tuples(DOCUMENTS, DOCUMENTS),
        st.booleans(),
        st.sampled_from([None, 1]),
        st.lists(st.integers(1, 6), min_size=1, max_size=5),
        st.none() | st.tuples(st.integers(0, 30), st.sampled_from(OWN_PIECES)),
    )
    def holds(
        documents: tuple[Any, Any],
        ascii_only: bool,
        indent: int | None,
        sizes: list[int],
        damage: tuple[int, str] | None,
    ) -> None:
        texts = [json.dumps(d, ensure_ascii=ascii_only, indent=indent) for d in documents]
        text = texts[0]
        # the properties of a second object may replace those of the first
        if all(isinstance(document, dict) and document for document in documents):
            text = texts[0][:-1] + "," + texts[1][1:]
        if damage is not None:
            position, piece = damage
            text = text[:position] + piece + text[position:]
        assert_law(score, transducer, "Reply:", split(text, sizes))
        assert quantifier("Reply:", text) == score("Reply:", text)

    holds()


@pytest.mark.parametrize("name", ["any", "closed", "alternatives", "tree"])
def test_pieces_have_the_scores_of_the_libraries(name: str) -> None:
    """Any pieces after any start string that is read too have the oracle's score."""
    quantifier, score = JsonText(SCHEMAS[name], of="text"), plain_score(name, "text")
    transducer = quantifier.build_transducer()
    pieces = st.lists(rough_pieces(OWN_PIECES), max_size=8)

    @examples(60)
    @given(pieces.map("".join), pieces)
    def holds(start: str, pieces: list[str]) -> None:
        assert_law(score, transducer, start, pieces)
        assert quantifier(start, "".join(pieces)) == score(start, "".join(pieces))

    holds()


@pytest.mark.parametrize("name", ["any", "closed", "items", "tree"])
def test_equal_states_have_equal_futures(name: str) -> None:
    """Two texts of one state have equal scores after every continuation."""
    quantifier = QUANTIFIERS[name]
    transducer = quantifier.build_transducer()
    texts = st.tuples(st.just(""), st.lists(st.sampled_from(OWN_PIECES), max_size=5))
    futures = st.lists(st.sampled_from(OWN_PIECES), max_size=4).map("".join)

    @examples(30)
    @given(st.lists(texts, min_size=8, max_size=8), st.lists(futures, max_size=6))
    def holds(texts: list[tuple[str, list[str]]], futures: list[str]) -> None:
        assert_equal_futures(plain_score(name), transducer, texts, [*OWN_PIECES, *futures])

    holds()


def read(transducer: JsonTransducer, text: str) -> object:
    """The state after a text."""
    return transducer.advance(transducer.start("")[0], transducer.effect(text))[0]


def test_texts_without_a_difference_share_a_state() -> None:
    """What a schema cannot tell apart is forgotten: strings, numbers, items and violations."""
    anything = QUANTIFIERS["any"].build_transducer()
    named = QUANTIFIERS["named"].build_transducer()
    items = QUANTIFIERS["items"].build_transducer()
    assert read(anything, '["a long text') == read(anything, '[12, {"a": null}, "')
    assert read(anything, "[12.5") == read(anything, "[-0.123")
    assert read(anything, "[12") != read(anything, "[0")
    assert read(named, '{"n": "Ada", "x": "y') == read(named, '{"n": "", "other": "')
    assert read(named, '{"n": 3, "n": "') == read(named, '{"n": "')
    assert read(named, '{"n": 3') != read(named, '{"n": "3"')
    assert read(items, "[1,1,1,1,") == read(items, "[[],") != read(items, "[1,")
    # after a violation only the syntax matters
    assert read(items, '[{}, {"b": [12') == read(anything, '[{}, {"b": [34')


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"pattern": "^a"}},
        {"format": "date"},
        {"uniqueItems": True},
        {"contains": {"const": 1}},
        {"minProperties": 1},
        {"patternProperties": {"a": {}}},
        {"propertyNames": {"maxLength": 3}},
        {"additionalProperties": {"type": "string"}},
        {"enum": [[1]]},
        {"const": {}},
        {"if": True, "then": False},
        {"dependentRequired": {"a": ["b"]}},
        {"unevaluatedProperties": False},
        {"$schema": DRAFT_7, "items": [{}, {}]},
        {"$id": "https://example.org/a", "$ref": "#"},
        {"$ref": "#a", "$defs": {"x": {"$anchor": "a"}}},
        {"anyOf": [{"$ref": "#"}]},
        {"maxLength": 10**6},
    ],
    ids=str,
)
def test_other_schemas_have_no_transducer(schema: dict[str, Any]) -> None:
    """A schema whose states would have to hold whole values is left to the plain call."""
    assert JsonText(schema).build_transducer() is None


def test_keywords_that_assert_nothing_are_ignored() -> None:
    """Annotations, unknown formats and keywords with x- leave a schema its transducer."""
    schema = {"title": "T", "format": "int32", "x-a": [], "default": {}, "$defs": {"a": {}}}
    assert JsonText(schema).build_transducer() is not None


def test_limits_are_those_of_the_plain_call() -> None:
    """A number beyond the limits satisfies no schema, and a deep text has a limit of its own."""
    quantifier = QUANTIFIERS["items"]
    transducer = quantifier.build_transducer()
    for number in ("1e999999999", "9" * 100_001):
        for text in (f'[{{"a": {number}}}', f"[{number}, 1]", f"{number}"):
            assert_law(quantifier, transducer, "", [text, "]", " "])
    closed = JsonText({"type": "array"})
    with pytest.raises(TooManyStates, match="nested deeper than 100"):
        assert_law(closed, closed.build_transducer(), "", ["[" * 101])
    anything = QUANTIFIERS["any"]
    assert_law(anything, anything.build_transducer(), "", ["[" * 5000, "]" * 5000])


NAMES = ["name", "a", "é", "😀x", "\ud83d", "high", "", "na\nme", 'q"']
READER = StringReader(NAMES, 5)
PIECES = ["n", "a", "me", "é", "😀", "x", "\ud83d", "\\ud83d", "\\ude00", "\\u006", "1", "e", "\\n"]


@given(
    st.lists(
        st.sampled_from([*PIECES, *NAMES, "\\u", "\\", '\\"', "00e9", "\\uD83D", "\x01"]),
        max_size=6,
    )
    | st.sampled_from(NAMES).map(lambda name: [json.dumps(name)[1:-1]])
)
@examples(200)
def test_contents_of_strings_are_those_of_the_parser(pieces: list[str]) -> None:
    """The automaton of strings recognises texts and counts characters as `json.loads` does."""
    reader = READER
    state, plain_state = reader.first_state, reader.plain_state
    for piece in pieces:
        effect = reader.automaton.effect(piece)
        state, _ = reader.automaton.advance(state, effect)
        plain_state, _ = reader.automaton.advance(plain_state, effect)
    try:
        value = json.loads('"' + "".join(pieces) + '"')
    except ValueError:
        assert reader.contents[state] is False
        assert reader.contents[plain_state] is False
    else:
        known = value if value in NAMES else None
        assert reader.contents[state] == (known, min(5, len(value)))
        assert reader.contents[plain_state] is not False


@pytest.mark.parametrize(
    "model", ["smollm2-135m", pytest.param("gemma3-270m", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", ["any", "closed"])
def test_tables_of_real_vocabularies_score_as_the_libraries(name: str, model: str) -> None:
    """Few classes of a real vocabulary's tokens give the oracle's score of each token text."""
    directory = MODELS / model
    if not directory.is_dir():
        pytest.skip(f"{directory} is absent; `snakemake --cores all {directory}` fetches it")
    quantifier = QUANTIFIERS[name]
    transducer = quantifier.build_transducer()
    pieces = load_pieces(directory)
    assert len(TokenClasses.from_pieces(transducer, pieces).effects) < 2000
    tokens = {piece: token for token, piece in reversed(list(enumerate(pieces)))}
    texts = []
    for document in ('{"n": "ab", "a": 12}', ' {"a": 3,\n"n":"x"} ', '{"n": "abc", "n": "a"'):
        spelled = [tokens[character] for character in document]
        texts += [spelled, [*spelled[:6], *range(5000, 5009)]]
    texts += [[tokens[p] for p in ('{"', "n", '":', ' "', "x", '",', ' "', "a", '":', "1", "}")]]
    assert_law_of_table(plain_score(name), transducer, pieces, "", texts)


def test_equal_schemas_share_token_classes() -> None:
    """The rows of a suite with one schema compute the classes of a vocabulary once."""
    first, second = (JsonText(dict(SCHEMAS["closed"])).build_transducer() for _ in range(2))
    other = JsonText(SCHEMAS["closed"], of="text").build_transducer()
    pieces = ('{"n"', "x")
    assert TokenClasses.from_pieces(first, pieces) is TokenClasses.from_pieces(second, pieces)
    assert first == second != other
