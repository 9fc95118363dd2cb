"""YAML of promptfoo has the meaning of js-yaml. Expected values are those of js-yaml 4.1.0."""

import json

import pytest

from llmchecker.errors import ConfigError
from llmchecker_promptfoo.documents import Date, parse_js_yaml, read_document
from llmchecker_promptfoo.report import NotConverted

SCALARS = {
    "[0b101, -0b1_0, 0o17, -0x1F, 0x_1, 08, 010, +3]": [5, -2, 15, -31, 1, 8, 10, 3],
    "[1_000, 1_0.5_0, ._5, .5, 7., 1e3, 1E-3]": [1000, 10.5, 0.5, 0.5, 7.0, 1000.0, 0.001],
    "[1_, _1, -.5, 0b, 0b2, 0o8, 1:30, 1.2.3]": "1_ _1 -.5 0b 0b2 0o8 1:30 1.2.3".split(),
    "[yes, No, on, y, nULL, tRue, =]": ["yes", "No", "on", "y", "nULL", "tRue", "="],
    "[~, null, NULL, true, False, ]": [None, None, None, True, False],
    "[.inf, -.Inf, +.inf]": [float("inf"), float("-inf"), float("inf")],
    "[2024-01-31, 2024-1-2 3:04:05]": [Date("2024-01-31"), Date("2024-1-2 3:04:05")],
    "2024-01-31T10:00:00.5+02:30": Date("2024-01-31T10:00:00.5+02:30"),
    "[2024-1-31, 2024-01-31 10:00:00 is late]": ["2024-1-31", "2024-01-31 10:00:00 is late"],
    "[!!int '3', !!float 3, !!str 3, !!bool true]": [3, 3.0, "3", True],
    "[!!null ~, !!timestamp '2024-01-31']": [None, Date("2024-01-31")],
    "[x?, x?y, http://x]": ["x?", "x?y", "http://x"],
    '{"a":\t"\\ud83d\\ude42\\/"}': {"a": "\U0001f642/"},
    "['q':r, {'s' :t}]": [{"q": "r"}, {"s": "t"}],
    "- |\n  a": ["a\n"],
    "- >-\n  a": ["a"],
    "text": "text",
    "# nothing": None,
}


@pytest.mark.parametrize(("text", "expected"), SCALARS.items(), ids=SCALARS)
def test_scalars_are_those_of_js_yaml(text, expected):
    """Numbers, dates, tags and texts are js-yaml's."""
    # `==` takes True for 1
    assert repr(parse_js_yaml(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{<<: {a: 1, b: 2}, a: 3}", '{"a": 3, "b": 2}'),
        ("{a: 3, <<: {b: 1, a: 2}}", '{"a": 3, "b": 1}'),
        (
            "{z: 1, <<: [{a: 1, y: 2}, {y: 3, c: 4}], a: 5, d: 6}",
            '{"z": 1, "a": 5, "y": 2, "c": 4, "d": 6}',
        ),
        ("{<<: {<<: {p: 1, q: 2}, q: 3, r: 4}, q: 5, s: 6}", '{"p": 1, "q": 5, "r": 4, "s": 6}'),
        ("{'<<': {a: 1}}", '{"<<": {"a": 1}}'),
    ],
)
def test_merged_keys_have_the_values_and_the_order_of_js_yaml(text, expected):
    """The order of keys is a part of the text that a template prints."""
    assert json.dumps(parse_js_yaml(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2", "YAML, line 2: the key 'a' is also in line 1"),
        ("- a\n- !!int abc", "YAML, line 2: 'abc' is not of the type !!int; remove the tag"),
        ("!!bool yes", "YAML, line 1: 'yes' is not of the type !!bool"),
        ("!!timestamp x", "YAML, line 1: 'x' is not of the type !!timestamp"),
        ("!foo 3", "YAML, line 1: the tag !foo is not supported"),
        ("{<<: 3}", "YAML, line 1: << must name keys and values"),
        ("a\n---\nb", "YAML, line 2: another document begins"),
        ("a: [}", "YAML, line 1: not YAML"),
        ("{a: {{x}}}", "YAML, line 1: a key is a mapping, not a text; put it in quotes"),
        ("[" * 5000, "YAML, line 1: more than 40 nested levels"),
    ],
)
def test_yaml_without_one_meaning_is_refused(text, reason):
    """What js-yaml refuses, or makes another text of, is refused with its line."""
    with pytest.raises(NotConverted) as error:
        parse_js_yaml(text)
    assert str(error.value).startswith(reason)


def test_a_document_has_the_line_of_each_key(tmp_path):
    """The root of a document may be a list; messages begin with the file and the line."""
    path = tmp_path / "tests.yaml"
    path.write_text("# tests\n- vars:\n    x: Is it?\n- {vars: {x: 010}}\n")
    content, place = read_document(path, "tests.yaml")
    assert content == [{"vars": {"x": "Is it?"}}, {"vars": {"x": 10}}]
    tests = place.list_items(content)
    assert str(tests[0][1].child("vars").child("x")) == "tests.yaml, line 3"
    assert str(tests[1][1]) == "tests.yaml, line 4"
    path.write_text("- a\n- [b\n")
    with pytest.raises(ConfigError, match=r"tests\.yaml, line 2: not YAML"):
        read_document(path)


def test_references_in_references_are_limited(tmp_path):
    """A chain of references is followed, or refused before Python's recursion limit."""
    path = tmp_path / "p.yaml"
    links = [f"  a{n}: {{y: {{$ref: '#/t/a{n + 1}'}}}}\n" for n in range(500)]
    path.write_text("".join(["t:\n", *links[:2], "  a2: 1\n"]))
    content, _ = read_document(path)
    assert content["t"]["a0"] == {"y": {"y": 1}}
    path.write_text("".join(["t:\n", *links]))
    with pytest.raises(ConfigError, match=r"p\.yaml: with \$ref, over 200,000 values or 60 nested"):
        read_document(path)


@pytest.mark.long
def test_references_that_repeat_too_much_are_refused(tmp_path):
    """References that double a part many times end with an error."""
    path = tmp_path / "p.yaml"
    links = "".join(
        f"  a{n}: [{{$ref: '#/t/a{n + 1}'}}, {{$ref: '#/t/a{n + 1}'}}]\n" for n in range(18)
    )
    path.write_text(f"t:\n{links}  a18: [1, 2]\n")
    with pytest.raises(ConfigError, match=r"with \$ref, over 200,000 values"):
        read_document(path)
