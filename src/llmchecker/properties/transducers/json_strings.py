"""Automaton of the content of JSON strings, which recognises given texts and counts characters.

    content       state: the text so far, if one of the given texts begins with it
    col           "col"
    col\\u006f     "colo", the escape of "o"
    colour.       none of the given texts, only its number of characters matters

A text may be written in many ways, because each character has escapes.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from llmchecker.properties.transducers.automaton import (
    AutomatonTransducer,
    explore_states,
    minimize_states,
)

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = "0123456789abcdef"
_CONTROL = "\x00"
"""Representative of the control characters, which no string contains as such."""
_MAX_STATES = 4_000
_MAX_TRANSITIONS = 1_000_000

_OTHER = "other"
"""Any character that continues no text, and is not part of a pair."""
_HIGH, _LOW = "high", "low"
"""First and second half of a pair of escapes that writes one character, of no text."""


class Content(NamedTuple):
    """Content of a string so far.

    Attributes:
        text: the content, if a given text begins with it; else None.
        length: number of characters, up to the limit.
        high: the last escape, if it may be the first half of a pair.
        escape: the characters of an incomplete escape after the backslash; None outside of one.
            Digits that continue no text are replaced by `?`, or by `h` or `l` for halves of pairs.
    """

    text: str | None
    length: int
    high: str = ""
    escape: str | None = None


class StringReader:
    """Reader of the content of JSON strings, and its automaton.

    Args:
        texts: texts to recognise.
        max_length: largest number of characters that matters.
    """

    def __init__(self, texts: Collection[str], max_length: int) -> None:
        self._texts = frozenset(texts)
        self._prefixes = {text[:end] for text in texts for end in range(len(text) + 1)}
        self._following: dict[str, set[str]] = {}
        for prefix in self._prefixes - {""}:
            self._following.setdefault(prefix[:-1], set()).add(prefix[-1])
        self._units: dict[str | None, frozenset[str]] = {}
        self._max_length = max_length
        known = {character for text in texts for character in text}
        special = {*_ESCAPES, "u", *_HEX_DIGITS, *_HEX_DIGITS.upper(), _CONTROL}
        self._unknown = next(c for c in map(chr, range(128, 0x110000)) if c not in known)
        # the class of all other characters is the last one
        self._letters = [*sorted(known | special), None]
        self.start = Content("" if self._prefixes else None, 0)
        self.plain = Content(None, max_length)
        """Content of a string of which nothing matters."""
        self._build_automaton()

    def _build_automaton(self) -> None:
        initial = [self.start, self.plain]
        states, transitions = explore_states(
            initial,
            lambda state: [self._read(state, letter) for letter in self._letters],
            _MAX_STATES,
            _MAX_TRANSITIONS,
        )
        labels: dict[object, int] = {}
        scores = np.array(
            [labels.setdefault(self._describe(state), len(labels)) for state in states]
        )
        blocks = minimize_states(transitions, scores[:, np.newaxis])
        _, first_states = np.unique(blocks, return_index=True)
        numbers = {letter: number for number, letter in enumerate(self._letters)}
        numbers |= {chr(code): numbers.get(chr(code), numbers[_CONTROL]) for code in range(32)}
        other = numbers[None]
        self.automaton = AutomatonTransducer(
            lambda code: numbers.get(chr(code), other),
            blocks[transitions[first_states]],
            np.zeros((len(first_states), len(self._letters)), np.int64),
            scores[first_states].tolist(),
            reads_start=False,
        )
        number_of = {state: int(block) for state, block in zip(states, blocks, strict=True)}
        self.is_dead = [states[first] is None for first in first_states]
        """Whether no continuation of each state is the content of a string."""
        self.contents = [self._describe(states[first]) for first in first_states]
        """What each state of the automaton means: see `_describe`."""
        self.first_state, self.plain_state = number_of[self.start], number_of[self.plain]

    def build_string(self, text: str | None, length: int) -> str:
        """Build a string with a description by `contents`, which no schema tells from others."""
        if text is not None:
            return text
        # without a limit any length is equivalent, but an empty string may be a given text
        return self._unknown * (length if self._max_length else 1)

    def _describe(self, state: Content | None) -> tuple[str | None, int] | bool:
        """Return the text, if it is a given one, and the length; False if it cannot end."""
        if state is None:
            return False
        if state.escape is not None:
            return False
        ended = self._append(state, "")
        return (ended.text if ended.text in self._texts else None), ended.length

    def _append(self, state: Content, character: str) -> Content:
        """Append a character, or nothing, after an escape that is no half of a pair."""
        added = [state.high] if state.high else []
        if character:
            added.append(character)
        text, length = state.text, state.length
        for item in added:
            # marks of other characters are longer than a character
            is_known = text is not None and len(item) == 1 and text + item in self._prefixes
            text = f"{text}{item}" if is_known else None
            length = min(length + 1, self._max_length)
        return Content(text, length)

    def _read(self, state: Content | None, letter: str | None) -> Content | None:
        """Read a character of the content; None for a character of no class."""
        if state is None:
            return None
        if state.escape is not None:
            return self._read_escape(state, state.escape, letter)
        if letter is None:
            return self._append(state, _OTHER)
        if letter == "\\":
            return state._replace(escape="")
        # the end of the string is not part of its content
        if letter == '"' or letter < " ":
            return None
        return self._append(state, letter)

    def _read_escape(self, state: Content, escape: str, letter: str | None) -> Content | None:
        if letter is None:
            return None
        state = state._replace(escape=None)
        if escape == "":
            if letter == "u":
                return state._replace(escape="u")
            return self._append(state, _ESCAPES[letter]) if letter in _ESCAPES else None
        if letter.lower() not in _HEX_DIGITS:
            return None
        escape = self._abbreviate(state, escape[1:], letter.lower())
        if len(escape) < 4:
            return state._replace(escape="u" + escape)
        return self._append_unit(state, escape)

    def _abbreviate(self, state: Content, digits: str, digit: str) -> str:
        """Append a digit; replace all by a mark if they begin no character that matters."""
        length = len(digits) + 1
        if digits[:1] in ("?", "h", "l"):
            return digits[:1] * length
        digits += digit
        if any(unit.startswith(digits) for unit in self._find_units(state)):
            return digits
        if digits == "d":
            return digits
        if digits[0] == "d" and digits[1] > "7":
            return ("h" if digits[1] in "89ab" else "l") * length
        return "?" * length

    def _find_units(self, state: Content) -> frozenset[str]:
        """Return the escapes, as digits, that may continue a text, alone or as a half of a pair."""
        return self._find_units_after(state.text) | self._find_units_after(
            self._append(state, "").text
        )

    def _find_units_after(self, text: str | None) -> frozenset[str]:
        if text not in self._units:
            characters = self._following.get(text, ()) if text is not None else ()
            self._units[text] = frozenset(
                f"{int.from_bytes(encoded[i : i + 2], 'big'):04x}"
                for character in characters
                for encoded in [character.encode("utf-16-be", "surrogatepass")]
                for i in range(0, len(encoded), 2)
            )
        return self._units[text]

    def _append_unit(self, state: Content, digits: str) -> Content:
        """Append the character of an escape of four digits, or the halves of a pair."""
        if digits[0] == "?":
            return self._append(state, _OTHER)
        if digits[0] in ("h", "l"):
            unit = _HIGH if digits[0] == "h" else _LOW
        else:
            unit = chr(int(digits, 16))
        if unit == _HIGH or "\ud800" <= unit <= "\udbff":
            return self._append(state, "")._replace(high=unit)
        if state.high and (unit == _LOW or "\udc00" <= unit <= "\udfff"):
            is_known = state.high != _HIGH and unit != _LOW
            return self._append(
                state._replace(high=""), _join_pair(state.high, unit) if is_known else _OTHER
            )
        return self._append(state, unit)


def _join_pair(high: str, low: str) -> str:
    return (high + low).encode("utf-16-be", "surrogatepass").decode("utf-16-be")
