"""Transducer of JSON texts (RFC 8259), with schemas as far as its states reach.

    text              frames               mode
    [1, {"a": t       [ with 1 item, {     literal "t"

A frame stands for an array or object that is open. It remembers only what its schema requires: the
number of items, the required properties so far, and the properties that violate the schema. Once no
continuation can satisfy the schema, a frame is only its bracket.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from llmchecker.errors import TooManyStates
from llmchecker.properties.transducers.json_schemas import Ids, SchemaGraph
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


class ArrayFrame(NamedTuple):
    """Open array whose items matter.

    Attributes:
        asked: the nodes of the schema whose verdict matters.
        size: number of items, up to the largest number that matters.
        failed: nodes that it cannot satisfy any more by their own requirements.
    """

    asked: Ids
    size: int
    failed: frozenset[int]


class ObjectFrame(NamedTuple):
    """Open object whose properties matter.

    Attributes:
        asked: the nodes of the schema whose verdict matters.
        key: the property whose value is read, if it is declared.
        seen: required properties so far.
        failed: nodes that it cannot satisfy any more by their own requirements.
        violations: nodes with properties that violate them. A later property of the same name
            replaces the earlier one.
    """

    asked: Ids
    key: str | None
    seen: frozenset[str]
    failed: frozenset[int]
    violations: frozenset[tuple[int, str]]


_Frame = ArrayFrame | ObjectFrame | str
"""Open array or object; its bracket if nothing in it matters."""


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

    frames: tuple[_Frame, ...]
    mode: str
    data: str | int | bool = ""


_Effect = tuple[tuple[bytes, str | None], ...]
"""Effects of the parts of a piece: on the content of a string, and the text outside of strings."""


class JsonTransducer:
    """Transducer of the scores 0, 1 and 2 of a JSON text.

    Args:
        graph: the schema; None if every JSON text has the score 2.
        judge: function that returns whether a scalar, given as JSON, satisfies a schema; None if
            no text with this number satisfies any.
        reads_start: whether the start string is read too.
    """

    def __init__(
        self,
        graph: SchemaGraph | None,
        judge: Callable[[Any, str], bool | None],
        reads_start: bool,
    ) -> None:
        self._graph = graph
        self._settings = (graph.source if graph else None, reads_start)
        self._root: Ids = (0,) if graph else ()
        self._judge = judge
        self._reads_start = reads_start
        self._reader = StringReader(graph.names if graph else (), graph.max_length if graph else 0)
        self._strings = self._reader.automaton
        self._find_satisfied_scalar = lru_cache(maxsize=4096)(self._judge_scalar)
        # many tokens close the same value, each in another way
        self._close_scalar = lru_cache(maxsize=4096)(self._close_any_scalar)
        self._find_all = lru_cache(maxsize=None)(graph.find_all if graph else lambda asked: ())
        self._parts: dict[str, tuple[bytes, str | None]] = {}

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

    def _describe_part(self, part: str) -> tuple[bytes, str | None]:
        if part not in self._parts:
            self._parts[part] = (self._strings.effect(part), self._shorten_outside(part))
        return self._parts[part]

    def _shorten_outside(self, part: str) -> str | None:
        """Return a shorter text with the same effect outside of strings; None if it has none."""
        if _STRUCTURE.match(part):
            return part
        found = _OUTSIDE.fullmatch(part)
        if found is None:
            return None
        scalar = found["scalar"]
        # without a schema the value of a number does not matter
        if self._graph is None:
            scalar = re.sub("[1-9][0-9]*", "1", re.sub("0[0-9]+", "00", scalar))
        return " " * bool(found["before"]) + scalar + " " * bool(found["after"])

    def advance(self, state: JsonState | None, effect: _Effect) -> tuple[JsonState | None, int]:
        """Return the state after an effect, and 0."""
        for content, outside in effect:
            if state is None:
                break
            if state.mode in ("string", "property"):
                state = self._read_string(state, content, outside)
            elif outside is None:
                return None, 0
            else:
                for symbol in _SYMBOL.findall(outside):
                    state = self._read_outside(state, symbol)
                    if state is None:
                        break
        return state, 0

    def score(self, state: JsonState | None) -> int:
        """Return 0 if the text is no JSON, 2 if it is complete and satisfies the schema, else 1."""
        if state is None:
            return 0
        if state.mode == "number" and not state.frames:
            is_complete = _NUMBER.fullmatch(str(state.data)) is not None
            return 2 if is_complete and self._close_scalar((), str(state.data)).data else 1
        return 2 if state.mode == "comma" and not state.frames and state.data else 1

    def find_range(self, state: JsonState | None) -> tuple[int, int]:
        """Return the least and the greatest score after any text."""
        if state is None:
            return 0, 0
        if state.mode == "comma" and not state.frames:
            # only white space may follow a complete text
            return 0, 2 if state.data else 1
        return 0, 2 if self._graph is None or self._is_undecided(state.frames) else 1

    def _read_string(
        self, state: JsonState, content: bytes, outside: str | None
    ) -> JsonState | None:
        """Read a part in a string, which is a quotation mark or has none."""
        number = int(state.data)
        described = self._reader.contents[number]
        # a quotation mark after a backslash is part of the content
        if outside == '"' and not isinstance(described, bool):
            if state.mode == "property":
                return self._close_property(state.frames, described[0])
            return self._close_scalar(
                state.frames, json.dumps(self._reader.build_string(*described))
            )
        number, _ = self._strings.advance(number, content)
        if self._reader.is_dead[number]:
            return None
        return JsonState(state.frames, state.mode, number)

    def _read_outside(self, state: JsonState, symbol: str) -> JsonState | None:
        """Read a symbol outside of strings."""
        frames, mode, _ = state
        if mode == "literal":
            return self._read_literal(state, symbol)
        if mode == "number":
            if symbol[0] in _NUMBER_CHARACTERS:
                return self._read_number(frames, f"{state.data}{symbol}")
            if _NUMBER.fullmatch(str(state.data)) is None:
                return None
            frames, mode, _ = state = self._close_scalar(frames, str(state.data))
        if symbol in _SPACE:
            return state
        if mode in ("value", "item"):
            if symbol == "]" and mode == "item":
                return self._close_container(frames)
            return self._open_value(frames, symbol)
        if mode == "colon":
            return JsonState(frames, "value") if symbol == ":" else None
        if mode in ("key", "name"):
            if symbol == "}" and mode == "key":
                return self._close_container(frames)
            return self._open_string(frames, "property") if symbol == '"' else None
        # the other mode, `comma`
        return self._read_comma(frames, symbol)

    def _read_comma(self, frames: tuple[_Frame, ...], symbol: str) -> JsonState | None:
        if not frames:
            return None
        is_array = isinstance(frames[-1], ArrayFrame) or frames[-1] == "["
        if symbol == ",":
            return JsonState(frames, "value" if is_array else "name")
        return self._close_container(frames) if symbol == ("]" if is_array else "}") else None

    def _read_literal(self, state: JsonState, symbol: str) -> JsonState | None:
        text = f"{state.data}{symbol}"
        if text in _WORDS:
            return self._close_scalar(state.frames, text)
        is_prefix = any(word.startswith(text) for word in _WORDS)
        return state._replace(data=text) if is_prefix else None

    def _read_number(self, frames: tuple[_Frame, ...], text: str) -> JsonState | None:
        if _NUMBER_PREFIX.fullmatch(text) is None:
            return None
        return JsonState(frames, "number", self._shorten_number(frames, text))

    def _shorten_number(self, frames: tuple[_Frame, ...], text: str) -> str:
        """Return a short number with the same continuations, where no value matters."""
        if self._is_undecided(frames):
            return text
        found = _NUMBER_PARTS.fullmatch(text)
        if found is None:
            return text
        whole, point, fraction, exponent, sign, digits = found.groups()
        if exponent:
            return "1e" + ("1" if digits else "+" if sign else "")
        if point:
            return "1.1" if fraction else "1."
        # only after a first 0 is a further digit invalid
        return {"": "-", "0": "0"}.get(whole, "1")

    def _is_undecided(self, frames: tuple[_Frame, ...]) -> bool:
        """Return whether the schema may be satisfied or not."""
        return not isinstance(frames[0], str) if frames else bool(self._root)

    def _open_value(self, frames: tuple[_Frame, ...], symbol: str) -> JsonState | None:
        match symbol:
            case '"':
                return self._open_string(frames, "string")
            case "[" | "{":
                return self._open_container(frames, symbol)
            case "t" | "f" | "n":
                return JsonState(frames, "literal", symbol)
            case _:
                return self._read_number(frames, symbol)

    def _open_string(self, frames: tuple[_Frame, ...], mode: str) -> JsonState:
        if mode == "property":
            matters = isinstance(frames[-1], ObjectFrame)
        else:
            matters = self._graph is not None and self._graph.distinguishes_strings(
                self._find_all(self._find_asked(frames))
            )
        reader = self._reader
        return JsonState(frames, mode, reader.first_state if matters else reader.plain_state)

    def _open_container(self, frames: tuple[_Frame, ...], bracket: str) -> JsonState:
        if self._is_undecided(frames) and len(frames) >= _MAX_DEPTH:
            raise TooManyStates(
                f"JsonTransducer: a text nested deeper than {_MAX_DEPTH}; use a simpler schema"
            )
        asked = self._find_asked(frames)
        nodes = self._nodes(asked)
        failed = frozenset(
            number
            for number, node in nodes.items()
            if not (node.accepts_arrays if bracket == "[" else node.accepts_objects)
        )
        frame: _Frame
        if bracket == "[":
            frame = self._simplify(ArrayFrame(asked, 0, failed))
        else:
            frame = self._simplify(ObjectFrame(asked, None, frozenset(), failed, frozenset()))
        return JsonState((*frames, frame), "item" if bracket == "[" else "key")

    def _nodes(self, asked: Ids) -> Mapping[int, Any]:
        """Return all nodes that apply to a value, by number."""
        if self._graph is None:
            return {}
        return {number: self._graph.nodes[number] for number in self._find_all(asked)}

    def _simplify(self, frame: ArrayFrame | ObjectFrame) -> _Frame:
        """Return the frame, or its bracket if it satisfies none of its nodes for certain."""
        graph = self._graph
        if graph is None or not any(graph.is_possible(n, frame.failed) for n in frame.asked):
            return "[" if isinstance(frame, ArrayFrame) else "{"
        return frame

    def _find_asked(self, frames: tuple[_Frame, ...]) -> Ids:
        """Return the nodes whose verdict on the next value matters."""
        if not frames:
            return self._root
        frame = frames[-1]
        if isinstance(frame, str):
            return ()
        children = self._find_children(frame)
        return tuple(sorted(set(children.values())))

    def _find_children(self, frame: ArrayFrame | ObjectFrame) -> dict[int, int]:
        """Return the node of the next value for each node of a frame that has one."""
        children = {}
        for number, node in self._nodes(frame.asked).items():
            if number in frame.failed:
                continue
            if isinstance(frame, ObjectFrame):
                child = node.properties.get(frame.key) if frame.key is not None else None
            elif frame.size < len(node.first_items):
                child = node.first_items[frame.size]
            else:
                child = node.items
            if child is not None:
                children[number] = child
        return children

    def _close_property(self, frames: tuple[_Frame, ...], name: str | None) -> JsonState:
        """Close the name of a property."""
        frame = frames[-1]
        if not isinstance(frame, ObjectFrame):
            return JsonState(frames, "colon")
        nodes = self._nodes(frame.asked)
        failed = frame.failed | {
            number
            for number, node in nodes.items()
            if not node.accepts_others and name not in node.properties
        }
        is_required = any(name in node.required for node in nodes.values())
        seen = frame.seen | {name} if name is not None and is_required else frame.seen
        is_declared = any(name in node.properties for node in nodes.values())
        # a later value replaces an earlier one
        violations = frozenset(item for item in frame.violations if item[1] != name)
        key = name if is_declared else None
        frame = ObjectFrame(frame.asked, key, seen, failed, violations)
        return JsonState((*frames[:-1], self._simplify(frame)), "colon")

    def _close_any_scalar(self, frames: tuple[_Frame, ...], text: str) -> JsonState:
        satisfied = self._find_satisfied_scalar(self._find_asked(frames), text)
        # the root's verdict on a number without limits
        if satisfied is None:
            brackets = tuple("[" if _is_array(frame) else "{" for frame in frames)
            return JsonState(brackets, "comma", False)
        return self._close_value(frames, satisfied)

    def _judge_scalar(self, asked: Ids, text: str) -> frozenset[int] | None:
        """Return the nodes that a scalar satisfies; None if no text with it satisfies the root."""
        if self._graph is None:
            return frozenset()
        # a number that is too long fails whatever asks
        verdicts = {number: self._judge(self._graph.nodes[number].schema, text) for number in asked}
        if None in verdicts.values() or (not asked and self._judge(True, text) is None):
            return None
        return frozenset(number for number, verdict in verdicts.items() if verdict)

    def _close_value(self, frames: tuple[_Frame, ...], satisfied: frozenset[int]) -> JsonState:
        """Close a value that satisfies some nodes."""
        if not frames:
            return JsonState((), "comma", self._graph is None or 0 in satisfied)
        frame = frames[-1]
        if isinstance(frame, str):
            return JsonState(frames, "comma")
        children = self._find_children(frame)
        failing = {number for number, child in children.items() if child not in satisfied}
        if isinstance(frame, ArrayFrame):
            nodes = self._nodes(frame.asked)
            size = min(frame.size + 1, max(map(_find_size_limit, nodes.values())))
            too_many = {
                number
                for number, node in nodes.items()
                if node.max_items is not None and size > node.max_items
            }
            failed = frame.failed | failing | too_many
            closed: _Frame = self._simplify(ArrayFrame(frame.asked, size, failed))
        else:
            key = frame.key or ""
            violations = frame.violations | {(number, key) for number in failing}
            closed = frame._replace(key=None, violations=violations)
        return JsonState((*frames[:-1], closed), "comma")

    def _close_container(self, frames: tuple[_Frame, ...]) -> JsonState:
        frame, outer = frames[-1], frames[:-1]
        if isinstance(frame, str) or self._graph is None:
            return self._close_value(outer, frozenset())
        nodes = self._nodes(frame.asked)
        if isinstance(frame, ArrayFrame):
            lacking = {n for n, node in nodes.items() if frame.size < node.min_items}
        else:
            lacking = {n for n, node in nodes.items() if not node.required <= frame.seen}
            lacking |= {number for number, _ in frame.violations}
        satisfied = self._graph.find_satisfied(tuple(nodes), frame.failed | lacking)
        return self._close_value(outer, satisfied)


def _is_array(frame: _Frame) -> bool:
    return isinstance(frame, ArrayFrame) or frame == "["


def _find_size_limit(node: Any) -> int:
    """Return the largest number of items that matters to a node."""
    limits = (len(node.first_items), node.min_items, (node.max_items or 0) + 1)
    return int(max(limits))
