"""Transducers of patterns: the subset construction of their automata."""

from collections.abc import Hashable, Sequence
from itertools import takewhile

import numpy as np

from llmchecker.properties.transducers.alphabet import AlphabetPartition
from llmchecker.properties.transducers.automaton import (
    AutomatonTransducer,
    explore_states,
    find_reaching,
    minimize_states,
)
from llmchecker.properties.transducers.matchers import MatchCounter, Matcher, SingleMatcher
from llmchecker.properties.transducers.pattern_nodes import PatternNodes
from llmchecker.properties.transducers.patterns import (
    Alternatives,
    Anchor,
    Atom,
    LastLineEnd,
    Lookahead,
    Repeat,
    Syntax,
    UnsupportedPattern,
    has_part,
    is_nullable,
    iter_parts,
    parse_pattern,
)
from llmchecker.properties.transducers.patterns import Sequence as SequenceOf

_MAX_STATES = 2_000
"""Maximum states of a deterministic automaton; more take seconds to build."""
_MAX_TRANSITIONS = 50_000
_PLAIN_PARTS = (Atom, SequenceOf, Alternatives)


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


def build_automaton(
    syntax: Syntax, mode: str, reads_start: bool, empty_score: int
) -> AutomatonTransducer | ConjunctionTransducer:
    """Build the transducer of a pattern's matches.

    Args:
        mode: `found`, `whole`, `possible` or `count`.
        reads_start: whether the start string is read too.
        empty_score: score of the empty text by the package `regex`; for `possible` that of `whole`.

    Raises:
        UnsupportedPattern: the automaton is too large, or cannot compute the mode exactly.
    """
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
    return _build_single(syntax, mode, reads_start, empty_score)


def has_exact_partial_matches(pattern: str) -> bool:
    """Return whether exactly the possible texts are partial matches of the package `regex`.

    A partial match takes for granted that every set has a character, and decides a condition on a
    position, such as `\\b`, as if the text ended there. It misses texts of lazy repetitions.
    """
    try:
        parts = tuple(iter_parts(parse_pattern(pattern)))
    except (UnsupportedPattern, RecursionError):
        return False
    atoms = [part for part in parts if isinstance(part, Atom)]
    partition = AlphabetPartition(atoms)
    return all(map(partition.find_members, atoms)) and all(
        not part.is_lazy if isinstance(part, Repeat) else isinstance(part, _PLAIN_PARTS)
        for part in parts
    )


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


def _build_single(
    syntax: Syntax, mode: str, reads_start: bool, empty_score: int | None = None
) -> AutomatonTransducer:
    nodes = PatternNodes(syntax)
    matcher: Matcher = MatchCounter(nodes) if mode == "count" else SingleMatcher(nodes, mode)
    count_rows: list[list[int]] = []

    def read_classes(state: Hashable) -> list[Hashable]:
        row = [matcher.advance(state, symbol) for symbol in range(nodes.partition.size)]
        count_rows.append([count for _, count in row])
        return [following for following, _ in row]

    states, transitions = explore_states(
        [matcher.start], read_classes, _MAX_STATES, _MAX_TRANSITIONS
    )
    counts, scores = np.array(count_rows), np.array([matcher.score(state) for state in states])
    # versions of the package differ on \B in an empty text
    if empty_score is not None and scores[0] != empty_score:
        raise UnsupportedPattern("a condition on the empty text")
    if mode == "possible":
        scores = find_reaching(transitions, scores == 1).astype(np.int64)
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
