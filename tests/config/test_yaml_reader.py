"""A YAML file has one meaning, or is refused by the line at fault."""

import itertools
import json
import re

import pytest
import yaml
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.config.yaml_reader import (
    CORE_SCHEMA,
    MAX_YAML_BYTES,
    SHARED_SCHEMA,
    parse_yaml,
    read_yaml,
)
from llmchecker.errors import ConfigError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 10)}]}}\n"
    for old, new in zip("abcdef", "bcdefg", strict=True)
)
REFUSED = {
    "a key again": ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' is also in line 1; remove one"),
    "a key again, below": ("a:\n  b: 1\n  b: 1\n", 3, "the key 'b' is also in line"),
    "a key again, in one line": ("a: {b: 1, b: 2}\n", 1, "the key 'b' is also in line"),
    "nothing as a key": ("? \n: a\n", 1, "a key is null, not a text"),
    "a list as a key": ("? [a]\n: b\n", 1, "a key is a list, not a text"),
    "itself": ("a: &a\n  - *a\n", 1, "this value contains itself"),
    "itself, deeper": ("a: &a\n  b: {c: *a}\n", 1, "this value contains itself"),
    "deep lists": ("a: " + "[" * 5000 + "]" * 5000, 1, "more than 40 nested levels"),
    "deep keys": ("".join(" " * n + "a:\n" for n in range(60)), 41, "more than 40 nested levels"),
    "a bomb of aliases": (BOMB, 1, "with its aliases the file has over 300000 values"),
    "a bomb of merges": (MERGES, 1, "with its aliases the file has over 300000 values"),
    "5,000 digits": (f"a: 1\nb: {'9' * 5000}\n", 2, "the number has 5000 digits"),
    "half a character": ('a: 1\nb: "x\\ud800"\n', 2, "\\ud83d is half a character"),
    "NUL": ("a: 1\nb: \0\n", 2, "U+0000 is not a YAML character"),
    "an escape": ("a: 1\nb: \x1b[31m\n", 2, "U+001B is not a YAML character"),
    "a tag that makes objects": ("a: !!python/object:os.system x\n", 1, "the tag !!python/obj"),
    "a tag without a name": ("a: 1\nb: ! 3\n", 2, "the tag ! is not supported; remove it"),
    "deep aliases": (
        "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [[*a{n - 1}]]\n" for n in range(1, 900)),
        1,
        "more than 40 nested levels",
    ),
    "a set": ("a: !!set {b}\n", 1, "the tag !!set is not supported"),
    "a bracket left open": ("a: 1\nb: [1\nc: 2\n", 3, "not YAML: expected"),
    "a tabulator": ("a:\n\tb: 1\n", 2, "not YAML: a tab indents the line"),
    "two documents": ("a: 1\n---\nb: 1\n", 2, "another document begins; keep one"),
    "an unknown alias": ("a: 1\nb: *c\n", 2, "*c is an unknown alias"),
    "an anchor with a colon": ("a: &an:chor value\n", 1, "rename it"),
    "an older version": ("# old\n%YAML 1.1\n---\na: no\n", 2, "the file is YAML 1.1; remove"),
    "an unknown version": ("%YAML 1.3\n---\na: no\n", 1, "the file is YAML 1.3; remove"),
    "a second document with a version": ("a: 1\n...\n%YAML 1.1\n---\nb: 1\n", 3, "YAML 1.1"),
    "a tag for a number": ("a: !!float 3\n", 1, "the tag !!float is not supported"),
    "half a character, twice": ('a: "\\ude42\\ud83d"\n', 1, "\\ud83d is half a character"),
    "a list": ("- a\n", 1, "the file is not a mapping"),
}
AMBIGUOUS = {
    "minutes": ("a: 1\nk: 1:30\n", 2, "1:30 is ambiguous in YAML"),
    "octal": ("k: 010\n", 1, "010 is ambiguous"),
    "hexadecimal": ("k: 0x1F\n", 1, "0x1F is ambiguous"),
    "underscores": ("k: 1_000\n", 1, "1_000 is ambiguous"),
    "no": ("a: no\n", 1, "no is ambiguous"),
    "an exponent": ("a: 1e-3\n", 1, "1e-3 is ambiguous"),
    "a date": ("a: 2024-01-01\n", 1, "2024-01-01 is ambiguous"),
    "a number as a key": ("1: a\n", 1, "a key is 1, not a text"),
    "yes as a key": ("a:\n  true: a\n", 2, "a key is true, not a text"),
}
UNREADABLE = {
    "latin-1": ("a: 1\nb: für\n".encode("latin-1"), ", line 2: the byte 0xFC is not UTF-8"),
    "UTF-16": ("a: 1\n".encode("utf-16"), ": encoded in UTF-16 or UTF-32"),
    "UTF-16 without a mark": ("a: 1\n".encode("utf-16-le"), ": encoded in UTF-16 or UTF-32"),
    "empty": (b"", ": the file is empty; write keys and values"),
    "comments alone": (b"# nothing\n", ": the file is empty; write keys and values"),
    "large": (b"# " + b"x" * MAX_YAML_BYTES, ": larger than the maximum of 5000000 bytes"),
}
ALIKE = """
a: {b: 1, c: [-2, +3, 0], d: 0.5, e: -1.5, f: 1.0e+300, g: .5, h: 7.}
texts: [plain, "1:30", 'no', "null", two words, "\\u00fc", "🙂", x1e3, "", "=", 1.2.3]
nothing: [null, ~, ]
truth: [true, false, True]
literal: |
  two
  lines
folded: >-
  one
  line
shared: &shared {x: 1}
again: *shared
merged: {<<: *shared, y: 2}
overridden: {<<: *shared, x: 2}
"""


