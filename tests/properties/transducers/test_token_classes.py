"""Token classes and tables of a transducer small enough to follow by hand."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from llmchecker.errors import ConfigError, TooManyStates
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.word_count import Words
from llmchecker.properties.transducers.interface import HasTransducer
from llmchecker.properties.transducers.token_classes import NO_CLASS, TokenClasses, TransducerTable


class PairsOfA:
    """The number of pairs of a: the state is whether the last pair is half complete."""

    def start(self, start: str) -> tuple[bool, int]:
        return False, 0

    def effect(self, piece: str) -> int:
        return piece.count("a")

    def advance(self, state: bool, effect: int) -> tuple[bool, int]:
        pairs, half = divmod(state + effect, 2)
        return bool(half), pairs

    def score(self, state: bool) -> int:
        return 10 * state


class Lengths(PairsOfA):
    """A transducer with a state for each length."""

    def advance(self, state: int, effect: int) -> tuple[int, int]:
        return state + effect, 0


PIECES = ["a", "b", None, "aba", "", "ca", "aba"]


def test_tokens_of_equal_effects_form_a_class() -> None:
    """Classes are numbered by their first token; a token without a piece has none."""
    classes = TokenClasses.from_pieces(PairsOfA(), PIECES)
    assert classes.class_of.tolist() == [0, 1, NO_CLASS, 2, 1, 0, 2]
    assert classes.class_of.dtype == np.int32
    assert classes.effects == (1, 0, 2)


def test_each_distinct_piece_is_read_once() -> None:
    """Equal pieces of many tokens are computed together."""
    read_pieces = []

    class Recorder(PairsOfA):
        def effect(self, piece: str) -> int:
            read_pieces.append(piece)
            return super().effect(piece)

    TokenClasses.from_pieces(Recorder(), PIECES * 3)
    assert read_pieces == ["a", "b", "aba", "", "ca"]


def test_equal_transducers_share_their_classes(tmp_path: Path) -> None:
    """Quantifiers of equal words share the classes; a changed list, or of: text, has others."""
    pieces = (" he", " she", " cat", "x")
    file = tmp_path / "words.txt"
    file.write_text("cat\n")

    def find_classes(quantifier: HasTransducer) -> TokenClasses:
        return TokenClasses.from_pieces(quantifier.build_transducer(), pieces)

    assert find_classes(Words(["cat"])) is find_classes(Words(file=file))
    assert find_classes(Length()) is find_classes(Length())
    assert find_classes(Length()) is not find_classes(Length("sentences"))
    assert find_classes(Words(["cat"])) is not find_classes(Words(["cat"], of="text"))
    first_classes = find_classes(Words(file=file))
    file.write_text("she\n")
    assert find_classes(Words(file=file)).class_of.tolist() != first_classes.class_of.tolist()


def test_a_transducer_without_a_hash_has_classes() -> None:
    """A foreign transducer may be a dataclass that is not frozen."""

    @dataclass
    class Unhashable(PairsOfA):
        unit: str = "a"

    assert TokenClasses.from_pieces(Unhashable(), PIECES).effects == (1, 0, 2)


def test_a_table_numbers_the_states_that_are_reached() -> None:
    """A row holds the next states and gains by class, and scores are those of the numbers."""
    table = TransducerTable(PairsOfA(), TokenClasses.from_pieces(PairsOfA(), PIECES))
    assert table.start("aaa") == (0, 0)
    row = table.row(0)
    assert (row.next_states.tolist(), row.gains.tolist()) == ([1, 0, 0], [0, 0, 1])
    assert table.scores.tolist() == [0, 10]
    row = table.row(1)
    assert (row.next_states.tolist(), row.gains.tolist()) == ([0, 1, 1], [1, 0, 1])
    assert (row.next_states.dtype, row.gains.dtype) == (np.int32, np.int64)
    assert table.row(1) is row
    assert table.advance_text(1, "aaaa") == (1, 2)


def test_a_vocabulary_without_pieces_has_no_class() -> None:
    """Where every token is a part of a character, a row is empty."""
    classes = TokenClasses.from_pieces(PairsOfA(), [None, None])
    table = TransducerTable(PairsOfA(), classes)
    number, _ = table.start("")
    assert (classes.class_of.tolist(), classes.effects) == ([NO_CLASS, NO_CLASS], ())
    assert table.row(number).next_states.shape == table.row(number).gains.shape == (0,)


def test_ranges_are_those_of_the_states() -> None:
    """A limit that a state lacks is the number for no limit; without ranges there are none."""

    class Ranged(PairsOfA):
        def find_range(self, state: bool) -> tuple[int, int | None]:
            return (-3, 10) if state else (0, None)

    table = TransducerTable(Ranged(), TokenClasses.from_pieces(Ranged(), PIECES))
    table.row(table.start("")[0])
    assert table.limits[:, :2].tolist() == [[0, -3], [2**63 - 1, 10]]
    assert TransducerTable(PairsOfA(), TokenClasses.from_pieces(PairsOfA(), PIECES)).limits is None


def test_scores_grow_with_the_states() -> None:
    """A table keeps the score of each of many states."""
    table = TransducerTable(Lengths(), TokenClasses.from_pieces(Lengths(), PIECES))
    number, _ = table.start("")
    for _ in range(200):
        number, _ = table.advance_text(number, "a")
    assert table.scores.tolist() == [10 * length for length in range(201)]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_states": 3}, "Lengths: more than 3 states"),
        ({"max_transitions": 5}, "Lengths: more than 5 transitions, 3 for each state"),
    ],
)
def test_a_table_has_a_limit(limits: dict[str, int], message: str) -> None:
    """A state or a row beyond the limit raises an error; rows so far stay, and none follow."""
    table = TransducerTable(Lengths(), TokenClasses.from_pieces(Lengths(), PIECES), **limits)
    number, _ = table.start("")
    first_row = table.row(number)
    with pytest.raises(TooManyStates, match=message):
        table.row(2)
    assert table.row(0) is first_row
    # the row of a state that was known before needs no new state, but its transitions
    with pytest.raises(TooManyStates, match=message):
        table.row(1)


@pytest.mark.parametrize("method", ["advance", "score"])
def test_numbers_that_are_not_integers_are_refused(method: str) -> None:
    """A fraction is not rounded to the integer that an array holds."""

    class Halves(PairsOfA):
        def advance(self, state: bool, effect: int) -> tuple[bool, float]:
            return state, 0.5 if method == "advance" else 0

        def score(self, state: bool) -> float:
            return 0.5 if method == "score" else 0

    table = TransducerTable(Halves(), TokenClasses.from_pieces(Halves(), PIECES))
    with pytest.raises(ConfigError, match=f"Halves: {method} returned a value that is not an int"):
        table.row(table.start("")[0])
