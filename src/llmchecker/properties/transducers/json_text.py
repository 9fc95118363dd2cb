"""Transducer of JSON texts (RFC 8259), with schemas as far as its states reach.

text              frames               mode
[1, {"a": t       [ with 1 item, {     literal "t"
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from llmchecker.errors import TooManyStates
from llmchecker.properties.transducers.json_frames import Frame, FrameRules, is_array
from llmchecker.properties.transducers.json_schemas import SchemaGraph
from llmchecker.properties.transducers.json_strings import StringReader

_MAX_DEPTH = 100
"""Maximum open arrays and objects while a schema may be satisfied.

The plain call validates such texts in every case, whatever its own limits are.
"""

_WORDS = ("true", "false", "null")
_SPACE = " \t\n\r"
_NUMBER_CHARACTERS = frozenset("-+.eE0123456789")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_NUMBER_PREFIX = re.compile(
    r"(?:-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+|(?:\.[0-9]++)?[eE][+-]?[0-9]*+)?)?)"
)
_NUMBER_PARTS = re.compile(r"-?([0-9]*)(\.?)([0-9]*)([eE]?)([-+]?)([0-9]*)")
_SYMBOL = re.compile(r"[-+.eE0-9]+|.", re.DOTALL)
"""Characters that are read at once: those of a number, or a single other one."""
_STRUCTURE = re.compile(r'([\[\]{},:"])')
_WORD_PARTS = {word[a:b] for word in _WORDS for a in range(len(word)) for b in range(a + 1, 6)}
_NUMBER_PART = r"-?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]*)?|[-+][0-9]*"
_OUTSIDE = re.compile(
    rf"(?P<before>[ \t\n\r]*)(?P<scalar>{'|'.join(sorted(_WORD_PARTS, key=len, reverse=True))}"
    rf"|{_NUMBER_PART})(?P<after>[ \t\n\r]*)"
)
"""Text without structure that may be read outside of strings: the part of a scalar, and spaces."""


class JsonState(NamedTuple):
    """State of a JSON text.

    Attributes:
        frames: the open arrays and objects.
        mode: what is expected: `value`, `item` (or the end of an array), `key` (or the end of an
            object), `name`, `colon`, `comma` (or an end). Or what is read: `number`, `literal`,
            `string`, `property`.
        data: the text of a number or literal, the state of a string, or for a complete text
            whether it satisfies the schema.
    """

    frames: tuple[Frame, ...]
    mode: str
    data: str | int | bool = ""


_Effect = tuple[tuple[bytes, str | None], ...]
"""Effects of the parts of a piece: on the content of a string, and the text outside of strings."""


class JsonTransducer:
    """Transducer of the scores 0, 1 and 2 of a JSON text.

    Args:
        graph: the schema.
        judge: as in `FrameRules`.
        reads_start: whether the start string is read too.
    """

    def __init__(
        self, graph: SchemaGraph, judge: Callable[[Any, str], bool | None], reads_start: bool
    ) -> None:
        self._settings = (graph.source, reads_start)
        self._reads_start = reads_start
        self._rules = FrameRules(graph, judge)
        self._strings = StringReader(graph.names, graph.max_length)
        # many pieces have the same parts, such as quotation marks
        self._describe_part = lru_cache(maxsize=2**14)(self._describe_any_part)

    # equal transducers share the token classes of a vocabulary
    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonTransducer) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def start(self, start: str) -> tuple[JsonState | None, int]:
        """Return the state and the count 0 after a start string without a continuation."""
        state = JsonState((), "value")
        if not self._reads_start:
            return state, 0
        return self.advance(state, self.effect(start))

    def effect(self, piece: str) -> _Effect:
        """Return the effects of the parts between structural characters, and of these."""
        return tuple(self._describe_part(part) for part in _STRUCTURE.split(piece) if part)

    def advance(self, state: JsonState | None, effect: _Effect) -> tuple[JsonState | None, int]:
        """Return the state after an effect, and 0."""
        if state is None:
            return None, 0
        reading = _Reading(self._rules, self._strings, state)
        is_possible = all(reading.read_part(content, outside) for content, outside in effect)
        return reading.build_state() if is_possible else None, 0

    def score(self, state: JsonState | None) -> int:
        """Return 0 if the text is no JSON, 2 if it is complete and satisfies the schema, else 1."""
        if state is None:
            return 0
        if state.mode == "number" and not state.frames:
            return 2 if _is_whole_number(self._rules, str(state.data)) else 1
        return 2 if state.mode == "comma" and not state.frames and state.data else 1

    def find_range(self, state: JsonState | None) -> tuple[int, int]:
        """Return the least and the greatest score after any text."""
        if state is None:
            return 0, 0
        if state.mode == "comma" and not state.frames:
            # only white space may follow a complete text
            return 0, 2 if state.data else 1
        return 0, 2 if not self._rules.root or _is_undecided(self._rules, state.frames) else 1

    def _describe_any_part(self, part: str) -> tuple[bytes, str | None]:
        return self._strings.automaton.effect(part), self._shorten_outside(part)

    def _shorten_outside(self, part: str) -> str | None:
        """Return a shorter text with the same effect outside of strings; None if it has none."""
        if _STRUCTURE.match(part):
            return part
        found = _OUTSIDE.fullmatch(part)
        if found is None:
            return None
        scalar = found["scalar"]
        # without a schema the value of a number does not matter
        if not self._rules.root:
            scalar = re.sub("[1-9][0-9]*", "1", re.sub("0[0-9]+", "00", scalar))
        return " " * bool(found["before"]) + scalar + " " * bool(found["after"])


class _Reading:
    """Reading of a piece from a state on.

    Its methods that read return whether the text may still become JSON. It changes its frames in
    place, so that reading is linear in the text, however deep it nests.
    """

    def __init__(self, rules: FrameRules, strings: StringReader, state: JsonState) -> None:
        self._rules = rules
        self._strings = strings
        self._frames = list(state.frames)
        self._mode, self._data = state.mode, state.data

    def build_state(self) -> JsonState:
        """Build the state after the piece."""
        return JsonState(tuple(self._frames), self._mode, self._data)

    def read_part(self, content: bytes, outside: str | None) -> bool:
        """Read a part of the piece: a structural character, or a text without any."""
        if self._mode in ("string", "property"):
            return self._read_string(int(self._data), content, outside)
        return outside is not None and all(map(self._read_symbol, _SYMBOL.findall(outside)))

    def _expect(self, mode: str, data: str | int | bool = "") -> bool:
        self._mode, self._data = mode, data
        return True

    @property
    def _outer(self) -> Frame | None:
        return self._frames[-1] if self._frames else None

    def _read_string(self, number: int, content: bytes, outside: str | None) -> bool:
        described = self._strings.contents[number]
        # a quotation mark after a backslash is part of the content
        if outside == '"' and not isinstance(described, bool):
            if self._mode == "string":
                return self._close_scalar(json.dumps(self._strings.build_string(*described)))
            self._frames[-1] = self._rules.name_property(self._frames[-1], described[0])
            return self._expect("colon")
        self._data, _ = self._strings.automaton.advance(number, content)
        return not self._strings.is_dead[self._data]

    def _read_symbol(self, symbol: str) -> bool:
        """Read a symbol outside of strings."""
        if self._mode == "literal":
            return self._read_literal(f"{self._data}{symbol}")
        if self._mode == "number":
            if symbol[0] in _NUMBER_CHARACTERS:
                return self._read_number(f"{self._data}{symbol}")
            if _NUMBER.fullmatch(str(self._data)) is None:
                return False
            self._close_scalar(str(self._data))
        if symbol in _SPACE:
            return True
        match self._mode, symbol:
            case ("item", "]") | ("key", "}"):
                return self._close_container()
            case ("value" | "item", _):
                return self._open_value(symbol)
            case ("colon", ":"):
                return self._expect("value")
            case ("key" | "name", '"'):
                return self._open_string("property")
            case ("comma", _) if self._frames:
                return self._read_comma(symbol, is_array(self._frames[-1]))
            case _:
                return False

    def _read_comma(self, symbol: str, is_in_array: bool) -> bool:
        if symbol == ",":
            return self._expect("value" if is_in_array else "name")
        return symbol == ("]" if is_in_array else "}") and self._close_container()

    def _read_literal(self, text: str) -> bool:
        if text in _WORDS:
            return self._close_scalar(text)
        return self._expect("literal", text) and any(word.startswith(text) for word in _WORDS)

    def _read_number(self, text: str) -> bool:
        if not _is_undecided(self._rules, self._frames):
            text = _shorten_number(text)
        return self._expect("number", text) and _NUMBER_PREFIX.fullmatch(text) is not None

    def _open_value(self, symbol: str) -> bool:
        match symbol:
            case '"':
                return self._open_string("string")
            case "[" | "{":
                return self._open_container(symbol)
            case "t" | "f" | "n":
                return self._expect("literal", symbol)
            case _:
                return self._read_number(symbol)

    def _open_string(self, mode: str) -> bool:
        if mode == "property":
            matters = not isinstance(self._outer, str)
        else:
            matters = self._rules.distinguishes_strings(self._outer)
        strings = self._strings
        return self._expect(mode, strings.first_state if matters else strings.plain_state)

    def _open_container(self, bracket: str) -> bool:
        is_deep = len(self._frames) >= _MAX_DEPTH
        if is_deep and _is_undecided(self._rules, self._frames):
            raise TooManyStates(
                f"JsonTransducer: a text nested deeper than {_MAX_DEPTH}; use a simpler schema"
            )
        self._frames.append(self._rules.open_frame(self._outer, bracket))
        return self._expect("item" if bracket == "[" else "key")

    def _close_container(self) -> bool:
        return self._close_value(self._rules.close_frame(self._frames.pop()))

    def _close_scalar(self, text: str) -> bool:
        satisfied = self._rules.judge_scalar(self._outer, text)
        if satisfied is not None:
            return self._close_value(satisfied)
        # the root's verdict on a number without limits
        self._frames = ["[" if is_array(frame) else "{" for frame in self._frames]
        return self._expect("comma", "" if self._frames else False)

    def _close_value(self, satisfied: frozenset[int]) -> bool:
        """Close a value that satisfies some nodes of the schema."""
        if not self._frames:
            return self._expect("comma", self._rules.satisfies_root(satisfied))
        self._frames[-1] = self._rules.add_value(self._frames[-1], satisfied)
        return self._expect("comma")


def _is_undecided(rules: FrameRules, frames: Sequence[Frame]) -> bool:
    """Return whether the schema may be satisfied or not."""
    return not isinstance(frames[0], str) if frames else bool(rules.root)


def _is_whole_number(rules: FrameRules, text: str) -> bool:
    """Return whether a text is a number that satisfies the schema."""
    if _NUMBER.fullmatch(text) is None:
        return False
    satisfied = rules.judge_scalar(None, text)
    return satisfied is not None and rules.satisfies_root(satisfied)


def _shorten_number(text: str) -> str:
    """Return a short number with the same continuations, whose value does not matter."""
    found = _NUMBER_PARTS.fullmatch(text)
    if found is None or not _NUMBER_PREFIX.fullmatch(text):
        return text
    whole, point, fraction, exponent, sign, digits = found.groups()
    if exponent:
        return "1e" + ("1" if digits else "+" if sign else "")
    if point:
        return "1.1" if fraction else "1."
    # only after a first 0 is a further digit invalid
    return {"": "-", "0": "0"}.get(whole, "1")
