"""Transducer of a quantifier that reads a part of what a model writes.

    stop "User:", token pieces      "No", ".U", "se", " it"
    read of "No.U"                  "No."
    read of "No.Use it"             "No.Use it"

A `PartAutomaton` reads the characters of a text one by one: the stops release characters to the
marks, and the marks release them to the parts (Aho and Corasick 1975, "Efficient string matching",
for several stops). Few characters move it away from the states that hold nothing back, so that a
piece of text has one effect on nearly all states. The released text goes on to the quantifier's own
transducer, as further pieces.
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from llmchecker.models.decoding.answer_reader import ANSWER, OUTPUT, THOUGHT, AnswerReader
from llmchecker.properties.transducers.interface import NarrowsRange, TokenTransducer

STOPPED, THINKING = 1, 2
"""Scores of texts that a stop has ended, and of texts that end within a thought."""


class _Mode(Enum):
    """The part to which characters are released."""

    START = "start"
    """White space, and then perhaps the mark before a thought."""
    THOUGHT_START = "white space before a thought"
    THOUGHT = "a thought"
    ANSWER_START = "white space before an answer"
    ANSWER = "an answer"


class _State(NamedTuple):
    """What a reader remembers.

    Attributes:
        mode: the part to which characters are released.
        stop_read: the suffix that may begin a stop, held back unless the output includes stops.
        mark_held: the released suffix that may begin a mark.
        has_stopped: whether a stop has ended the text.
    """

    mode: _Mode
    stop_read: str = ""
    mark_held: str = ""
    has_stopped: bool = False


@dataclass(frozen=True)
class _Move:
    """The next state of a reader, and the text that a part receives."""

    state: int
    text: str


class PartAutomaton:
    """The automaton over characters of one part that a reader releases.

    States are numbers. State 0 is the first.

    Args:
        reader: the reader.
        part: one of `READ_PARTS`.
    """

    def __init__(self, reader: AnswerReader, part: str) -> None:
        # marks are part of the output
        self._marks = reader.marks if part != OUTPUT else None
        self._reader, self._part = reader, part
        self._numbers: dict[_State, int] = {}
        self._states: list[_State] = []
        # the move, and whether the part receives the character itself, if it is not in the alphabet
        self._moves: dict[tuple[int, str | bool], tuple[_Move, bool]] = {}
        patterns = [*reader.stop, *((self._marks.begin, self._marks.end) if self._marks else ())]
        # from a state that holds nothing back, other characters lead back to it
        firsts = sorted({pattern[0] for pattern in patterns})
        self._first = re.compile("|".join(map(re.escape, firsts)) or "(?!)")
        self._alphabet = frozenset("".join(patterns))
        self._number(_State(_Mode.ANSWER if self._marks is None else _Mode.START))
        self._exceptions = self._find_exceptions()

    def __len__(self) -> int:
        return len(self._states)

    def has_stopped(self, state: int) -> bool:
        """Return whether a stop has ended texts of a state."""
        return self._states[state].has_stopped

    def is_thinking(self, state: int) -> bool:
        """Return whether texts of a state are within a thought, if they end there."""
        mode = self._states[self.flush(state).state].mode
        is_open = self._marks is not None and self._marks.is_open
        return mode in (_Mode.THOUGHT_START, _Mode.THOUGHT) or (mode == _Mode.START and is_open)

    def flush(self, state: int) -> _Move:
        """Return the state that holds nothing back, and the text that is released at the end."""
        own = self._states[state]
        if own.has_stopped:
            return _Move(state, "")
        held = "" if self._reader.include_stop else own.stop_read
        after, text = self._release(own._replace(stop_read=""), held, is_whole=True)
        return _Move(self._number(after), text)

    def read(self, state: int, text: str) -> _Move:
        """Return the state after a text, and what the part receives of it."""
        pieces, position = [], 0
        while position < len(text) and not self._states[state].has_stopped:
            own = self._states[state]
            if self._is_idle(state) and own.mode in (_Mode.THOUGHT, _Mode.ANSWER):
                # skip to the next character that may begin a pattern
                match = self._first.search(text, position)
                end = match.start() if match else len(text)
                if end > position:
                    if self._receives(own.mode):
                        pieces.append(text[position:end])
                    position = end
                    continue
            move = self._move(state, text[position])
            pieces.append(move.text)
            state, position = move.state, position + 1
        return _Move(state, "".join(pieces))

    def find_exceptions(self, character: str) -> Sequence[int]:
        """Return the states that a character does not flush first."""
        return self._exceptions.get(character, ())

    def _is_idle(self, state: int) -> bool:
        own = self._states[state]
        return not (own.stop_read or own.mark_held)

    def _receives(self, mode: _Mode) -> bool:
        """Return whether the part receives the characters of a mode."""
        return self._part == OUTPUT or (self._part == THOUGHT) == (mode == _Mode.THOUGHT)

    def _number(self, state: _State) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _move(self, state: int, character: str) -> _Move:
        # no pattern has other characters, so that only white space differs among them
        is_other = character not in self._alphabet
        key = state, character.isspace() if is_other else character
        if key not in self._moves:
            after, text = self._advance(self._states[state], character)
            is_received = is_other and text.endswith(character)
            self._moves[key] = (
                _Move(self._number(after), text[: len(text) - is_received]),
                is_received,
            )
        move, is_received = self._moves[key]
        return _Move(move.state, move.text + character) if is_received else move

    def _advance(self, state: _State, character: str) -> tuple[_State, str]:
        """Read one character of a text that has not stopped."""
        stops, include = self._reader.stop, self._reader.include_stop
        read = state.stop_read + character
        stop = max((stop for stop in stops if read.endswith(stop)), key=len, default=None)
        if stop is not None:
            released = character if include else read[: len(read) - len(stop)]
            after, text = self._release(state, released, is_whole=True)
            return _State(after.mode, has_stopped=True), text
        kept = _find_begun(read, stops)
        released = character if include else read[: len(read) - len(kept)]
        return self._release(state._replace(stop_read=kept), released, is_whole=False)

    def _release(self, state: _State, released: str, *, is_whole: bool) -> tuple[_State, str]:
        """Let the marks read characters that the stops have released."""
        text, mode, held = "", state.mode, state.mark_held
        for character in released:
            mode, held, own = self._read_mark(mode, held, character)
            text += own
        if is_whole and held:
            if mode == _Mode.START:
                mode = self._after_start
            text, held = text + held * self._receives(mode), ""
        return state._replace(mode=mode, mark_held=held), text

    @property
    def _after_start(self) -> _Mode:
        """The mode of a text that does not begin with the mark of a thought."""
        is_open = self._marks is not None and self._marks.is_open
        return _Mode.THOUGHT if is_open else _Mode.ANSWER

    def _read_mark(self, mode: _Mode, held: str, character: str) -> tuple[_Mode, str, str]:
        """Return the mode and the held suffix after a character, and what the part receives."""
        begun = held + character
        if mode == _Mode.ANSWER or self._marks is None:
            return mode, "", character * self._receives(mode)
        if not held and mode != _Mode.THOUGHT and character.isspace():
            return mode, "", ""
        if mode == _Mode.ANSWER_START:
            return self._read_mark(_Mode.ANSWER, "", character)
        if mode == _Mode.START:
            if begun == self._marks.begin:
                return _Mode.THOUGHT_START, "", ""
            if self._marks.begin.startswith(begun):
                return mode, begun, ""
            return self._read_marks(self._after_start, begun)
        # the rest is within a thought
        if begun == self._marks.end:
            return _Mode.ANSWER_START, "", ""
        held = _find_begun(begun, (self._marks.end,))
        released = begun[: len(begun) - len(held)]
        return _Mode.THOUGHT, held, released * self._receives(_Mode.THOUGHT)

    def _read_marks(self, mode: _Mode, characters: str) -> tuple[_Mode, str, str]:
        """Read characters that do not begin a thought, one by one."""
        held, text = "", ""
        for character in characters:
            mode, held, own = self._read_mark(mode, held, character)
            text += own
        return mode, held, text

    def _find_exceptions(self) -> dict[str, Sequence[int]]:
        """Explore all states, and find those that a character does not flush first."""
        exceptions: dict[str, list[int]] = {}
        number = 0
        while number < len(self._states):
            flushed = self.flush(number)
            for character in sorted(self._alphabet):
                # no character moves a text that has stopped
                if self._states[number].has_stopped:
                    break
                move, after = self._move(number, character), self._move(flushed.state, character)
                if move != _Move(after.state, flushed.text + after.text):
                    exceptions.setdefault(character, []).append(number)
            number += 1
        return {character: tuple(numbers) for character, numbers in exceptions.items()}

    @property
    def idle_states(self) -> tuple[int, ...]:
        """The states that hold nothing back and have not stopped."""
        return tuple(
            number
            for number, state in enumerate(self._states)
            if self._is_idle(number) and not state.has_stopped
        )


def _find_begun(text: str, patterns: Sequence[str]) -> str:
    """Return the longest suffix that is the beginning of a pattern, and not all of it."""
    for start in range(len(text)):
        suffix = text[start:]
        if any(len(suffix) < len(pattern) and pattern.startswith(suffix) for pattern in patterns):
            return suffix
    return ""


@lru_cache(maxsize=64)
def build_part_automaton(reader: AnswerReader, part: str) -> PartAutomaton:
    """Build the automaton of a part, once for equal readers."""
    return PartAutomaton(reader, part)


class ReaderTransducer:
    """Transducer of a quantifier behind a reader.

    A state has the state of the reader and that of the quantifier's transducer. The score is that
    of the released text; `score_end` is the score if the text ends.

    Args:
        reader: the reader.
        part: the part that the quantifier reads.
        inner: the quantifier's own transducer.
    """

    def __init__(self, reader: AnswerReader, part: str, inner: TokenTransducer) -> None:
        # a foreign transducer may be a dataclass without a hash
        self._key = (reader, part, inner if isinstance(inner, Hashable) else id(inner))
        self._automaton, self._inner = build_part_automaton(reader, part), inner
        self._narrows = isinstance(inner, NarrowsRange)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReaderTransducer) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def start(self, start: str) -> tuple[Hashable, int]:
        """Return the state and the count after a start string without a continuation."""
        inner, count = self._inner.start(start)
        return (0, inner), count

    def effect(self, piece: str) -> Hashable:
        """Return the moves from idle states, and the states that move in another way."""
        if not piece:
            return ()
        moves = tuple((state, self._move(state, piece)) for state in self._automaton.idle_states)
        exceptions = []
        for state in self._automaton.find_exceptions(piece[0]):
            move, flushed = self._automaton.read(state, piece), self._automaton.flush(state)
            usual = self._automaton.read(flushed.state, piece)
            # most of these states hold nothing back in the end
            if (move.state, move.text) != (usual.state, flushed.text + usual.text):
                exceptions.append((state, (move.state, self._find_effect(move.text))))
        return moves, tuple(exceptions)

    def _move(self, state: int, piece: str) -> tuple[int, Hashable]:
        move = self._automaton.read(state, piece)
        return move.state, self._find_effect(move.text)

    def _find_effect(self, text: str) -> Hashable:
        """Return the effect of a released text; None without text."""
        return self._inner.effect(text) if text else None

    def advance(self, state: Any, effect: Any) -> tuple[Hashable, int]:
        """Return the state after an effect, and what the effect adds to the count."""
        reading, inner = state
        if not effect or self._automaton.has_stopped(reading):
            return state, 0
        moves, exceptions = effect
        for number, (following, released) in exceptions:
            if number == reading:
                return self._advance(following, inner, released)
        flushed = self._automaton.flush(reading)
        gain = 0
        if flushed.text:
            inner, gain = self._inner.advance(inner, self._inner.effect(flushed.text))
        following, released = next(move for number, move in moves if number == flushed.state)
        after, further = self._advance(following, inner, released)
        return after, gain + further

    def _advance(self, reading: int, inner: Any, released: Hashable) -> tuple[Hashable, int]:
        if released is None:
            return (reading, inner), 0
        inner, gain = self._inner.advance(inner, released)
        return (reading, inner), gain

    def score(self, state: Any) -> int:
        """Return the score of the released text, without the count."""
        return self._inner.score(state[1])

    def score_end(self, state: Any) -> int:
        """Return the score of a text that ends in a state, without the count."""
        reading, inner = state
        if text := self._automaton.flush(reading).text:
            inner, gain = self._inner.advance(inner, self._inner.effect(text))
            return gain + self._inner.score(inner)
        return self._inner.score(inner)

    def find_range(self, state: Any) -> tuple[int | None, int | None]:
        """Return the least and the greatest score of the text and its continuations."""
        reading, inner = state
        if self._automaton.has_stopped(reading):
            score = self._inner.score(inner)
            return score, score
        return self._inner.find_range(inner) if self._narrows else (None, None)  # type: ignore[attr-defined]


class StopTransducer:
    """Transducer of a reader alone, whose score is the sum of `STOPPED` and `THINKING`.

    Args:
        reader: the reader.
    """

    def __init__(self, reader: AnswerReader) -> None:
        self._inner = ReaderTransducer(reader, ANSWER, _NoText())
        self._automaton = build_part_automaton(reader, ANSWER)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StopTransducer) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    def start(self, start: str) -> tuple[Hashable, int]:
        """Return the state after a start string, and 0."""
        return self._inner.start(start)

    def effect(self, piece: str) -> Hashable:
        """Return the effect on the reader alone."""
        return self._inner.effect(piece)

    def advance(self, state: Any, effect: Any) -> tuple[Hashable, int]:
        """Return the state after an effect, and 0."""
        return self._inner.advance(state, effect)

    def score(self, state: Any) -> int:
        """Return whether a stop has ended the text, and whether it ends within a thought."""
        has_stopped = self._automaton.has_stopped(state[0])
        return STOPPED * has_stopped + THINKING * self._automaton.is_thinking(state[0])


class _NoText:
    """Transducer that reads nothing: all texts have one state."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NoText)

    def __hash__(self) -> int:
        return 0

    def start(self, start: str) -> tuple[Hashable, int]:
        return 0, 0

    def effect(self, piece: str) -> Hashable:
        return 0

    def advance(self, state: Hashable, effect: Hashable) -> tuple[Hashable, int]:
        return 0, 0

    def score(self, state: Hashable) -> int:
        return 0
