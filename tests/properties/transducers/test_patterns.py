"""Automata of patterns, against the package `regex` on generated patterns and texts."""

import re
from pathlib import Path

import pytest
from helpers.marks import examples
from helpers.transducer_law import (
    assert_equal_futures,
    assert_law,
    assert_law_of_table,
    load_pieces,
    rough_pieces,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from llmchecker.errors import ConfigError
from llmchecker.properties.assertions import build_assertion
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.properties.transducers.automaton import AutomatonTransducer
from llmchecker.properties.transducers.token_classes import TokenClasses

SMOLLM2 = Path(__file__).parents[3] / "resources/models/smollm2-135m"
MODES = ("found", "whole", "count")

ATOMS = r"a b k é ß ſ A _ . \. \n \w \W \d \s \S [ab] [^a] [^\W\d] [a-k] [[:alpha:]] []a] [^]a] ] }"
UNICODE_ATOMS = [r"\p{L}", r"\P{Lu}", r"\x61", r"\u0130", "İ", "\u0345", " ", r"\ "]
CONDITIONS = [r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?<=a)", r"(?<!\w)", r"(?<=^|\s)"]
COUNTS = ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
CHARACTERS = "ab A1_\n. é\u0301\u200dßſKkİı\u0345\r\x85\x1c"

PATTERNS = st.builds(
    str.__add__,
    st.sampled_from(["", "(?i)", "(?s)", "(?m)", "(?im)"]),
    st.recursive(
        st.sampled_from([*ATOMS.split(), *UNICODE_ATOMS, *CONDITIONS]),
        lambda part: st.one_of(
            st.builds(str.__add__, part, part),
            st.builds("(?:{}|{})".format, part, part),
            st.builds("({}){}".format, part, st.sampled_from(COUNTS)),
            st.builds("(?{}{})".format, st.sampled_from(["=", "!", "i:", "s-m:"]), part),
        ),
        max_leaves=8,
    ),
)


@pytest.mark.parametrize("mode", MODES)
def test_automata_match_as_the_package(mode: str) -> None:
    """An automaton of a generated pattern scores every prefix of every text as `regex` does."""

    @settings(max_examples=60)
    @given(PATTERNS, st.lists(st.lists(st.text(CHARACTERS, max_size=3), max_size=5), min_size=8))
    def holds(pattern: str, texts: list[list[str]]) -> None:
        try:
            quantifier = Pattern(pattern, match=mode, of="text")
        # such as a lookbehind that is repeated
        except ConfigError:
            return
        if (transducer := quantifier.build_transducer()) is not None:
            for pieces in texts:
                assert_law(quantifier, transducer, "".join(pieces[:1]), pieces[1:])

    holds()


@pytest.mark.parametrize("part", [r"\p{L}", r"\p{Lu}", r"\P{L}", "[[:upper:]]"])
def test_sets_whose_case_depends_on_alternatives_have_no_automaton(part: str) -> None:
    """`regex` matches some characters with a set in an alternative and not with the set alone."""
    assert Pattern(f"(?i){part}", match="found").build_transducer() is not None
    for alternatives in (f"(?i)(?:a|{part})", f"(?i)(?<={part}|a)b"):
        assert Pattern(alternatives, match="found").build_transducer() is None


WORDS = ["Madrid", "I'm sorry", "C++ (new)", "straße", "a\nb"]
ASSERTIONS = {
    **dict.fromkeys(("contains_any", "icontains_any", "contains_all", "icontains_all"), WORDS),
    **dict.fromkeys(("contains", "icontains", "equals", "starts_with", "ends_with"), WORDS[1]),
    "matches": r"(?i)^\W*(yes|no)\b",
}


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", ASSERTIONS)
def test_assertions_of_suites_have_automata(kind: str) -> None:
    """Each assertion about texts runs on tokens, and scores as its pattern does."""
    value = ASSERTIONS[kind]
    (settings_,) = build_assertion(kind, value).properties.values()
    quantifier = Pattern(settings_["pattern"], match=settings_["match"])
    transducer = quantifier.build_transducer()
    assert transducer is not None
    own = [*(value if isinstance(value, list) else [value]), "MADRID", "i'M ſorry", "yes", "No"]

    @examples(40)
    @given(st.lists(rough_pieces(own), max_size=12))
    def holds(pieces: list[str]) -> None:
        assert_law(quantifier, transducer, "Start", pieces)

    holds()
    assert_law(quantifier, transducer, "", list("".join(own)))


@pytest.mark.parametrize(
    ("pattern", "mode"),
    [
        (r"(a)\1", "found"),
        (r"(?P<n>a)(?P=n)", "found"),
        ("(?>a+)b", "found"),
        ("a++b", "found"),
        ("(?:a){e}", "found"),
        (r"(?<=ab)c", "found"),
        (r"\Gx", "found"),
        (r"a\Kb", "found"),
        ("(?a)é", "found"),
        ("(?x) a b", "found"),
        ("(?r)ab", "found"),
        ("(?V1)[a--b]", "found"),
        ("a(?i)b", "found"),
        ("(?|a|b)", "found"),
        ("(?(?=a)ab|c)", "found"),
        (r"\X", "found"),
        (r"(?:\b)+a", "found"),
        ("(*SKIP)a", "found"),
        ("(foo|bar).{0,20}baz", "found"),
        ("a{9999}", "whole"),
        ("a*", "count"),
        ("a$", "count"),
        ("a(?=b)", "count"),
    ],
)
def test_other_patterns_have_no_automaton(pattern: str, mode: str) -> None:
    """A pattern beyond finite automata, or too large for one, is left to the plain call."""
    assert Pattern(pattern, match=mode).build_transducer() is None


def test_huge_empty_repetitions_end() -> None:
    """A part without characters is built once, however often it is repeated."""
    quantifier = Pattern("(?:(?:){1000000000}){1000000000}a", match="whole")
    assert_law(quantifier, quantifier.build_transducer(), "", ["a", "a"])


@pytest.mark.parametrize("pattern", [r"\bcat\b", "(?i)^(?!.*sorry)", r"(cat|category|go)"])
def test_equal_states_have_equal_futures(pattern: str) -> None:
    """Texts of one state differ by the same number after every continuation."""
    quantifier = Pattern(pattern, match="count" if pattern.startswith("(cat") else "found")
    transducer = quantifier.build_transducer()
    own = ["cat", " egory", "sorry", "\n", "go"]
    texts = st.tuples(st.just(""), st.lists(rough_pieces(own), max_size=3))

    @examples(30)
    @given(st.lists(texts, min_size=8, max_size=8), st.lists(rough_pieces(own), max_size=6))
    def holds(texts: list[tuple[str, list[str]]], futures: list[str]) -> None:
        assert_equal_futures(quantifier, transducer, texts, ["egory", "t", "orry", *own, *futures])

    holds()


def test_states_with_equal_futures_are_equal() -> None:
    """The automaton is minimal: six states of a word, and a count is in none."""
    word = Pattern(r"\bcat\b").build_transducer()
    assert isinstance(word, AutomatonTransducer)

    def read(text: str) -> object:
        return word.advance(word.start("")[0], word.effect(text))[0]

    assert read("a dog") == read("concat") == read("x" * 99)
    assert read("the cat, ") == read("cat cat") != read("the cat")
    assert len({read(t) for t in ("", "x", "c", "ca", "cat", "cat ", "catx", "xcat", "é c")}) == 6
    counter = Pattern("ab", match="count").build_transducer()
    assert counter.advance(0, counter.effect("abab")) == (0, 2)


def test_a_preferred_match_can_still_fail() -> None:
    """A count keeps the matches after a shorter match, until the longer one is certain."""
    quantifier = Pattern("a(?:bbbc)?|b", match="count")
    transducer = quantifier.build_transducer()
    scores = [quantifier("", "abbbc"[:end]) for end in range(6)]
    assert scores == [0, 1, 2, 3, 4, 1]
    assert_law(quantifier, transducer, "", list("abbbcabbd"))


@pytest.mark.parametrize(
    ("pattern", "mode", "own"),
    [
        (r"(?i)^\W*yes\b", "found", [" Yes", ",", "!"]),
        (r"(?i)\b(he|she|they|wom[ae]n)\b", "count", [" he", " She", "'s", " woman", "."]),
        (r"\d{4}-\d\d-\d\d", "possible", ["1", "9", "-", "0"]),
        ("(?i)(?:sorry|as an AI)", "found", [" sorry", " as", " an", " AI", "As"]),
    ],
)
def test_tables_of_a_real_vocabulary_score_as_the_package(
    pattern: str, mode: str, own: list[str]
) -> None:
    """Few classes of a real vocabulary's tokens give the package's score of each token text."""
    if not SMOLLM2.is_dir():
        pytest.skip(f"{SMOLLM2} is absent; `snakemake --cores all {SMOLLM2}` fetches it")
    quantifier = Pattern(pattern, match=mode)
    transducer = quantifier.build_transducer()
    pieces = load_pieces(SMOLLM2)
    assert len(TokenClasses.from_pieces(transducer, pieces).effects) < 100
    chosen = [token for token, piece in enumerate(pieces) if piece in own]
    texts = [chosen[turn:] + chosen[:turn] for turn in range(len(chosen))]
    texts += [list(range(start, start + 9)) for start in range(0, len(pieces) - 9, 2000)]
    assert_law_of_table(quantifier, transducer, pieces, "No", texts)


def test_sets_are_those_of_the_package() -> None:
    """Every character of Unicode is in a set of the automaton exactly if `regex` says so."""
    for atom in (r"\w", r"(?i)[k-s]", "(?i)ß", r"[^\S\x1c-\x1f]"):
        quantifier = Pattern(atom, match="whole")
        transducer = quantifier.build_transducer()
        members = set(quantifier.compiled_pattern.findall("".join(map(chr, range(0x110000)))))
        for code in (*range(0x3000), *range(0xD7F0, 0xE010), *range(0x1F130, 0x1F190), 0x10FFFF):
            state, _ = transducer.advance(transducer.start("")[0], transducer.effect(chr(code)))
            assert transducer.score(state) == (chr(code) in members), (atom, code)


def test_escapes_of_pythons_re_are_literals() -> None:
    """Every ASCII character that `re.escape` writes matches itself alone."""
    for code in range(128):
        quantifier = Pattern(re.escape(chr(code)), match="whole")
        assert_law(quantifier, quantifier.build_transducer(), "", [chr(code), "a"])


def test_equal_patterns_share_an_automaton() -> None:
    """The rows of a suite with one pattern build its automaton once."""
    assert Pattern("a+").build_transducer() is Pattern("a+").build_transducer()
    assert Pattern("a+").build_transducer() is not Pattern("a+", of="text").build_transducer()
