"""The law of token transducers, on generated texts of every quantifier that has one.

A quantifier's own pieces are those on which its score depends.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from helpers.marks import examples, long
from helpers.settings import SETTINGS
from helpers.transducer_law import (
    ROUGH_PIECES,
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
TERMS = ["ma", "ma'am", "don't", "a'b'c", "b'c", "he\u0301", "i\u0307", "ÜBER", "x1"]


class Case(NamedTuple):
    """A quantifier and the pieces of texts on which its score depends."""

    quantifier: HasTransducer
    pieces: list[str]


CASES = {
    "gender": Case(Gender(), ["he", " she", " He", "r", "'s", "ma", "'am", " brother", "hood"]),
    "words": Case(Words(TERMS), [*TERMS, *(f" {term}" for term in TERMS), "a'b", "a’b’", "\u0307"]),
    "characters": Case(Length("characters"), ["a"]),
    "length in words": Case(Length(), ["a", "a'", "'b", " a", "\u0301"]),
    "length of text": Case(Length(of="text"), ["a", "a'", "'b", " a", "\u0301"]),
    "sentences": Case(Length("sentences"), ["a", ".", '."', ")", ". ", " b", "!)", " "]),
    "sentences of text": Case(Length("sentences", of="text"), ["a", ".", '."', " ", "!)"]),
    "words of text": Case(Words(TERMS, of="text"), [*TERMS, " ma’am"]),
}


@pytest.mark.parametrize("name", ["similarity", "polarity", "readability"])
def test_types_with_too_many_effects_have_no_incremental_form(name: str) -> None:
    """These types offer none, so that they are called on visited texts only."""
    quantifier = create_quantifier(name, SETTINGS.get(name))
    assert isinstance(quantifier, HasTransducer)
    assert quantifier.build_transducer() is None


@pytest.mark.parametrize("count", [100, *long(2000)])
@pytest.mark.parametrize("name", CASES)
def test_transducers_give_the_score_of_the_plain_call(name: str, count: int) -> None:
    """After any start string and any pieces, count and score sum to the plain call's score."""
    call, own_pieces = CASES[name]
    transducer = call.build_transducer()
    pieces = st.lists(rough_pieces(own_pieces), max_size=8)

    # a start string that ends where a word may go on, and does not
    @example("The man'", ["'", "he"])
    @examples(count)
    @given(pieces.map("".join), pieces)
    def holds(start: str, pieces: list[str]) -> None:
        assert_law(call, transducer, start, pieces)

    holds()


@pytest.mark.parametrize("name", CASES)
def test_equal_states_have_equal_futures(name: str) -> None:
    """Two texts of one state differ by the same number after every continuation."""
    call, own_pieces = CASES[name]
    transducer = call.build_transducer()
    texts = st.tuples(
        st.sampled_from(["", "A", "She "]), st.lists(rough_pieces(own_pieces), max_size=3)
    )

    @examples(30)
    @given(st.lists(texts, min_size=8, max_size=8), st.lists(rough_pieces(own_pieces), max_size=6))
    def holds(texts: list[tuple[str, list[str]]], continuations: list[str]) -> None:
        assert_equal_futures(call, transducer, texts, [*ROUGH_PIECES, *continuations])

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
def test_tables_of_real_vocabularies_give_the_score_of_the_plain_call(
    name: str, model: str
) -> None:
    """A table over the token classes of a real vocabulary scores token texts as the plain call."""
    directory = ROOT / "resources/models" / model
    if not directory.is_dir():
        pytest.skip(f"{directory} is absent; `snakemake --cores all {directory}` fetches it")
    call, own_pieces = CASES[name]
    pieces = load_pieces(directory)
    texts = sample_texts(pieces, own_pieces, 20)
    assert_law_of_table(call, call.build_transducer(), pieces, "It's m", texts)
