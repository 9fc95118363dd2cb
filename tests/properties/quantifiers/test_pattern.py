"""Patterns: matches of Python's own `re`, known differences from it, and what can still match."""

import itertools
import re
import warnings
from random import Random

import pytest
from helpers.marks import long
from helpers.possible_texts import LETTERS, find_possible, generate_pattern, has_longer_match
from helpers.transducer_law import assert_law
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


@pytest.mark.parametrize("seed", [*range(6), *long(*range(6, 60))])
def test_possible_texts_are_those_that_a_continuation_makes_match(seed: int) -> None:
    """With conditions on positions too, a text is possible exactly if a continuation matches."""
    random = Random(seed)
    texts = ["".join(each) for n in range(3) for each in itertools.product(LETTERS, repeat=n)]
    for _ in range(20):
        try:
            quantifier = Pattern(generate_pattern(random), match="possible")
        # such as a repeated condition
        except ConfigError:
            continue
        compiled = quantifier.compiled_pattern
        matches = find_possible(compiled, 2)
        for text in texts:
            expected = text in matches
            # a continuation may need more characters than the enumerated ones
            if quantifier("", text) and not expected:
                expected = has_longer_match(compiled, text)
            assert quantifier("", text) == expected, (quantifier.pattern, text)


@pytest.mark.parametrize("part", ["continuation", "text"])
def test_possible_is_the_same_plainly_and_by_tokens(part: str) -> None:
    """The plain call and the incremental form of `possible` read one automaton."""
    quantifier = Pattern(r"(?:Answer: )?\b(?:yes|no)\b.*$", match="possible", of=part)
    transducer = quantifier.build_transducer()
    for text in ("", "Answer: ", "Answer: yes", "Answer: yest", "no!", "no\n", "no\n\n", "Ans yes"):
        assert_law(quantifier, transducer, text, list("Answer: no"))
        assert_law(quantifier, transducer, "", list(text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?:Answer: )?\b(?:yes|no)", "Answer: "),
        (r"a \bb", "a "),
        (r"a\Bb", "a"),
        ("(?m)a\n^b", "a\n"),
        (r"a$\n", "a"),
        ("a(?=b)b", "a"),
        ("a(?!b)c", "a"),
        (r"\bß", ""),
        ("a+?b", "aa"),
    ],
)
def test_a_condition_on_what_follows_leaves_a_match_possible(pattern: str, text: str) -> None:
    """A condition that the next character can satisfy does not end what is possible."""
    assert Pattern(pattern, match="possible")("", text) == 1


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a\bb", "a"),
        (r"(?:a|b)*\Ab", "a"),
        ("b+^a", "b"),
        (r"a[^\x00-\U0010FFFF]", "a"),
        ("a(?=b)c", "a"),
    ],
)
def test_what_no_continuation_satisfies_is_impossible(pattern: str, text: str) -> None:
    """A text is impossible as soon as no continuation can match, however many may be read."""
    assert Pattern(pattern, match="possible")("", text) == 0


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a|ab)\1", r"the syntax '\\\\1'"),
        (r"(?<=ab)c", "a lookbehind of several characters"),
        ("(?>a*)a", r"the syntax '\(\?>a"),
        ("a++a", "possessive or repeated repetition"),
        (r"(?:\b|a)*b", "a repeated condition such as"),
        (r"\ba{9999}", "more than 5000 nodes"),
        ("a+?b{9999}", "more than 5000 nodes"),
    ],
)
def test_possible_is_refused_by_name_where_it_is_not_decided(pattern: str, reason: str) -> None:
    """A pattern whose possible texts are unknown is refused, with the reason and other modes."""
    with pytest.raises(ConfigError, match=f"`possible` cannot be decided: {reason}.*use `found`"):
        Pattern(pattern, match="possible")


def test_long_plain_patterns_are_matched_partially() -> None:
    """A pattern without conditions that is too large for an automaton has exact partial matches."""
    quantifier = Pattern("a{9999}", match="possible")
    assert quantifier.build_transducer() is None
    assert [quantifier("", text) for text in ("", "aa", "ab", "a" * 9999, "a" * 10000)] == [
        *(1, 1, 0),
        *(1, 0),
    ]


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


@pytest.mark.parametrize("way", ["found", "whole", "count"])
def test_a_catastrophic_pattern_is_stopped(way: str) -> None:
    """A pattern that would run for ages gives an error with pattern and text, and no score."""
    catastrophic = Pattern(r"(a|aa)+$", match=way, seconds=0.05)
    text = "a" * 800 + "!"
    with pytest.raises(ConfigError, match=r"longer than 0.05 s on the text 'aaa.*!'") as error:
        catastrophic("", text)
    assert catastrophic.pattern in str(error.value)
    assert len(str(error.value)) < 200  # a long text is shortened


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
