"""Patterns: matches of Python's own `re`, known differences from it, and what can still match."""

import itertools
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.pattern import Pattern

ALPHABET = "ab "


def patterns() -> st.SearchStrategy[str]:
    """Small regular expressions without assertions, whose languages can be enumerated."""
    atoms = st.sampled_from(["a", "b", " ", ".", "[ab]", "[^a]", "a|b", "b{2}", "a{1,2}"])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
            st.tuples(inner, st.sampled_from(["?", "*", "+"])).map("(?:{0[0]}){0[1]}".format),
        ),
        max_leaves=5,
    )


TEXTS = st.text(alphabet=ALPHABET, max_size=6)


@given(patterns(), TEXTS, TEXTS)
def test_matches_are_those_of_re(pattern: str, start: str, continuation: str) -> None:
    """Found, whole and count agree with Python's `re`, on the continuation and on the text."""
    for part, text in (("continuation", continuation), ("text", start + continuation)):
        expected = {
            "found": int(re.search(pattern, text) is not None),
            "whole": int(re.fullmatch(pattern, text) is not None),
            "count": len(re.findall(f"(?:{pattern})", text)),
        }
        for way, score in expected.items():
            assert Pattern(pattern, match=way, of=part)(start, continuation) == score


@given(patterns(), st.text(alphabet=ALPHABET, max_size=3))
def test_possible_is_what_a_continuation_can_still_match(pattern: str, text: str) -> None:
    """A text is possible exactly if some text that begins with it matches as a whole."""
    # five parts of at most two letters each: what can be whole is whole within ten more
    endings = ("".join(e) for n in range(11) for e in itertools.product(ALPHABET, repeat=n))
    possible = any(re.fullmatch(pattern, text + ending) for ending in endings)
    assert Pattern(pattern, match="possible")("", text) == possible


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), (" Yes", 1), ("yes, it is", 1), ("YES.", 1), (" Yesterday", 0), ("No, yes", 0)],
)
def test_an_answer_that_begins_with_yes(text: str, expected: int) -> None:
    """The pattern of the documents tells yes from yesterday."""
    assert Pattern(r"(?i)^\W*yes\b")("Is Paris in France?", text) == expected


def test_a_date_that_can_still_become_one() -> None:
    """What is possible at every letter of a date is possible no more after a wrong one."""
    date = Pattern(r"\d{4}-\d\d-\d\d", match="possible")
    assert [date("", "2024-05-31"[:n]) for n in range(11)] == [1] * 11
    assert [date("", text) for text in ("2024-05-31 ", "24-", "2024/")] == [0, 0, 0]


def test_ranges_are_declared() -> None:
    """All but a count are 0 or 1, so that bounds know it."""
    for way, maximum in (("found", 1), ("whole", 1), ("possible", 1), ("count", None)):
        assert (Pattern("a", match=way).minimum, Pattern("a", match=way).maximum) == (0, maximum)


@pytest.mark.parametrize("way", ["found", "whole", "possible", "count"])
def test_a_catastrophic_pattern_is_stopped(way: str) -> None:
    """A pattern that would run for ages gives an error with pattern and text, and no score."""
    catastrophic = Pattern(r"(a|aa)+$", match=way, seconds=0.05)
    text = "a" * 800 + "!"
    with pytest.raises(ConfigError, match=r"longer than 0.05 s on the text 'aaa.*!'") as error:
        catastrophic("", text)
    assert catastrophic.pattern in str(error.value)
    assert len(str(error.value)) < 200  # a long text is shortened


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pattern": "(a"}, r"pattern '\(a': does not compile: missing \)"),
        ({"pattern": 3}, "pattern: 3 is not a text"),
        ({"pattern": "a{99999999999}"}, "does not compile"),
        ({"pattern": "(?<n>a)(?P=m)"}, "does not compile: unknown group"),
        ({"pattern": "a", "match": "hole"}, "match: 'hole' is unknown, did you mean 'whole'"),
        ({"pattern": "a", "match": ["whole"]}, "use one of found, whole, possible, count"),
        (
            {"pattern": "a", "of": "answer"},
            "of: 'answer' is unknown; use one of continuation, text",
        ),
        ({"pattern": "a", "seconds": 0}, "seconds: 0 is not above 0"),
        ({"pattern": "a", "seconds": float("nan")}, "seconds: nan is not above 0"),
        ({"pattern": "a", "seconds": 1e18}, r"seconds: 1e\+18 is above 1,000,000; lower it"),
        ({"pattern": "a", "seconds": True}, "seconds: true is not a number"),
    ],
)
def test_a_bad_setting_of_a_pattern_is_named(settings: dict, message: str) -> None:
    """One message names the setting and what would be right."""
    with pytest.raises(ConfigError, match=message):
        Pattern(**settings)


ODD_LETTERS = "aAbkKsſßéσςµ1٣ \n\t\r_-]s\x1c\x1d\x1e\x1f\x85\xa0\u2028\u200b\u0301"
LIKE_RE = [
    *(
        r"\s",
        r"\S",
        r"[\s]",
        r"[^\s]",
        r"[]\s]",
        r"[^]\s]",
        r"a\s*b",
        r"\\s",
        r"[\[\s]\s",
        r"\s|[a]",
    ),
    *(r"\d", r"\D", r"(?a)\s", r"(?a)\w", r"(?a)\d", r"(?a)\b", r"(?i)k", r"(?i)s", r"(?i)ß"),
    *(
        r"(?i)σ",
        r"(?i)µ",
        r"(?i)[^s]",
        r"^",
        r"$",
        r"(?m)^",
        r"(?m)$",
        r"\A",
        r"\Z",
        r".",
        r"(?s).",
    ),
    *(r"(?P<n>a)(?P=n)", r"(?>a+)b", r"a++b", r"(?<=a)b", r"[\]a]", r"(?x) \s # [", r"a{,2}"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize("pattern", LIKE_RE)
@given(text=st.text(alphabet=ODD_LETTERS, max_size=5))
def test_classes_and_anchors_are_those_of_re(pattern: str, text: str) -> None:
    """White space, digits, ASCII classes, case and anchors match other scripts as in `re`."""
    if pattern.startswith("(?x)"):
        text = re.sub("[\x1c-\x1f]", "", text)
    expected = {
        "found": int(re.search(pattern, text) is not None),
        "whole": int(re.fullmatch(pattern, text) is not None),
        "count": sum(1 for _ in re.finditer(pattern, text)),
    }
    for way, score in expected.items():
        assert Pattern(pattern, match=way)("", text) == score


@pytest.mark.parametrize(
    ("pattern", "text", "expected", "in_re"),
    [
        (r"\w", "\u0301", 1, 0),
        (r"\w", "²", 0, 1),
        (r"\b", "e\u0301a", 2, 4),
        ("(?i)i", "ı", 0, 1),
        ("[[:alpha:]]", "a", 1, 0),
        ("(?:a){e}", "b", 1, 0),
    ],
)
def test_known_differences_from_re(pattern: str, text: str, expected: int, in_re: int) -> None:
    """Accents, superscripts, dotless i, POSIX classes and fuzzy matches differ as documented."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # re expects nested sets some day
        assert len(re.findall(pattern, text)) == in_re
    assert min(1, Pattern(pattern, match="count")("", text)) == min(1, expected)
    assert Pattern(pattern, match="count")("", text) >= expected
