"""Minimal deterministic automata of regular expressions, and their transducers.

A pattern becomes a nondeterministic automaton (Thompson 1968) over classes of characters that no
atom of the pattern tells apart. The subset construction makes it deterministic, and partition
refinement (Moore 1956) makes it minimal, so that states with equal futures are equal. The effect of
a piece of text is the function that the piece induces on all states, so that pieces of equal action
are equal.

Counts of matches need priorities: a simulation of ordered threads (Pike; Cox 2009) finds leftmost
matches, and keeps the search that begins after the match found so far, for the case that no thread
of a higher priority matches.
"""

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any, Protocol

import numpy as np
import regex

from llmchecker.properties.transducers.patterns import (
    Alternatives,
    Anchor,
    Atom,
    LastLineEnd,
    Lookahead,
    Lookbehind,
    Repeat,
    Syntax,
    UnsupportedPattern,
    has_part,
    is_lazy,
    is_nullable,
)
from llmchecker.properties.transducers.patterns import Sequence as SequenceOf

_MAX_NODES = 5_000
"""Maximum nodes of a nondeterministic automaton."""
_MAX_STATES = 2_000
"""Maximum states of a deterministic automaton; more take seconds to build."""
_MAX_TRANSITIONS = 50_000
_MAX_STEPS = 5_000_000
"""Maximum steps over single nodes until all states are known, which take seconds."""
_MAX_ATOMS = 200

_EDGE = -1
"""Class of the missing character before the start and after the end of a text."""
_ACCEPT = -1
"""Node at the end of a pattern."""
_MATCHED = -2
"""Node of a match at an earlier position, or at the position itself."""

_WORD, _NEWLINE = Atom(r"\w"), Atom(r"\U0000000A")


class AlphabetPartition:
    """Partition of all characters into classes that no atom tells apart.

    Attributes:
        size: number of classes.

    Args:
        atoms: sets of characters.
    """

    def __init__(self, atoms: Sequence[Atom]) -> None:
        bounds = [_find_bounds(atom.source) for atom in atoms]
        self._starts = np.unique(np.concatenate([np.zeros(1, np.int64), *bounds]))
        # a character is in a set if it follows an odd number of the set's bounds
        membership = np.stack(
            [np.searchsorted(bound, self._starts, side="right") % 2 for bound in bounds]
            or [np.zeros(len(self._starts), np.int64)]
        )
        signatures, classes = np.unique(membership, axis=1, return_inverse=True)
        self._classes = classes.reshape(-1)
        self.size = signatures.shape[1]
        self._members = {
            atom: frozenset(np.flatnonzero(row).tolist())
            for atom, row in zip(atoms, signatures, strict=False)
        }

    def find_members(self, atom: Atom) -> frozenset[int]:
        """Return the classes of an atom's characters."""
        return self._members[atom]

    def find_class(self, character: int) -> int:
        """Return the class of a character's code point."""
        return int(self._classes[np.searchsorted(self._starts, character, side="right") - 1])


@lru_cache(maxsize=1)
def _join_all_characters() -> str:
    return "".join(map(chr, range(sys.maxunicode + 1)))


@lru_cache(maxsize=4096)
def _find_bounds(source: str) -> np.ndarray:
    """Return the sorted code points at which membership of an atom's set changes."""
    # a character without flags needs no search
    if regex.fullmatch(r"\\U[0-9A-F]{8}", source):
        return np.array([int(source[2:], 16), int(source[2:], 16) + 1], np.int64)
    matches = regex.compile(f"(?:{source})+").finditer(_join_all_characters())
    return np.array([bound for match in matches for bound in match.span()], np.int64)


@dataclass(frozen=True, slots=True)
class _Character:
    """Node that reads a character of one of the classes."""

    classes: frozenset[int]
    target: int


