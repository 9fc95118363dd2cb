"""Values and regular expressions have the meaning of JavaScript. Expected values are Node.js's."""

import re

import pytest

from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker_promptfoo.javascript import format_js_value, format_json, translate_regex
from llmchecker_promptfoo.report import NotConverted

MATCHES = [
    (r"^a$", ["a"], ["a\n", "\na", "ba"]),
    (r"a|b$", ["ax", "xb"], ["b\n"]),
    (r"^.$", ["a", "\x85"], ["\n", "\r", "\u2028", "ab"]),
    (r"^\d+$", ["09"], ["\u0663", "", "1\n"]),
    (r"^\w$", ["_", "Z"], ["\xe9", "\xdf", "-"]),
    (r"^\W$", ["\xe9", "-", "\n"], ["a", "_"]),
    (r"^\s$", [" ", "\xa0", "\ufeff", "\u2028", "\v"], ["\x85", "\x1c", "\u200b", "a"]),
    (r"^\S+$", ["\x85\x1c\u200b"], ["a\ufeff", ""]),
    (r"\bcaf\b", ["caf\xe9", "(caf)"], ["cafe", "xcaf"]),
    (r"\Ba", ["xa", "\xe9xa"], ["a", "\xe9a"]),
    (r"^[\s\S]$", ["\n", "a"], ["", "ab"]),
    (r"^[^]$", ["\n", "a"], [""]),
    (r"[]", [], ["", "a", "]"]),
    (r"^[\w-]+$", ["a-_"], ["\xe9", "a b"]),
    (r"^[a\d-]$", ["a", "5", "-"], ["b"]),
    (r"^[^\d\s]$", ["a", "\u0663"], ["5", "\ufeff"]),
    (r"^[^\W]$", ["a"], ["-", "\xe9"]),
    (r"^[\]\-\\^]$", ["]", "-", "\\", "^"], ["a"]),
    (r"^[[]$", ["["], ["a"]),
    (r"[[:alpha:]]", ["a]", ":]"], ["a", "b]x"]),
    (r"^[ -~]+$", ["a ~"], ["\xe9"]),
    (r"^a{2}$", ["aa"], ["a{2}", "a"]),
    (r"^a{2,}$", ["aaa"], ["a"]),
    (r"^a{,2}$", ["a{,2}"], ["", "aa"]),
    (r"^(?:a){e}$", ["a{e}"], ["b"]),
    (r"^{}]$", ["{}]"], ["]"]),
    (r"^\{name\}$", ["{name}"], ["name"]),
    (r"a+?b*?$", ["aab"], ["c"]),
    (r"^(?<year>\d{4})-(\d\d)$", ["2024-01"], ["2024-1"]),
    (r"(?<=\$)\d", ["$5"], ["5"]),
    (r"^(?!.*no).*$", ["yes"], ["a no b"]),
    (r"^\x41\u00e9\/\t\.$", ["A\xe9/\t."], ["A\xe9/ta"]),
    (r"/a/i", ["/a/i"], ["A", "a"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^ #&&~~$", [" #&&~~"], [""]),
]


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), MATCHES)
def test_a_translated_regular_expression_matches_as_in_javascript(pattern, matched, unmatched):
    """The translation has the truth of JavaScript, in the package regex and in Python's re."""
    translated = translate_regex(pattern).pattern
    quantifier = Pattern(translated)
    assert [quantifier("", text) for text in matched] == [1] * len(matched)
    assert [quantifier("", text) for text in unmatched] == [0] * len(unmatched)
    assert all(re.search(translated, text) for text in matched)
    assert not any(re.search(translated, text) for text in unmatched)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?i)a", "is no JavaScript: expecting ':'"),
        (r"(?i:a)", "such a group is no JavaScript"),
        (r"(?P<n>a)", "invalid group"),
        (r"(a)\1", r"\1 is not the same"),
        (r"\Aa", r"\A is not the same"),
        (r"\p{L}", r"\p is not the same"),
        (r"a**", "nothing to repeat"),
        (r"*a", "nothing to repeat"),
        (r"{2}", "nothing to repeat"),
        (r"a++", "nothing to repeat"),
        (r"^*", "nothing to repeat"),
        (r"(?=a)*", "an assertion cannot be repeated"),
        (r"(a", "expecting ')'"),
        (r"a)", "extraneous characters at the end"),
        (r"[a", "unexpected end"),
        (r"[b-a]", "invalid class range"),
        (r"\ud83d", "it has half a character"),
        ("a\\", "unexpected end"),
    ],
)
def test_other_regular_expressions_are_not_converted(pattern, reason):
    """What JavaScript refuses, or reads in another way, is refused with the reason."""
    with pytest.raises(NotConverted, match=re.escape(reason)):
        translate_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "counts_units"),
    [
        (r"a.*b", False),
        (r"\S+", False),
        (r"[^a]*?", False),
        (r"a[b-d]{3}", False),
        (r".", True),
        (r".{1,280}", True),
        (r"[^a]?", True),
        (r"\W", True),
        (r"[\s\S]{3}", True),
        ("\U0001f600?", True),
    ],
)
def test_expressions_that_count_halves_of_characters_are_known(pattern, counts_units):
    """JavaScript counts an emoji twice, which matters where a number of characters is counted."""
    assert translate_regex(pattern).counts_units == counts_units


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (1.0, "1", "1"),
        (0.1, "0.1", "0.1"),
        (-0.0, "0", "0"),
        (123456789012345680000.0, "123456789012345680000", "123456789012345680000"),
        (1e21, "1e+21", "1e+21"),
        (1.5e-7, "1.5e-7", "1.5e-7"),
        (0.000001, "0.000001", "0.000001"),
        (9007199254740993, "9007199254740992", "9007199254740992"),
        (float("nan"), "NaN", "null"),
        (float("-inf"), "-Infinity", "null"),
        (True, "true", "true"),
        (None, "null", "null"),
        ('a"\n\x01é', 'a"\n\x01é', '"a\\"\\n\\u0001é"'),
        ([1, None, [True, "a"]], "1,,true,a", '[1,null,[true,"a"]]'),
    ],
)
def test_values_are_printed_as_in_javascript(value, text, as_json):
    """Numbers, truth values and lists become the texts of String and JSON.stringify."""
    assert format_js_value(value) == text
    assert format_json(value) == as_json