def check_refused(path, text, line, reason, schema=CORE_SCHEMA):
    """The message is one line: the file, the line at fault, and what is wrong there."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_yaml(path, schema)
    told = str(caught.value)
    assert re.match(rf"{re.escape(str(path))}, line (\d+): ", told)
    assert reason in told
    assert len(told.splitlines()) == 1
    if "over 300000" not in reason:
        assert told.startswith(f"{path}, line {line}: ")


@pytest.mark.parametrize(("text", "line", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_file_with_several_meanings_or_none_is_refused(text, line, reason, tmp_path):
    """A file is refused with the line at fault."""
    check_refused(tmp_path / "config.yaml", text, line, reason)


@pytest.mark.parametrize(("text", "line", "reason"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_snakemake_reads_in_another_way_is_refused(text, line, reason, tmp_path):
    """Snakemake reads a configuration as YAML 1.1, where these scalars have other types."""
    check_refused(tmp_path / "config.yaml", text, line, reason, SHARED_SCHEMA)
    assert read_yaml(tmp_path / "config.yaml").content


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_no_text_in_utf8_is_refused(content, reason, tmp_path):
    """Other encodings, emptiness and sizes beyond reason are named."""
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(f"{path}{reason}")):
        read_yaml(path)


def test_what_has_one_meaning_is_read_as_pyyaml_does(tmp_path):
    """Numbers, texts, lists, keys, aliases and merges are what PyYAML's safe loader makes."""
    path = tmp_path / "config.yaml"
    path.write_text(ALIKE, encoding="utf-8")
    assert read_yaml(path).content == yaml.safe_load(ALIKE)


YAML12 = {
    "a question mark in flow style": (
        "a: {user: Is it?, b: [x?, x?y]}",
        {"a": {"user": "Is it?", "b": ["x?", "x?y"]}},
    ),
    "colons in flow style": ("{a: http://x, 'n' :1, 'q':r}", {"a": "http://x", "n": 1, "q": "r"}),
    "JSON with tabs": ('{\n\t"a": [\n\t\t1,\t"\\/"\n\t]\n}\n', {"a": [1, "/"]}),
    "JSON's escapes of an emoji": ('{"a": "\\ud83d\\ude42"}', {"a": "\U0001f642"}),
    "tabs after values": ("a:\t1\t# one\nb:\t\n  - c\t\nd: 2\n", {"a": 1, "b": ["c"], "d": 2}),
    "tabs in a text": ("a: |\n  x:\n  \ty\n", {"a": "x:\n\ty\n"}),
    "words of YAML 1.1": ("[yes, No, on, OFF, y]", ["yes", "No", "on", "OFF", "y"]),
    "numbers": ("[010, 0o17, 0x1F, 1e3, .5, -1]", [10, 15, 31, 1000.0, 0.5, -1]),
    "texts of digits": ("[1_000, 1:30, 2024-01-01]", ["1_000", "1:30", "2024-01-01"]),
    "a text by its tag": ("!!str 3", "3"),
    "line separators": ('"x\\u2028y"', "x\u2028y"),
    "line ends of Windows": ("|\r\n  x\r\n  y\r\n", "x\ny\n"),
}


@pytest.mark.parametrize(("text", "expected"), YAML12.values(), ids=YAML12)
def test_yaml_1_2_is_read(text, expected, tmp_path):
    """Files have their meaning in YAML 1.2, of which JSON is a part."""
    path = tmp_path / "suite.yaml"
    is_mapping = isinstance(expected, dict)
    path.write_bytes((text if is_mapping else f"k: {text}").encode())
    assert read_yaml(path).content == (expected if is_mapping else {"k": expected})


