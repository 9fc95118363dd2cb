"""Deterministic readers of a pattern, one class of characters at a time.

Counts of matches need priorities: a simulation of ordered threads (Pike; Cox 2009) finds leftmost
matches, and keeps the search that begins after the match found so far, for the case that no thread
of a higher priority matches.
"""

from collections.abc import Hashable
from typing import Any, Protocol

from llmchecker.properties.transducers.pattern_nodes import (
    EDGE,
    MATCHED,
    NO_OBLIGATIONS,
    PatternNodes,
    Threads,
)


class Matcher(Protocol):
    """Protocol of a deterministic reader of classes of characters.

    Attributes:
        start: its first state.
    """

    @property
    def start(self) -> Hashable: ...

    # each reader has states of its own type
    def advance(self, state: Any, after: int) -> tuple[Hashable, int]: ...

    def score(self, state: Any) -> int: ...


_MatchState = tuple[Threads, int] | None
"""Threads and the class before them; None once a match is found."""


class SingleMatcher:
    """Reader that finds whether a pattern matches anywhere (`found`), or the whole text."""

    def __init__(self, nodes: PatternNodes, mode: str) -> None:
        self._nodes = nodes
        self._mode = mode
        self._first = frozenset({(nodes.start, NO_OBLIGATIONS)})
        self.start: _MatchState = (self._first, nodes.representatives[EDGE])

    def advance(self, state: _MatchState, after: int) -> tuple[_MatchState, int]:
        if state is None:
            return None, 0
        threads, is_accepted = self._nodes.advance(*state, after)
        if self._mode == "found":
            if is_accepted:
                return None, 0
            # a match may begin at each position
            threads |= self._first
        else:
            # a match must end at the end
            threads = frozenset(thread for thread in threads if thread[0] != MATCHED)
        # without threads the character before does not matter
        before = self._nodes.representatives[after if threads else EDGE]
        return (threads, before), 0

    def score(self, state: _MatchState) -> int:
        if state is None:
            return 1
        return int(self._nodes.advance(*state, EDGE)[1])


_Level = tuple[tuple[int, ...], int]
"""Nodes of a search in order of preference, and the matches so far if all of its nodes fail."""
_CountState = tuple[tuple[_Level, ...], int]


class MatchCounter:
    """Reader that counts matches without overlap, of a pattern that matches no empty text.

    A state has several searches. The last one has not found a match yet. Each other one has found
    a match, and its threads could still find a preferable one. The next search is the one after the
    match found.
    """

    def __init__(self, nodes: PatternNodes) -> None:
        self._nodes = nodes
        self.start: _CountState = ((((), 0),), nodes.representatives[EDGE])

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
            for target, _ in self._nodes.follow(node, before, after):
                # what follows is less preferable
                if target == MATCHED:
                    return tuple(next_nodes), True
                if target not in visited:
                    visited.add(target)
                    next_nodes.append(target)
        return tuple(next_nodes), False

    def score(self, state: _CountState) -> int:
        return self.advance(state, EDGE)[1]
