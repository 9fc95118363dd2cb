"""The law of token transducers, on generated texts of every quantifier that has one.

A quantifier's own pieces are those on which its score depends.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from helpers.marks import examples, long
from helpers.plain_scores import measure_length, weigh_words
from helpers.settings import SETTINGS
from helpers.transducer_law import (
    ROUGH_PIECES,
    Call,
    assert_equal_futures,
    assert_law,
    assert_law_of_table,
    load_pieces,
    rough_pieces,
)
from hypothesis import example, given
from hypothesis import strategies as st

from llmchecker.properties.quantifiers.gender import Gender
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.word_count import Words
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.transducers.interface import HasTransducer

ROOT = Path(__file__).parents[3]
GENDER = Gender()
TERMS = ["ma", "ma'am", "don't", "a'b'c", "b'c", "he\u0301", "i\u0307", "ÜBER", "x1"]


class Case(NamedTuple):
    """A quantifier, the pieces of texts on which its score depends, and its scores by an oracle."""

    quantifier: HasTransducer
    pieces: list[str]
    score: Call


def weigh(terms: Iterable[str], of: str = "continuation") -> Call:
    """The oracle of a list of words."""
    weights = {term.casefold(): 1 for term in terms}
    if of == "text":
        return lambda start, continuation: weigh_words(weights, "", start + continuation)
    return partial(weigh_words, weights)


def read_genders() -> dict[str, int]:
    """The weights of the words of the package's lists."""
    return {
        term: sign
        for sign, path in ((1, GENDER.male), (-1, GENDER.female))
        for line in path.read_text(encoding="utf-8").splitlines()
        if (term := line.partition("#")[0].strip())
    }


def measure(quantifier: Length) -> Call:
    """The oracle of a length."""
    return lambda start, continuation: measure_length(
        quantifier.unit, start * (quantifier.of == "text") + continuation
    )


WORD_PIECES = [*TERMS, *(f" {term}" for term in TERMS), "a'b", "a’b’", "\u0307", "ͅ"]
LENGTH_PIECES = {
    "characters": ["a"],
    "words": ["a", "a'", "'b", " a", "\u0301", "3", ".1", "_", "漢", "カ", ":", "א", '"', "½"],
    "sentences": ["a", ".", '."', ")", ". ", " b", "!)", " ", "。", "！」", "؟"],
}
CASES = {
    "gender": Case(
        GENDER,
        ["he", " she", " He", "r", "'s", "ma", "'am", " brother", "hood"],
        partial(weigh_words, read_genders()),
    ),
    "words": Case(Words(TERMS), WORD_PIECES, weigh(TERMS)),
    "words of text": Case(Words(TERMS, of="text"), WORD_PIECES, weigh(TERMS, "text")),
    **{
        f"{unit} of {of}": Case(Length(unit, of), pieces, measure(Length(unit, of)))
        for unit, pieces in LENGTH_PIECES.items()
        for of in ("continuation", "text")
    },
}


@pytest.mark.parametrize("name", ["similarity", "polarity", "readability", "refuses"])
def test_types_with_too_many_effects_have_no_incremental_form(name: str) -> None:
    """These types offer none, so that they are called on visited texts only."""
    assert not isinstance(create_quantifier(name, SETTINGS.get(name)), HasTransducer)


@pytest.mark.parametrize("count", [100, *long(400)])
@pytest.mark.parametrize("name", CASES)
def test_transducers_and_plain_calls_give_the_score_of_an_oracle(name: str, count: int) -> None:
    """After any start string and any pieces, count and score sum to the oracle's score."""
    quantifier, own_pieces, score = CASES[name]
    transducer = quantifier.build_transducer()
    pieces = st.lists(rough_pieces(own_pieces), max_size=8)

    # a start string that ends where a word may go on, and does not
    @example("The man'", ["'", "he"])
    @examples(count)
    @given(pieces.map("".join), pieces)
    def holds(start: str, pieces: list[str]) -> None:
        assert_law(score, transducer, start, pieces)
        assert quantifier(start, "".join(pieces)) == score(start, "".join(pieces))

    holds()


@pytest.mark.parametrize("name", CASES)
def test_equal_states_have_equal_futures(name: str) -> None:
    """Two texts of one state differ by the same number after every continuation."""
    quantifier, own_pieces, score = CASES[name]
    transducer = quantifier.build_transducer()
    texts = st.tuples(
        st.sampled_from(["", "A", "She "]), st.lists(rough_pieces(own_pieces), max_size=3)
    )

    @examples(30)
    @given(st.lists(texts, min_size=8, max_size=8), st.lists(rough_pieces(own_pieces), max_size=6))
    def holds(texts: list[tuple[str, list[str]]], continuations: list[str]) -> None:
        assert_equal_futures(score, transducer, texts, [*ROUGH_PIECES, *continuations])

    holds()


def sample_texts(
    pieces: tuple[str | None, ...], own_pieces: list[str], count: int
) -> list[list[int]]:
    """Texts of random tokens, half of them of tokens that are among the given pieces."""
    generator = np.random.default_rng(0)
    wanted = {*own_pieces, *ROUGH_PIECES, *(f" {piece}" for piece in own_pieces)}
    chosen = [token for token, piece in enumerate(pieces) if piece in wanted]
    texts = []
    for _ in range(count):
        any_tokens = generator.integers(len(pieces), size=12)
        is_chosen = generator.random(12) < 0.5
        texts.append(np.where(is_chosen, generator.choice(chosen, size=12), any_tokens).tolist())
    return texts


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "model", ["smollm2-135m", pytest.param("gemma3-270m", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", CASES)
def test_tables_of_real_vocabularies_give_the_score_of_an_oracle(name: str, model: str) -> None:
    """A table over the token classes of a real vocabulary scores token texts as an oracle."""
    directory = ROOT / "resources/models" / model
    if not directory.is_dir():
        pytest.skip(f"{directory} is absent; `snakemake --cores all {directory}` fetches it")
    quantifier, own_pieces, score = CASES[name]
    pieces = load_pieces(directory)
    texts = sample_texts(pieces, own_pieces, 20)
    assert_law_of_table(score, quantifier.build_transducer(), pieces, "It's m", texts)