def test_json_is_read(tmp_path):
    """A JSON file means what Python's json makes of it, however it is indented."""
    data = {"a": [1, 2.5, True, None, {"b\tc": "x\U0001f642\\/"}, [], {}], "": "é"}
    path = tmp_path / "suite.json"
    for indent, is_ascii in itertools.product((None, 2, "\t"), (False, True)):
        path.write_text(json.dumps(data, indent=indent, ensure_ascii=is_ascii), encoding="utf-8")
        assert read_yaml(path).content == data


def test_scalars_are_also_texts_as_written(tmp_path):
    """Every scalar is kept as the text in the file, also behind an alias or a merge."""
    path = tmp_path / "suite.yaml"
    path.write_text(
        "a: &a {x: 3.10, 1: True, '2': '01'}\n"
        "b: [*a, ~, null, 1e3, 0x10]\n"
        "c: {<<: *a, x: 012, y: }\n"
    )
    file = read_yaml(path)
    assert file.content["b"] == [{"x": 3.1, "1": True, "2": "01"}, None, None, 1000.0, 16]
    assert file.texts == {
        "a": {"x": "3.10", "1": "True", "2": "01"},
        "b": [{"x": "3.10", "1": "True", "2": "01"}, "~", "null", "1e3", "0x10"],
        "c": {"x": "012", "1": "True", "2": "01", "y": ""},
    }


def test_merged_keys_have_the_lines_of_the_values_that_remain(tmp_path):
    """An own key, and of several merged mappings the first, has the line that counts."""
    path = tmp_path / "suite.yaml"
    path.write_text("a: &a\n  x: [1]\nb: &b\n  x: [2]\n  y: 3\nc:\n  y: 4\n  <<: [*a, *b]\n")
    file = read_yaml(path)
    assert file.content["c"] == {"x": [1], "y": 4}
    assert [file.lines[key] for key in ("c.x", "c.x[0]", "c.y")] == [2, 2, 7]


def test_keys_have_the_order_of_the_file(tmp_path):
    """Merged keys have the place of `<<`, also one with an own value."""
    path = tmp_path / "suite.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, z: 3, x: 4}\nc: {z: 3, <<: *a, y: 4}\n")
    file = read_yaml(path)
    assert list(file.content["b"].items()) == [("x", 4), ("y", 2), ("z", 3)]
    assert list(file.texts["c"].items()) == [("z", "3"), ("x", "1"), ("y", "4")]
    assert [file.lines[key] for key in ("b.x", "b.y", "c.y")] == [2, 1, 3]


@pytest.mark.parametrize(("text", "value"), [("- 1\n- a", [1, "a"]), ("a b", "a b"), ("", None)])
def test_a_text_may_have_any_value(text, value):
    """A text with YAML may be a list, a scalar or empty; files have keys."""
    assert parse_yaml(text, "here").content == value


def test_messages_about_a_text_begin_with_its_source():
    """The message has the source and the line, as that about a file."""
    with pytest.raises(ConfigError, match=r"^here, line 2: the key 'a' is also in line 1"):
        parse_yaml("a: 1\na: 2\n", "here")


def test_a_mark_of_the_encoding_is_no_part_of_the_text(tmp_path):
    """A file in UTF-8 that begins with a byte order mark is read."""
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).content == {"a": 1}


def test_every_value_has_its_line(tmp_path):
    """Keys and entries of lists are known by the line on which they stand."""
    path = tmp_path / "config.yaml"
    path.write_text("a:\n  b:\n    - 1\n    - c: 2\n      d: 3\n")
    lines = read_yaml(path).lines
    assert {key: lines[key] for key in ("a", "a.b", "a.b[0]", "a.b[1]", "a.b[1].d")} == {
        "a": 1,
        "a.b": 2,
        "a.b[0]": 3,
        "a.b[1]": 4,
        "a.b[1].d": 5,
    }


