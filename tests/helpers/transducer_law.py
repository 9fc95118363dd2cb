"""The law of token transducers on generated texts, for the tests of each quantifier."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from llmchecker.models.transformers.token_pieces import Detokenizer
from llmchecker.models.transformers.tokenizer import load_tokenizer
from llmchecker.properties.transducers.interface import NarrowsRange, TokenTransducer
from llmchecker.properties.transducers.token_classes import (
    NO_CLASS,
    TokenClasses,
    TransducerTable,
)

Call = Callable[[str, str], int]

ROUGH_PIECES = (
    *("", " ", "  ", "\n", "\n\n", "\t", "\u00a0", "\u200b", "'", "’", "''", "'s", "’t", "-", "_"),
    *(
        ".",
        "!",
        "?",
        "...",
        "…",
        ". ",
        '."',
        "?!",
        ",",
        "(",
        ")",
        '"',
        "”",
        ":",
        "/",
        "\ufffd",
        "\0",
    ),
    *("\u0301", "\u0345", "e\u0301", "İ", "ß", "ŉ", "ΑΣ", "漢字", "😀", "é", "1", "3.14", "x", "A"),
)
"""Pieces at which words, sentences and characters begin and end."""


def rough_pieces(own: Sequence[str]) -> st.SearchStrategy[str]:
    """A strategy of pieces: a quantifier's own, parts of these, rough ones, pairs, any text."""
    parts = sorted({piece[a:b] for piece in own for a in range(9) for b in (a + 1, a + 2, a + 3)})
    single = (
        st.sampled_from([*own]) | st.sampled_from([*own, *parts]) | st.sampled_from(ROUGH_PIECES)
    )
    return single | st.tuples(single, single).map("".join) | st.text(max_size=4)


def assert_law(call: Call, transducer: TokenTransducer, start: str, pieces: Iterable[str]) -> None:
    """The count and the score of the state make up the plain score of a text and its beginnings.

    No score is outside the range that the state of an earlier beginning has. A plain string is read
    character by character.
    """
    low, high = -math.inf, math.inf
    (state, count), continuation = transducer.start(start), ""
    # the first step adds no text
    for piece in itertools.chain([None], pieces):
        if piece is not None:
            state, gain = transducer.advance(state, transducer.effect(piece))
            continuation += piece
            count += gain
        score, plain_score = count + transducer.score(state), call(start, continuation)
        assert score == plain_score, f"{start + continuation!r}: {score}, not {plain_score}"
        if isinstance(transducer, NarrowsRange):
            least, greatest = transducer.find_range(state)
            low = low if least is None else max(low, count + least)
            high = high if greatest is None else min(high, count + greatest)
        assert low <= score <= high, f"{start + continuation!r}: {score}, not {low} to {high}"


def assert_equal_futures(
    call: Call,
    transducer: TokenTransducer,
    texts: Sequence[tuple[str, Sequence[str]]],
    continuations: Sequence[str],
) -> None:
    """Texts of equal states differ by the same number, whatever follows both."""
    groups: dict[Hashable, list[tuple[str, str]]] = {}
    for start, pieces in texts:
        state, _ = transducer.start(start)
        for piece in pieces:
            state, _ = transducer.advance(state, transducer.effect(piece))
        groups.setdefault(state, []).append((start, "".join(pieces)))
    for (start, text), *others in groups.values():
        for other_start, other_text in others:
            differences = {
                call(other_start, other_text + future) - call(start, text + future)
                for future in ("", *continuations)
            }
            assert len(differences) == 1, (start, text, other_start, other_text)


@cache
def load_pieces(directory: Path) -> tuple[str | None, ...]:
    """The piece of each token of a tokenizer; None for a part of a character."""
    tokenizer = load_tokenizer(directory)
    detokenizer, tokens = Detokenizer(tokenizer), np.arange(len(tokenizer))
    pieces = detokenizer.decode_tokens(tokens)
    pieces[detokenizer.find_incomplete(tokens)] = None
    return tuple(pieces.tolist())


def assert_law_of_table(
    call: Call,
    transducer: TokenTransducer,
    pieces: Sequence[str | None],
    start: str,
    texts: Sequence[Sequence[int]],
) -> None:
    """A table over token classes gives the plain call's score of each prefix of token texts."""
    classes = TokenClasses.from_pieces(transducer, pieces)
    table = TransducerTable(transducer, classes)
    for tokens in texts:
        number, count = table.start(start)
        continuation = ""
        for token in tokens:
            if (piece := pieces[token]) is None:
                continue
            row, class_ = table.row(number), classes.class_of[token]
            assert class_ != NO_CLASS
            number, gain = int(row.next_states[class_]), int(row.gains[class_])
            continuation += piece
            count += gain
            assert count + table.scores[number] == call(start, continuation), continuation