@dataclass(frozen=True, slots=True)
class _Branch:
    """Node that continues at each of its targets, in order of preference."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Guard:
    """Node that continues if the character before or after the position is in a class."""

    classes: frozenset[int]
    is_before: bool
    target: int


@dataclass(frozen=True, slots=True)
class _Look:
    """Node that continues if the following text matches, or does not match."""

    body: int
    is_negated: bool
    target: int


_Obligations = frozenset[tuple[int, frozenset["_Thread"]]]
"""Lookaheads that are not decided yet: the node of each, and its threads."""
_Thread = tuple[int, _Obligations]
_Threads = frozenset[_Thread]
_NO_OBLIGATIONS: _Obligations = frozenset()


class PatternNodes:
    """Nondeterministic automaton of a pattern.

    Attributes:
        partition: the classes of characters.
        start: the first node.

    Raises:
        UnsupportedPattern: the pattern is too large.
    """

    def __init__(self, syntax: Syntax) -> None:
        atoms = tuple(dict.fromkeys((*_collect_atoms(syntax), _WORD, _NEWLINE)))
        if len(atoms) > _MAX_ATOMS:
            raise UnsupportedPattern(f"more than {_MAX_ATOMS} sets of characters")
        self.partition = AlphabetPartition(atoms)
        self._all = frozenset(range(self.partition.size))
        self._steps = 0
        self._nodes: list[_Character | _Branch | _Guard | _Look] = []
        self._closures: dict[tuple[int, int, int], tuple[list[_Thread], bool]] = {}
        self.start = self._build(syntax, _ACCEPT)
        # classes that no condition on the character before tells apart have one representative
        guards = [node for node in self._nodes if isinstance(node, _Guard) and node.is_before]
        signatures: dict[tuple[bool, ...], int] = {}
        self.representatives = {
            before: signatures.setdefault(tuple(before in g.classes for g in guards), before)
            for before in (_EDGE, *sorted(self._all))
        }

    def _add(self, node: _Character | _Branch | _Guard | _Look) -> int:
        if len(self._nodes) >= _MAX_NODES:
            raise UnsupportedPattern(f"more than {_MAX_NODES} nodes")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _build(self, syntax: Syntax, target: int) -> int:
        """Build the nodes of a part that continue at a target; return the first node."""
        match syntax:
            case Atom():
                return self._add(_Character(self.partition.find_members(syntax), target))
            case Anchor(name):
                return self._build_anchor(name, target)
            # `(?=\n?\Z)`
            case LastLineEnd():
                end = self._add(_Guard(frozenset({_EDGE}), False, _ACCEPT))
                newline = self.partition.find_members(_NEWLINE)
                body = self._add(_Branch((end, self._add(_Character(newline, end)))))
                return self._add(_Look(body, False, target))
            case SequenceOf(parts):
                for part in reversed(parts):
                    target = self._build(part, target)
                return target
            case Alternatives(parts):
                return self._add(_Branch(tuple(self._build(part, target) for part in parts)))
            case Repeat():
                return self._build_repeat(syntax, target)
            case Lookbehind(atoms, has_start, is_negated):
                members = frozenset({_EDGE} if has_start else ()).union(
                    *map(self.partition.find_members, atoms)
                )
                classes = (self._all | {_EDGE}) - members if is_negated else members
                return self._add(_Guard(classes, True, target))
            case Lookahead(part, is_negated):
                return self._add(_Look(self._build(part, _ACCEPT), is_negated, target))

    def _build_anchor(self, name: str, target: int) -> int:
        edge = frozenset({_EDGE})
        newline = self.partition.find_members(_NEWLINE)
        word = self.partition.find_members(_WORD)
        other = (self._all | edge) - word
        match name:
            case r"\A":
                return self._add(_Guard(edge, True, target))
            case r"\Z":
                return self._add(_Guard(edge, False, target))
            case "(?m)^":
                return self._add(_Guard(edge | newline, True, target))
            case "(?m)$":
                return self._add(_Guard(edge | newline, False, target))
            # the others, \b and \B
            case _:
                sides = ((word, other), (other, word))
                if name == r"\B":
                    sides = ((word, word), (other, other))
                return self._add(
                    _Branch(
                        tuple(
                            self._add(_Guard(before, True, self._add(_Guard(after, False, target))))
                            for before, after in sides
                        )
                    )
                )

    def _build_repeat(self, repeat: Repeat, target: int) -> int:
        def choose(again: int) -> _Branch:
            return _Branch((target, again) if repeat.is_lazy else (again, target))

        if repeat.maximum is None:
            loop = self._add(_Branch(()))
            first = self._build(repeat.part, loop)
            self._nodes[loop] = choose(first)
        else:
            loop = target
            for _ in range(repeat.maximum - repeat.minimum):
                loop = self._add(choose(self._build(repeat.part, loop)))
        for _ in range(repeat.minimum):
            first = self._build(repeat.part, loop)
            # a part without nodes may be repeated very often
            if first == loop:
                break
            loop = first
        return loop

    def follow(self, node: int, before: int, after: int) -> tuple[list[_Thread], bool]:
        """Follow a node at a position and over the character after it.

        Args:
            before: class of the character before the position.
            after: class of the character after the position.

        Returns:
            The threads after the character, or `_MATCHED` at the position, in order of
            preference; and whether a node of the position reads a character.
        """
        key = (node, before, after)
        if key not in self._closures:
            self._closures[key] = self._follow(*key)
        self._count_steps(1 + len(self._closures[key][0]))
        return self._closures[key]

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise UnsupportedPattern(f"more than {_MAX_STEPS} steps")

    def _follow(self, first: int, before: int, after: int) -> tuple[list[_Thread], bool]:
        threads: list[_Thread] = []
        is_reading = False
        stack: list[_Thread] = [(first, _NO_OBLIGATIONS)]
        visited: set[_Thread] = set()
        while stack:
            thread = stack.pop()
            if thread in visited:
                continue
            visited.add(thread)
            number, obligations = thread
            if number in (_ACCEPT, _MATCHED):
                threads.append((_MATCHED, obligations))
                continue
            match self._nodes[number]:
                case _Character(classes, target):
                    is_reading = True
                    if after in classes:
                        threads.append((target, obligations))
                case _Branch(targets):
                    stack += [(target, obligations) for target in reversed(targets)]
                case _Guard(classes, is_before, target):
                    if (before if is_before else after) in classes:
                        stack.append((target, obligations))
                case _Look(body, _, target):
                    body_thread = frozenset({(body, _NO_OBLIGATIONS)})
                    added = self._advance_look(number, body_thread, before, after)
                    if added is not None:
                        stack.append((target, obligations | added))
        self._count_steps(len(visited))
        return threads, is_reading

    def _advance_look(
        self, number: int, threads: _Threads, before: int, after: int
    ) -> _Obligations | None:
        """Advance a lookahead over a character; return what remains, or None if it fails."""
        look = self._nodes[number]
        assert isinstance(look, _Look)
        next_threads, is_accepted, _ = self.advance(threads, before, after)
        if is_accepted or not next_threads:
            return None if is_accepted == look.is_negated else _NO_OBLIGATIONS
        return frozenset({(number, next_threads)})

    def advance(self, threads: _Threads, before: int, after: int) -> tuple[_Threads, bool, bool]:
        """Advance threads over a character.

        Returns:
            The threads after the character, whether one of them accepts at the position before it,
            and whether one reads a character there.
        """
        next_threads: set[_Thread] = set()
        is_accepted = False
        is_reading = False
        for node, obligations in threads:
            remaining = self._advance_obligations(obligations, before, after)
            if remaining is None:
                continue
            followed, reads = self.follow(node, before, after)
            is_reading |= reads
            for target, added in followed:
                thread = (target, remaining | added)
                if thread == (_MATCHED, _NO_OBLIGATIONS):
                    is_accepted = True
                else:
                    next_threads.add(thread)
        return frozenset(next_threads), is_accepted, is_reading

    def _advance_obligations(
        self, obligations: _Obligations, before: int, after: int
    ) -> _Obligations | None:
        remaining = _NO_OBLIGATIONS
        for number, threads in obligations:
            added = self._advance_look(number, threads, before, after)
            if added is None:
                return None
            remaining |= added
        return remaining


def _collect_atoms(syntax: Syntax) -> list[Atom]:
    match syntax:
        case Atom():
            return [syntax]
        case SequenceOf(parts) | Alternatives(parts):
            return [atom for part in parts for atom in _collect_atoms(part)]
        case Repeat(part) | Lookahead(part):
            return _collect_atoms(part)
        case Lookbehind(atoms):
            return list(atoms)
        case _:
            return []


class _Matcher(Protocol):
    """Protocol of a deterministic reader of classes of characters.

    Attributes:
        start: its first state.
    """

    @property
    def start(self) -> Hashable: ...

    # each reader has states of its own type
    def advance(self, state: Any, after: int) -> tuple[Hashable, int]: ...

    def score(self, state: Any) -> int: ...


_MatchState = tuple[_Threads, int] | None
"""Threads and the class before them; None once a match is found."""


class _SingleMatcher:
    """Reader that finds whether a pattern matches, in one of the modes but `count`."""

    def __init__(self, nodes: PatternNodes, mode: str) -> None:
        self._nodes = nodes
        self._mode = mode
        self._first = frozenset({(nodes.start, _NO_OBLIGATIONS)})
        self.start: _MatchState = (self._first, nodes.representatives[_EDGE])

    def advance(self, state: _MatchState, after: int) -> tuple[_MatchState, int]:
        if state is None:
            return None, 0
        threads, is_accepted, _ = self._nodes.advance(*state, after)
        if self._mode == "found":
            if is_accepted:
                return None, 0
            # a match may begin at each position
            threads |= self._first
        else:
            # a match must end at the end
            threads = frozenset(thread for thread in threads if thread[0] != _MATCHED)
        # without threads the character before does not matter
        before = self._nodes.representatives[after if threads else _EDGE]
        return (threads, before), 0

    def score(self, state: _MatchState) -> int:
        if state is None:
            return 1
        _, is_accepted, is_reading = self._nodes.advance(*state, _EDGE)
        return int(is_accepted or (is_reading and self._mode == "possible"))


_Level = tuple[tuple[int, ...], int]
"""Nodes of a search in order of preference, and the matches so far if all of its nodes fail."""
_CountState = tuple[tuple[_Level, ...], int]


class _MatchCounter:
    """Reader that counts matches without overlap, of a pattern that matches no empty text.

    A state has several searches. The last one has not found a match yet. Each other one has found
    a match, and its threads could still find a preferable one. The next search is the one after the
    match found.
    """

    def __init__(self, nodes: PatternNodes) -> None:
        self._nodes = nodes
        self.start: _CountState = ((((), 0),), nodes.representatives[_EDGE])

    def advance(self, state: _CountState, after: int) -> tuple[_CountState, int]:
        levels, before = state
        # a node of a preferable search has the same future, so that the others do not need it
        visited: set[int] = set()
        next_levels: list[_Level] = []
        count = 0
        is_open = False
        for position, (nodes, matches) in enumerate(levels):
            is_open = position == len(levels) - 1
            threads, is_accepted = self._advance_level(nodes, is_open, before, after, visited)
            if is_accepted:
                next_levels.append((threads, 1))
                # the fresh search accepts nothing before a character
                threads, _ = self._advance_level((), True, before, after, visited)
                next_levels.append((threads, 0))
                break
            next_levels.append((threads, matches))
        kept: list[_Level] = []
        for threads, matches in next_levels[:-1]:
            if threads:
                kept.append((threads, matches))
            elif kept:
                kept[-1] = (kept[-1][0], kept[-1][1] + matches)
            else:
                count += matches
        kept.append(next_levels[-1])
        return (tuple(kept), self._nodes.representatives[after]), count

    def _advance_level(
        self, nodes: tuple[int, ...], is_open: bool, before: int, after: int, visited: set[int]
    ) -> tuple[tuple[int, ...], bool]:
        """Advance a search; return its nodes, and whether it found a match at the position."""
        next_nodes: list[int] = []
        for node in (*nodes, self._nodes.start) if is_open else nodes:
            for target, _ in self._nodes.follow(node, before, after)[0]:
                # what follows is less preferable
                if target == _MATCHED:
                    return tuple(next_nodes), True
                if target not in visited:
                    visited.add(target)
                    next_nodes.append(target)
        return tuple(next_nodes), False

    def score(self, state: _CountState) -> int:
        return self.advance(state, _EDGE)[1]


class AutomatonTransducer:
    """Transducer of a minimal deterministic automaton.

    States are numbers. An effect has the next state and the added count of each state, as 4 bytes
    each.

    Args:
        find_class: function from a code point to its class.
        transitions: (states, classes) int, the next states.
        counts: (states, classes) int, what is added to the count.
        scores: scores of the states; state 0 is the first.
        reads_start: whether the start string is read too.
    """

    def __init__(
        self,
        find_class: Callable[[int], int],
        transitions: np.ndarray,
        counts: np.ndarray,
        scores: list[int],
        reads_start: bool,
    ) -> None:
        self._symbols = _Symbols(find_class)
        self._transitions = transitions
        self._counts = counts
        self._scores = scores
        self._reads_start = reads_start
        self._effects: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        # pieces with equal beginnings share the effects of these
        self._products: dict[tuple[int, int], int] = {}
        self._empty = self._number_effect(np.stack([np.arange(len(scores)), [0] * len(scores)]))

    def start(self, start: str) -> tuple[int, int]:
        """Return the state and the count after a start string without a continuation."""
        state, count = 0, 0
        if self._reads_start:
            for symbol in map(ord, start.translate(self._symbols)):
                count += int(self._counts[state, symbol])
                state = int(self._transitions[state, symbol])
        return state, count

    def effect(self, piece: str) -> bytes:
        """Return the next state and the added count of each state."""
        number = self._empty
        for symbol in map(ord, piece.translate(self._symbols)):
            product = self._products.get((number, symbol))
            if product is None:
                product = self._products[number, symbol] = self._multiply(number, symbol)
            number = product
        return self._effects[number]

    def _multiply(self, number: int, symbol: int) -> int:
        """Return the number of an effect followed by a symbol."""
        states, counts = np.frombuffer(self._effects[number], "<i4").reshape(2, -1)
        return self._number_effect(
            np.stack([self._transitions[states, symbol], counts + self._counts[states, symbol]])
        )

    def _number_effect(self, effect: np.ndarray) -> int:
        content = effect.astype("<i4").tobytes()
        number = self._numbers.setdefault(content, len(self._effects))
        if number == len(self._effects):
            self._effects.append(content)
        return number

    def advance(self, state: int, effect: bytes) -> tuple[int, int]:
        """Return the state after an effect, and what the effect adds to the count."""
        position, half = 4 * state, len(effect) // 2
        return (
            int.from_bytes(effect[position : position + 4], "little"),
            int.from_bytes(effect[half + position : half + position + 4], "little", signed=True),
        )

    def score(self, state: int) -> int:
        """Return the score of a state, without the count."""
        return self._scores[state]

    def find_range(self, state: int) -> tuple[int, int | None]:
        """Return the least and the greatest score after any text."""
        low, high = self._ranges[:, state].tolist()
        return int(low), None if high == np.inf else int(high)

    @cached_property
    def _ranges(self) -> np.ndarray:
        """(2, states) float, the range of each state."""
        # a cycle never lowers a score, so that least scores exist; one that raises it may repeat
        gains = np.stack([self._counts, np.where(self._counts > 0, np.inf, self._counts)])
        ranges = np.tile(np.array(self._scores, dtype=float), (2, 1))
        while True:
            after = gains + ranges[:, self._transitions]
            lows = np.minimum(ranges[0], after[0].min(axis=1))
            highs = np.maximum(ranges[1], after[1].max(axis=1))
            extended = np.stack([lows, highs])
            if (extended == ranges).all():
                return ranges
            ranges = extended


class ConjunctionTransducer:
    """Transducer of several conditions, whose score is 1 where all of them hold.

    One automaton would have a state for each combination of states.

    Args:
        parts: transducers with the scores 0 and 1 and no count, each with the score that its
            condition requires.
    """

    def __init__(self, parts: Sequence[tuple[AutomatonTransducer, int]]) -> None:
        self._parts = [part for part, _ in parts]
        self._required = [score for _, score in parts]

    def start(self, start: str) -> tuple[tuple[int, ...], int]:
        """Return the state and the count 0 after a start string without a continuation."""
        return tuple(part.start(start)[0] for part in self._parts), 0

    def effect(self, piece: str) -> tuple[bytes, ...]:
        """Return the effect on each part."""
        return tuple(part.effect(piece) for part in self._parts)

    def advance(
        self, state: tuple[int, ...], effect: tuple[bytes, ...]
    ) -> tuple[tuple[int, ...], int]:
        """Return the state after an effect, and 0."""
        return tuple(
            part.advance(number, content)[0]
            for part, number, content in zip(self._parts, state, effect, strict=True)
        ), 0

    def score(self, state: tuple[int, ...]) -> int:
        """Return 1 if all conditions hold, else 0."""
        scores = (part.score(number) for part, number in zip(self._parts, state, strict=True))
        return int(all(map(int.__eq__, scores, self._required)))

    def find_range(self, state: tuple[int, ...]) -> tuple[int, int]:
        """Return the least and the greatest score after any text."""
        ranges = [part.find_range(number) for part, number in zip(self._parts, state, strict=True)]
        must_hold = ranges == [(score, score) for score in self._required]
        # the scores of a condition are 0 and 1
        cannot_hold = any(map(tuple.__eq__, ranges, [(1 - score,) * 2 for score in self._required]))
        return int(must_hold), int(not cannot_hold)


class _Symbols(dict[int, int]):
    """Classes of characters by code point, computed on first use."""

    def __init__(self, find_class: Callable[[int], int]) -> None:
        super().__init__()
        self._find_class = find_class

    def __missing__(self, character: int) -> int:
        self[character] = self._find_class(character)
        return self[character]


def build_automaton(
    syntax: Syntax, mode: str, reads_start: bool, empty_score: int
) -> AutomatonTransducer | ConjunctionTransducer:
    """Build the transducer of a pattern's matches.

    Args:
        mode: `found`, `whole`, `possible` or `count`.
        reads_start: whether the start string is read too.
        empty_score: score of the empty text by the package `regex`.

    Raises:
        UnsupportedPattern: the automaton is too large, or cannot compute the mode exactly.
    """
    # of these the package does not report all partial matches, or too many
    if mode == "possible" and (has_part(syntax, Lookahead, Lookbehind) or is_lazy(syntax)):
        raise UnsupportedPattern("a partial match of a lookahead or of a lazy repetition")
    if mode == "count":
        if is_nullable(syntax):
            raise UnsupportedPattern("a count of empty matches")
        # whether such a match is found depends on the text after it
        if has_part(syntax, Lookahead, LastLineEnd):
            raise UnsupportedPattern("a count of matches that depend on what follows")
    if mode == "found" and len(conditions := _split_conditions(syntax)) > 1:
        return ConjunctionTransducer(
            [
                (_build_single(condition, mode, reads_start), required)
                for condition, required in conditions
            ]
        )
    transducer = _build_single(syntax, mode, reads_start)
    # the package checks no condition such as \b in an empty text, which may be possible
    if transducer.score(0) != empty_score:
        raise UnsupportedPattern("a condition on the empty text")
    return transducer


def _split_conditions(syntax: Syntax) -> list[tuple[Syntax, int]]:
    """Split a pattern `\\A(?=...)(?!...)...` into its conditions, each with its required score."""
    start = Anchor(r"\A")
    if not isinstance(syntax, SequenceOf) or syntax.parts[:1] != (start,):
        return [(syntax, 1)]
    looks = list(takewhile(lambda part: isinstance(part, Lookahead), syntax.parts[1:]))
    rest = syntax.parts[1 + len(looks) :]
    conditions: list[tuple[Syntax, int]] = [
        (SequenceOf((start, look.part)), int(not look.is_negated))
        for look in looks
        if isinstance(look, Lookahead)
    ]
    return [*conditions, (SequenceOf((start, *rest)), 1)] if rest else conditions


def _build_single(syntax: Syntax, mode: str, reads_start: bool) -> AutomatonTransducer:
    nodes = PatternNodes(syntax)
    matcher: _Matcher = _MatchCounter(nodes) if mode == "count" else _SingleMatcher(nodes, mode)
    count_rows: list[list[int]] = []

    def read_classes(state: Hashable) -> list[Hashable]:
        row = [matcher.advance(state, symbol) for symbol in range(nodes.partition.size)]
        count_rows.append([count for _, count in row])
        return [following for following, _ in row]

    states, transitions = explore_states(
        [matcher.start], read_classes, _MAX_STATES, _MAX_TRANSITIONS
    )
    counts, scores = np.array(count_rows), np.array([matcher.score(state) for state in states])
    if mode == "count":
        # matches are counted when found, so that equal states differ by no pending count
        counts = counts + scores[transitions] - scores[:, np.newaxis]
        scores = np.zeros_like(scores)
    blocks = minimize_states(transitions, np.column_stack([scores, counts]))
    _, first_states = np.unique(blocks, return_index=True)
    return AutomatonTransducer(
        nodes.partition.find_class,
        blocks[transitions[first_states]],
        counts[first_states],
        scores[first_states].tolist(),
        reads_start,
    )


def explore_states(
    initial: Sequence[Hashable],
    read_classes: Callable[[Any], list[Hashable]],
    max_states: int,
    max_transitions: int,
) -> tuple[list[Any], np.ndarray]:
    """Explore all states that are reachable from initial ones.

    Args:
        initial: the initial states, all distinct.
        read_classes: function from a state to the next states, by class of characters. It is called
            once for each state in order of discovery.
        max_states: limit of states.
        max_transitions: limit of states times classes.

    Returns:
        The states in order of discovery, and (states, classes) int, the numbers of the next states.

    Raises:
        UnsupportedPattern: a limit is exceeded.
    """
    numbers = {state: number for number, state in enumerate(initial)}
    states = list(initial)
    rows = []
    # the loop adds states
    for state in states:
        row = []
        for following in read_classes(state):
            number = numbers.setdefault(following, len(states))
            if number == len(states):
                states.append(following)
            row.append(number)
        rows.append(row)
        if len(states) > max_states or len(states) * len(row) > max_transitions:
            raise UnsupportedPattern(f"more than {len(states) - 1} states")
    return states, np.array(rows, np.int64)


def minimize_states(transitions: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return the block of each state in the coarsest partition, in order of first occurrence.

    Args:
        transitions: (states, classes) int, the next states.
        outputs: (states, n) int, what distinguishes states at once.
    """
    blocks = _number_rows(outputs)
    while True:
        refined = _number_rows(np.column_stack([blocks, blocks[transitions]]))
        if refined.max() == blocks.max():
            return blocks
        blocks = refined


def _number_rows(rows: np.ndarray) -> np.ndarray:
    """Return the number of each row among the distinct rows, in order of first occurrence."""
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: np.ndarray = rank[inverse.reshape(-1)]
    return numbers
