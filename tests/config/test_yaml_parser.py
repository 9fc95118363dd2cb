"""YAML 1.2 is read whole: kinds of the official test suite, and texts that PyYAML writes."""

import json
import re

import pytest
import yaml
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.config.yaml_reader import SHARED_SCHEMA, parse_yaml
from llmchecker.errors import ConfigError

READ = {
    # blocks: the first line with a text has their indentation, and blank lines may have less
    "a blank line before the text": ("a: |\n \n    x\n", {"a": "\nx\n"}),
    "blank lines within": ("a: |\n    x\n \n\n  \n    y\n", {"a": "x\n\n\n\ny\n"}),
    "blank lines after": ("a: |\n  x\n \n\nb: |+\n  y\n\n", {"a": "x\n", "b": "y\n\n"}),
    "blank lines that are cut": ("a: |-\n  x\n\n\nb: 1\n", {"a": "x", "b": 1}),
    "a line with more spaces": ("a: |\n  x\n   y\n  z\n", {"a": "x\n y\nz\n"}),
    "a blank line with more spaces": ("a: |\n  x\n     \n  y\n", {"a": "x\n   \ny\n"}),
    "a tab in a block": ("a: |\n \tx\n", {"a": "\tx\n"}),
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
    "ends of lines of YAML 1.1": (
        "a: \u2028x\u2029\nb: \x85y\u2028#z\n\u2028c: |\n  \u2028\n",
        {"a": "\u2028x\u2029", "b": "\x85y\u2028#z", "\u2028c": "\u2028\n"},
    ),
    # quotes
    "lines in quotes": ('a: "x \n  y\n\n  z\\\n   w\\n"\n', {"a": "x y\nzw\n"}),
    "lines in single quotes": ("a: 'it''s\n  \\d\n\n  '\n", {"a": "it's \\d\n"}),
    "spaces that an escape keeps": ('a: "x\\ \n  y\\t\n z"\n', {"a": "x  y\t z"}),
    "escapes": ('a: "\\x41\\u00e9\\U0001F600\\/\\e\\L"\n', {"a": "Aé\U0001f600/\x1b\u2028"}),
    "a key in quotes": ("'a: b' : \"c\"\n", {"a: b": "c"}),
    # brackets
    "a colon on a further line": ('{"a"\n  :1, b\n : 2}\n', {"a": 1, "b": 2}),
    "a key of two lines": ("{a\n b: 1}\n", {"a b": 1}),
    "pairs in a list": ("[a: 1, ? b : 2, {c: 3}]\n", [{"a": 1}, {"b": 2}, {"c": 3}]),
    "a comma at the end": ("a: [x,\n  y, # c\n]\n", {"a": ["x", "y"]}),
    "lines without indentation": ("a: [x,\ny]\nb: {c:\n1}\n", {"a": ["x", "y"], "b": {"c": 1}}),
    "brackets after a tab": ("\t{}\n", {}),
    "a comment at once": ("a: [x]#c\nb: 'y'#c\n", {"a": ["x"], "b": "y"}),
    # collections
    "a list below its key": ("a:\n- x\n-\n  - y\nb: 1\n", {"a": ["x", ["y"]], "b": 1}),
    "lists in a line": ("- - a\n  - b\n-  -\tc\n", [["a", "b"], ["c"]]),
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
    "an end alone": ("# c\n...\n", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_all_of_yaml_1_2_is_read(text, expected):
    """Blocks, texts, quotes, brackets, collections and documents have the specified values."""
    assert parse_yaml(text, "s").content == expected


ERRORS = {
    "user: Answer: yes or no?": "a colon and a space in a text; put the text in quotes",
    "a: b\n  c: d": "2: not YAML: a key of several lines; align it",
    'a: "\\d+"': r"\d is no escape; write the text in single quotes",
    'a: "C:\\users"': r"\u is no escape; write the text in single quotes",
    'a: 1\nb: "x\n\nc: 2': '2: not YAML: the text has no closing "; add it',
    "a: 'it's'": "a text after '; put the whole text in quotes and write '' for '",
    'a: "x" y': 'a text after "; put the whole text in quotes and write \\" for "',
    "- [x] done": "a text after ]; put the whole text in quotes",
    "a: {name} is": "a text after }; put the whole text in quotes",
    "a: @b": "a text begins with @; put the text in quotes",
    "a: `b`": "a text begins with `; put the text in quotes",
    "a: %b": "a text begins with %; put the text in quotes",
    "a: , b": "a text begins with ,; put the text in quotes",
    "a: *bold* b": "*bold* is an unknown alias; define it, or put the text in quotes",
    "a: & b": "& without a name; put the text in quotes",
    "a: !b c": "the tag !b is not supported; remove it, or put the text in quotes",
    "a: !b! c": "the tag !b! is not supported; remove it, or put the text in quotes",
    "a: - b": "- and a space after a key; begin a new line, or put the text in quotes",
    "a: > b": "a text after >; begin it on the next line, or use quotes",
    "a: |\n    \n  b": "3: not YAML: the blank lines before have more spaces; remove them",
    "a: b\nc d\ne: 1": "2: not YAML: expected a key with a colon and a space; indent a text",
    "a:\n   b: 1\n  c: 2": "3: not YAML: indented by 2 spaces, the lines before by 3; align it",
    "- a: 1\n b: 2": "2: not YAML: indented by 1 spaces, the lines before by 2; align it",
    "a: 1\n- b": "2: not YAML: - among keys; indent it, or put the text in quotes",
    "- a\nb: 1": "2: not YAML: a text after the end of a value; indent it, or use quotes",
    "a: [1, 2": "expected , or ] after the [ of line 1; add it, or use quotes",
    "a: {b: c: d}": "expected , or } after the { of line 1; add it, or use quotes",
    "a: [b, , c]": "expected an entry after the [ of line 1; add it, or use quotes",
    "[a\nb: c]": "2: not YAML: expected , or ] after the [ of line 1",
    "a: 1\n\tb: 2": "2: not YAML: a tab indents the line; indent it with spaces",
    "-\t- a": "- and a space after a key",
    "a: |\n\tb": "2: not YAML: a tab indents the line; indent it with spaces",
    "'a':b": "a colon without a space after it; write a space",
    "a: &b &c d": "two tags or two anchors of one value; remove one",
    "a: &b c\nd: &e *b": "2: not YAML: a tag or an anchor of an alias; remove it",
    "a: &b [*b]": "this value contains itself; remove the alias",
    "%b: 1": "expected --- after the lines with %; add it",
    "a: 1\n... b": "2: not YAML: a text after",
    "a: \ud800": "U+D800 is not a YAML character; remove it",
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


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("text", ["a: 1\nb: {}x\n", "a: 1\nb: 'x{}'\n", "a: 1\n#{}\n"])
def test_an_end_of_line_of_yaml_1_1_is_refused_where_snakemake_reads_it(text, end):
    """Snakemake would drop the character, or read another line."""
    with pytest.raises(ConfigError, match=r"^s, line 2: U\+[0-9A-F]{4} ends a line in YAML 1.1"):
        parse_yaml(text.format(end), "s", SHARED_SCHEMA)
    assert parse_yaml(f'b: "\\u{ord(end):04x}"', "s", SHARED_SCHEMA).content == {"b": end}


CHARACTERS = st.characters(
    codec="utf-8", exclude_categories=("Cs", "Cn", "Co", "Cc"), include_characters="\t\n"
)
TEXTS = st.text(
    st.one_of(st.sampled_from(" \t\n:#-?'\"[]{},&*!|>%@`\\ax"), CHARACTERS), max_size=12
)
# PyYAML writes these as ends of lines of YAML 1.1
PYYAML_TEXTS = TEXTS.filter(lambda text: not set(text) & set("\u2028\u2029\ufeff"))
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
    st.recursive(PYYAML_TEXTS, lambda inner: st.dictionaries(PYYAML_TEXTS, inner, max_size=3)),
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
