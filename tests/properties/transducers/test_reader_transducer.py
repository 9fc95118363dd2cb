"""Readers token by token, against their plain code on whole texts."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmchecker.models.decoding.answer_format import ThoughtMarks
from llmchecker.models.decoding.answer_reader import READ_PARTS, AnswerReader
from llmchecker.properties.quantifiers.gender import Gender
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.properties.transducers.reader_transducer import (
    ReaderTransducer,
    StopTransducer,
    build_part_automaton,
)

READERS = [
    AnswerReader(("ab",)),
    AnswerReader(("aab", "ba"), include_stop=True),
    AnswerReader(("abab", "bb")),
    AnswerReader(("aba<", "b>>")),
    AnswerReader(marks=ThoughtMarks("<", ">>")),
    AnswerReader(marks=ThoughtMarks("<aa>", "</aa>", is_open=True)),
    AnswerReader(("a<", ">>a"), marks=ThoughtMarks("<", ">>")),
    AnswerReader(("ab", "<b"), include_stop=True, marks=ThoughtMarks("<a", "a>", is_open=True)),
    AnswerReader(("\n\n", "User:"), marks=ThoughtMarks("<think>", "</think>")),
]
QUANTIFIERS = [
    Pattern("ba", match="count"),
    Pattern(r"\Aa.*b\Z"),
    Length(),
    Gender(),
]


def assert_reads(reader: AnswerReader, part: str, quantifier: Any, pieces: list[str]) -> None:
    """The transducer gives the plain score of every prefix, and of every prefix that ends."""
    inner = quantifier.build_transducer()
    transducer, stops = ReaderTransducer(reader, part, inner), StopTransducer(reader)
    state, count = transducer.start("start ")
    stop_state, _ = stops.start("start ")
    text = ""
    for piece in ["", *pieces]:
        effect = transducer.effect(piece)
        hash(effect)
        state, gain = transducer.advance(state, effect)
        stop_state, _ = stops.advance(stop_state, stops.effect(piece))
        count, text = count + gain, text + piece
        reading, whole = (reader.read(text, is_whole=each) for each in (False, True))
        score = count + transducer.score(state)
        assert score == quantifier("start ", reading.select(part)), (text, pieces)
        end_score = count + transducer.score_end(state)
        assert end_score == quantifier("start ", whole.select(part)), (text, pieces)
        assert stops.score(stop_state) == reading.has_stopped + 2 * whole.is_thinking
        low, high = transducer.find_range(state)
        for each in (score, end_score):
            assert low is None or count + low <= each
            assert high is None or each <= count + high


@pytest.mark.few(10)
@pytest.mark.parametrize("reader", READERS, ids=str)
@pytest.mark.parametrize("part", READ_PARTS)
def test_law_on_all_short_texts(reader: AnswerReader, part: str) -> None:
    """The composed transducer gives the plain call's score of all prefixes of all short texts."""
    pieces_of = ("a", "b", "<", ">", "ab", "ba<", ">> ", "b>>a", " ")
    for pieces in itertools.product(pieces_of, repeat=3):
        assert_reads(reader, part, QUANTIFIERS[0], list(pieces))


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_law_on_generated_texts(reader: AnswerReader) -> None:
    """The law holds for random splits of random texts of marks, stops, their parts and words."""
    marks = [reader.marks.begin, reader.marks.end] if reader.marks else []
    own = [*reader.stop, *marks]
    parts = [
        text[a:b] for text in own for a in range(len(text)) for b in range(a + 1, len(text) + 1)
    ]
    word = st.sampled_from([*own, *parts, " she", "he ", "a", "b", " ", ".", "é", "x"])

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(word, max_size=9).map("".join),
        st.randoms(use_true_random=False),
        st.sampled_from(READ_PARTS),
        st.sampled_from(QUANTIFIERS),
    )
    def holds(text: str, generator: random.Random, part: str, quantifier: Any) -> None:
        cuts = sorted(generator.choices(range(len(text) + 1), k=5))
        pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
        assert_reads(reader, part, quantifier, pieces)

    holds()


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_thoughts_are_known(reader: AnswerReader) -> None:
    """The automaton knows of all short texts whether they end within a thought."""
    automaton = build_part_automaton(reader, "answer")
    for text in map("".join, itertools.product("ab<> ", repeat=5)):
        state = automaton.read(0, text).state
        assert automaton.is_thinking(state) == reader.read(text, is_whole=True).is_thinking


def test_most_pieces_have_one_effect() -> None:
    """Pieces without a character of a stop have one token class for each of the quantifier's."""
    reader = AnswerReader(("\n\n", "User:"), marks=ThoughtMarks("<think>", "</think>"))
    inner = Pattern("yes").build_transducer()
    assert inner is not None
    transducer = ReaderTransducer(reader, "answer", inner)
    pieces = [" the", "no", "there", "is", "king"]
    assert len({transducer.effect(piece) for piece in pieces}) == 1
