"""Minimal deterministic automata, and their transducers.

Partition refinement (Moore 1956) makes an automaton minimal, so that states with equal futures are
equal. The effect of a piece of text is the function that the piece induces on all states, so that
pieces of equal action are equal.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from llmchecker.properties.transducers.patterns import UnsupportedPattern


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
        return self.read_text(start) if self._reads_start else (0, 0)

    def read_text(self, text: str) -> tuple[int, int]:
        """Return the state and the count after a text."""
        state, count = 0, 0
        for symbol in map(ord, text.translate(self._symbols)):
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


class _Symbols(dict[int, int]):
    """Classes of characters by code point, computed on first use."""

    def __init__(self, find_class: Callable[[int], int]) -> None:
        super().__init__()
        self._find_class = find_class

    def __missing__(self, character: int) -> int:
        self[character] = self._find_class(character)
        return self[character]


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


def find_reaching(transitions: np.ndarray, is_final: np.ndarray) -> np.ndarray:
    """Return (states,) bool: whether some text leads from a state to a final state.

    Args:
        transitions: (states, classes) int, the next states.
        is_final: (states,) bool, whether a state is final.
    """
    while True:
        reaching: np.ndarray = is_final | is_final[transitions].any(axis=1)
        if (reaching == is_final).all():
            return reaching
        is_final = reaching


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
