"""Token classes of a vocabulary, and the transitions of a transducer over them.

    tokens    " he", " she", "xy", "ab"
    pieces    the same four texts
    effects   a male word, a female word, another word, another word
    classes   0, 1, 2, 2

A vocabulary has up to 262,144 tokens, but a transducer distinguishes few of their effects. So a
transition is computed for each class instead of each token, and only once for each state that a
text reaches. Willard and Louf ("Efficient guided generation for large language models", 2023) index
a vocabulary by the states of an automaton in the same way.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np

from llmchecker.errors import ConfigError, TooManyStates
from llmchecker.properties.logic.continuation_ranges import NO_LIMIT
from llmchecker.properties.transducers.interface import NarrowsRange, ScoresEnds, TokenTransducer

NO_CLASS = -1
"""Class of a token without a piece of text of its own."""

_MAX_TRANSITIONS = 2**25
"""Default limit of a table's stored transitions, which take 12 bytes each."""

_MAX_STATES = 2**18
"""Default limit of a table's states, those without a row included."""


@dataclass(frozen=True)
class TokenClasses:
    """Partition of a vocabulary by the effects of its tokens on one transducer.

    Attributes:
        class_of: (vocabulary,) int32, the class of each token; `NO_CLASS` for a token without a
            piece of its own, such as a single byte of a character.
        effects: the effect of each class, all distinct.
    """

    class_of: np.ndarray
    effects: tuple[Hashable, ...]

    @classmethod
    def from_pieces(
        cls, transducer: TokenTransducer, pieces: Sequence[str | None] | np.ndarray
    ) -> "TokenClasses":
        """Compute the classes of a vocabulary, each distinct piece once.

        The classes are kept in memory, and shared by equal transducers.

        Args:
            transducer: the transducer that reads the pieces.
            pieces: the piece of text of each token; None for a token of single bytes, or one that
                ends within a character.
        """
        pieces = tuple(pieces)
        # a foreign transducer may be a dataclass without a hash
        if isinstance(transducer, Hashable):
            return _share_classes(transducer, pieces)
        return _compute_classes(transducer, pieces)


@lru_cache(maxsize=16)
def _share_classes(transducer: TokenTransducer, pieces: tuple[str | None, ...]) -> TokenClasses:
    return _compute_classes(transducer, pieces)


def _compute_classes(transducer: TokenTransducer, pieces: tuple[str | None, ...]) -> TokenClasses:
    class_of_effect: dict[Hashable, int] = {}
    class_of_piece: dict[str | None, int] = {None: NO_CLASS}
    for piece in dict.fromkeys(pieces):
        if piece is not None:
            effect = transducer.effect(piece)
            class_of_piece[piece] = class_of_effect.setdefault(effect, len(class_of_effect))
    class_of = np.fromiter(map(class_of_piece.__getitem__, pieces), np.int32, len(pieces))
    # several checks share the array
    class_of.flags.writeable = False
    return TokenClasses(class_of, tuple(class_of_effect))


@dataclass(frozen=True)
class Row:
    """Transitions of one state, by token class.

    Attributes:
        next_states: (classes,) int32, the number of the state after a token.
        gains: (classes,) int64, what a token adds to the count.
    """

    next_states: np.ndarray
    gains: np.ndarray