FORMS = {
    # blocks: the first line with a text has their indentation, and blank lines may have less
    "a blank line before the text": ("a: |\n \n    x\n", {"a": "\nx\n"}),
    "blank lines within": ("a: |\n    x\n \n\n  \n    y\n", {"a": "x\n\n\n\ny\n"}),
    "blank lines after": ("a: |\n  x\n \n\nb: |+\n  y\n\n", {"a": "x\n", "b": "y\n\n"}),
    "blank lines that are cut": ("a: |-\n  x\n\n\nb: 1\n", {"a": "x", "b": 1}),
    "a line with more spaces": ("a: |\n  x\n   y\n  z\n", {"a": "x\n y\nz\n"}),
    "a blank line with more spaces": ("a: |\n  x\n     \n  y\n", {"a": "x\n   \ny\n"}),
    "a block with a number": ("a: |2\n   x\n  y\nb: >1-\n  z\n", {"a": " x\ny\n", "b": " z"}),
    "a block in a list": ("- |\n x\n- >\n \n  \n  # y\n- |1\n  z\n", ["x\n", "\n\n# y\n", " z\n"]),
    "a block at the end": ("a: |\n  x", {"a": "x\n"}),
    "folded lines": ("a: >\n  x\n  y\n\n  z\n   w\n  v\n", {"a": "x y\nz\n w\nv\n"}),
    "a folded line with a tab": ("a: >\n  x\n  \ty\n  z\n", {"a": "x\n\ty\nz\n"}),
    "an empty block": ("a: |\nb: >-\n", {"a": "", "b": ""}),
    # texts without quotes
    "a tab within": ("a: x\ty\n", {"a": "x\ty"}),
    "tabs around": ("a:\t x \t# c\nb : \ty\n", {"a": "x", "b": "y"}),
    "a tab in a key": ("a\tb: 1\n", {"a\tb": 1}),
    "a tab before a further line": ("a: x\n \ty\n", {"a": "x y"}),
    "a blank line with a tab": ("a:\n  x\n  \t\n  y\n", {"a": "x\ny"}),
    "further lines": ("a: x\n  y\n\n  z\nb: 1\n", {"a": "x y\nz", "b": 1}),
    "colons and hashes": ("a: http://b#c::d\n:e: -f?\n", {"a": "http://b#c::d", ":e": "-f?"}),
    # quotes
    "lines in quotes": ('a: "x \n  y\n\n  z\\\n   w\\n"\n', {"a": "x y\nzw\n"}),
    "lines in single quotes": ("a: 'it''s\n  \\d\n\n  '\n", {"a": "it's \\d\n"}),
    "spaces that an escape keeps": ('a: "x\\ \n  y\\t\n z"\n', {"a": "x  y\t z"}),
    "escapes": ('a: "\\x41\\u00e9\\U0001F600\\/\\e\\L"\n', {"a": "Aé\U0001f600/\x1b\u2028"}),
    "a key in quotes": ("'a: b' : \"c\"\n", {"a: b": "c"}),
    # brackets
    "pairs in a list": ("[a: 1, ? b : 2, {c: 3}]\n", [{"a": 1}, {"b": 2}, {"c": 3}]),
    "a comma at the end": ("a: [x,\n  y, # c\n]\n", {"a": ["x", "y"]}),
    "lines without indentation": ("a: [x,\ny]\nb: {c:\n1}\n", {"a": ["x", "y"], "b": {"c": 1}}),
    "a comment at once": ("a: [x]#c\nb: 'y'#c\n", {"a": ["x"], "b": "y"}),
    # collections
    "a list below its key": ("a:\n- x\n-\n  - y\nb: 1\n", {"a": ["x", ["y"]], "b": 1}),
    "a question mark": ("? a\n: - b\n? c\nd: 1\n", {"a": ["b"], "c": None, "d": 1}),
    "anchors and aliases": ("a: &x\n  b: 1\nc: *x\nd: [&y z, *y]\n? &k k\n: *k\n", {
        "a": {"b": 1}, "c": {"b": 1}, "d": ["z", "z"], "k": "k",
    }),
    "an anchor of a key": ("&x a: 1\nb: *x\n", {"a": 1, "b": "a"}),
    "tags": ("!!map\na: !!str 1\nb: !<tag:yaml.org,2002:str> 2\n", {"a": "1", "b": "2"}),
    "a tag with a handle": ("%TAG !y! tag:yaml.org,2002:\n---\na: !y!str 1\n", {"a": "1"}),
    # documents
    "marks and a version": ("%YAML 1.2 # c\n--- # c\na: 1\n...\n# c\n", {"a": 1}),
    "a text after a mark": ("--- >\n x\n", "x\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FORMS.values(), ids=FORMS)
def test_forms_of_yaml_have_their_value(text, expected):
    """Blocks, texts, quotes, brackets, collections and documents have the specified values."""
    assert parse_yaml(text, "s").content == expected


ERRORS = {
    "user: Answer: yes or no?": "1: not YAML: a colon and a space in a text; put the text in",
    'a: "\\d+"': "1: not YAML: a backslash without an escape; write the text in single quotes",
    'a: "C:\\users"': "1: not YAML: a backslash without an escape; write the text in single quotes",
    'a: 1\nb: "x\n\nc: 2': "not YAML: the text of line 2 has no closing quote; add it",
    "a: 'it's'": "1: not YAML: expected a key as in line 1; align it, or put the whole text in",
    "- [x] done": "1: not YAML: expected - as in line 1; align it, or put the whole text in quotes",
    "a: @b": "1: not YAML: a text begins with @; put the text in quotes",
    "a: , b": "1: not YAML: expected a value, not ,; add it, or put the text in quotes",
    "a: [b, , c]": "1: not YAML: expected a value, not ,; add it, or put the text in quotes",
    "a: [x: y, ?z]": "1: not YAML: a text begins with ?; put the text in quotes",
    "a: {b: :c}": "1: not YAML: expected a value, not :; add it, or put the text in quotes",
    "a: [b:, c]": "1: not YAML: a colon in a text between brackets; put the text in quotes",
    "a: *bold* b": "1: not YAML: & and * begin names; put the text in quotes",
    "a: !b! c": "1: not YAML: ! begins a tag; put the text in quotes",
    "a: - b": "1: not YAML: - and a space after a key; put the text in quotes",
    "a: > b": "1: not YAML: a text after | or >; begin it on the next line, or use quotes",
    "a: b\nc d\ne: 1": "the text of line 2 is no key; add a colon and a space, or indent it",
    "a:\n   b: 1\n  c: 2": "3: not YAML: expected a key as in line 1; align it, or put the whole",
    "a: 1\n- b": "2: not YAML: expected a key as in line 1; align it, or put the whole text in",
    "a: [": "1: not YAML: expected a value, not the end; add it, or put the text in quotes",
    "a: [1, 2": "expected , or ] after the [ of line 1; add it, or use quotes",
    "a: {b: c: d}": "1: not YAML: expected , or } after the { of line 1; add it, or use quotes",
    "a: 1\n\tb: 2": "2: not YAML: a tab indents the line; indent it with spaces",
    "a: |\n\tb": "2: not YAML: a tab indents the line; indent it with spaces",
    "'a':b": "1: not YAML: a text after the end of a value; use quotes",
    "%b: 1": "1: not YAML: found unexpected non-alphabetical character; put the text in quotes",
    "['\\ud83d\\ude42', \"\\ud83d\\ude42\"]": "1: an escape outside of double quotes; write",
    "a: \ud800": "1: U+D800 is not a YAML character; remove it",
    "a: x\u2028y": '1: U+2028 ends a line in YAML 1.1; remove it, or write "\\u2028"',
    "a: 1\rb: 'x\x85'": '2: U+0085 ends a line in YAML 1.1; remove it, or write "\\u0085"',
}


@pytest.mark.parametrize(("text", "reason"), ERRORS.items(), ids=ERRORS)
def test_an_error_names_what_to_do(text, reason):
    """The message has the line, the problem and what to write, in at most 25 words."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "s")
    message = str(caught.value)
    assert reason in message
    assert re.match(r"s, line \d+: .*", message)
    assert len(message.split()) <= 27


CHARACTERS = st.characters(
    codec="utf-8",
    exclude_categories=("Cs", "Cn", "Co", "Cc", "Zl", "Zp"),
    exclude_characters="\ufeff",
    include_characters="\t\n",
)
TEXTS = st.text(
    st.one_of(st.sampled_from(" \t\n:#-?'\"[]{},&*!|>%@`\\ax"), CHARACTERS), max_size=12
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-(10**9), 10**9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
STYLES = st.fixed_dictionaries(
    {
        "default_style": st.sampled_from([None, "'", '"', "|", ">"]),
        "default_flow_style": st.sampled_from([True, False, None]),
        "indent": st.integers(2, 6),
        "width": st.sampled_from([5, 20, 80]),
        "allow_unicode": st.booleans(),
        "explicit_start": st.booleans(),
    }
)


@examples(100)
@given(
    st.recursive(TEXTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3)),
    STYLES,
)
def test_what_pyyaml_writes_is_read(value, style):
    """Texts in every style, width and indentation have the value that was written."""
    # the texts alone: in YAML 1.1 some plain scalars are numbers that are texts in YAML 1.2
    text = yaml.safe_dump(value, **style)
    assert parse_yaml(text, "s").texts == value


@examples(100)
@given(VALUES, st.sampled_from([None, 1, 3, "\t"]), st.booleans())
def test_what_json_writes_is_read(value, indent, is_ascii):
    """JSON with any indentation has the value of Python's json."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert parse_yaml(text, "s").content == value