class TransducerTable:
    """The states of a transducer as numbers from 0, and their transitions by token class.

    A state gets its number when it is first reached, and its row on the first request. A table that
    has exceeded a limit keeps its rows, and computes no others.

    Args:
        transducer: the transducer.
        classes: the token classes of the model's vocabulary.
        max_transitions: limit of stored transitions, the number of rows times that of classes.
        max_states: limit of states.
    """

    def __init__(
        self,
        transducer: TokenTransducer,
        classes: TokenClasses,
        max_transitions: int = _MAX_TRANSITIONS,
        max_states: int = _MAX_STATES,
    ) -> None:
        self.transducer = transducer
        self.classes = classes
        self._max_transitions = max_transitions
        self._max_states = max_states
        self._number_of: dict[Hashable, int] = {}
        self._states: list[Hashable] = []
        self._rows: dict[int, Row] = {}
        # the scores of texts that may go on, and of those that end
        self._scores = np.zeros((2, 64), dtype=np.int64)
        self._limits = np.zeros((2, 64), dtype=np.int64)
        # a protocol takes longer to check than a state to read
        self._narrows_range = isinstance(transducer, NarrowsRange)
        self._scores_ends = isinstance(transducer, ScoresEnds)
        self._problem: str | None = None

    @property
    def scores(self) -> np.ndarray:
        """(states,) int64, the score of each state by its number."""
        return self._scores[0, : len(self._states)]

    @property
    def end_scores(self) -> np.ndarray:
        """(states,) int64, the score of a text that ends in each state."""
        return self._scores[1, : len(self._states)]

    @property
    def limits(self) -> np.ndarray | None:
        """(2, n) int64, the range of each state by its number; None if no state narrows it.

        `NO_LIMIT` has the numbers for no limit. Entries beyond the states are arbitrary.
        """
        return self._limits if self._narrows_range else None

    def start(self, start: str) -> tuple[int, int]:
        """Return the state's number and the count after a start string.

        Raises:
            TooManyStates: the state is new and the table is full.
        """
        state, count = self.transducer.start(start)
        return self._number_state(state), count

    def row(self, number: int) -> Row:
        """Return the transitions of a state, computed on the first request.

        Raises:
            TooManyStates: the row or a state in it is new and the table is full.
        """
        if number not in self._rows:
            self._rows[number] = self._compute_row(self._states[number])
        return self._rows[number]

    def advance_text(self, number: int, text: str) -> tuple[int, int]:
        """Return the next state's number and the gain of a text that is no single token.

        Raises:
            TooManyStates: the next state is new and the table is full.
        """
        effect = self.transducer.effect(text)
        state, gain = self.transducer.advance(self._states[number], effect)
        return self._number_state(state), gain

    def _compute_row(self, state: Hashable) -> Row:
        effects = self.classes.effects
        if (len(self._rows) + 1) * len(effects) > self._max_transitions:
            self._problem = f"{self._max_transitions} transitions, {len(effects)} for each state"
        # a full table would read most of the effects before it finds a new state
        self._check_limits()
        next_states, gains = [], []
        for effect in effects:
            next_state, gain = self.transducer.advance(state, effect)
            next_states.append(self._number_state(next_state))
            gains.append(gain)
        return Row(np.array(next_states, dtype=np.int32), self._read_integers("advance", gains))

    def _number_state(self, state: Hashable) -> int:
        number = self._number_of.get(state)
        if number is not None:
            return number
        number = len(self._states)
        if number >= self._max_states:
            self._problem = f"{self._max_states} states"
            self._check_limits()
        if number == self._scores.shape[1]:
            self._scores = np.concatenate([self._scores, np.zeros_like(self._scores)], axis=1)
            self._limits = np.concatenate([self._limits, np.zeros_like(self._limits)], axis=1)
        self._scores[:, number] = self._read_integers("score", self._compute_scores(state))
        if self._narrows_range:
            self._limits[:, number] = self._find_limits(state)
        self._number_of[state] = number
        self._states.append(state)
        return number

    def _compute_scores(self, state: Hashable) -> list[int]:
        score = self.transducer.score(state)
        if not self._scores_ends:
            return [score, score]
        return [score, cast("ScoresEnds", self.transducer).score_end(state)]

    def _find_limits(self, state: Hashable) -> np.ndarray:
        low, high = cast("NarrowsRange", self.transducer).find_range(state)
        limits = [NO_LIMIT.min if low is None else low, NO_LIMIT.max if high is None else high]
        return self._read_integers("find_range", limits)

    def _check_limits(self) -> None:
        if self._problem is not None:
            raise TooManyStates(
                f"{self._name}: more than {self._problem}; use a quantifier with fewer states"
            )

    def _read_integers(self, method: str, values: list[int]) -> np.ndarray:
        """Return integers as an array, and reject what NumPy would round."""
        array = np.array(values)
        if values and array.dtype.kind != "i":
            raise ConfigError(f"{self._name}: {method} returned a value that is not an integer")
        return array.astype(np.int64)

    @property
    def _name(self) -> str:
        return type(self.transducer).__name__
