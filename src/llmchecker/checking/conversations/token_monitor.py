"""Formulas about turns, read token by token."""

from collections.abc import Mapping

import numpy as np

from llmchecker.checking.conversations.turn_query import TurnMonitor
from llmchecker.processes.process import Process
from llmchecker.properties.logic.ast import STEP, Atom
from llmchecker.utils.row_groups import find_distinct


class TokenMonitor:
    """A monitor of a formula about turns, read token by token.

    An obligation moves on by a turn where an answer is whole. A letter is that of the answer, with
    its turn and whether it is whole.

    Attributes:
        length: the largest number of tokens of a conversation.
        initial_obligation: the obligation before the first turn.

    Args:
        turns: the monitor of the turns.
        process: the process of the conversation.
    """

    def __init__(self, turns: TurnMonitor, process: Process) -> None:
        self._turns, self._process = turns, process
        self.length, self.initial_obligation = process.length, turns.initial_obligation
        self._numbers: dict[tuple[int, int, bool], int] = {}
        self._letters: list[tuple[int, int, bool]] = []

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The comparisons of the formula."""
        return self._turns.atoms

    @property
    def is_limited(self) -> bool:
        """Whether a limit left a conversation undecided that may be decided."""
        return self._turns.is_limited

    def compute_letters(
        self,
        columns: Mapping[str, np.ndarray],
        has_ended: np.ndarray,
        limits: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return (n,) int64: the letters of texts of one step, as `Monitor.compute_letters`."""
        if len(has_ended) == 0:
            return np.zeros(0, dtype=np.int64)
        step = int(columns[STEP][0])
        stage = self._process.find_stage(step)
        letters = self._turns.compute_letters(stage.turn, columns, has_ended, limits)
        distinct, inverse = find_distinct(np.stack([letters, stage.find_whole(step, has_ended)]))
        numbers = [
            self._number((letter, stage.turn, bool(is_whole)))
            for letter, is_whole in distinct.tolist()
        ]
        found: np.ndarray = np.array(numbers, dtype=np.int64)[inverse]
        return found

    def _number(self, letter: tuple[int, int, bool]) -> int:
        if letter not in self._numbers:
            self._numbers[letter] = len(self._letters)
            self._letters.append(letter)
        return self._numbers[letter]

    def progress(self, obligation: int, letter: int) -> int:
        """Return the obligation after a text, which changes only where its answer is whole."""
        of_answer, _, is_whole = self._letters[letter]
        return self._turns.progress(obligation, of_answer) if is_whole else obligation

    def holds_under_stutter(self, obligation: int, letter: int) -> bool:
        """Return whether the formula holds if the conversation ends here."""
        return self._turns.holds_at_end(obligation, self._letters[letter][0])

    def decide(self, obligation: int, step: int, letter: int) -> bool | None:
        """Return the truth of a decided text, or None, as `Monitor.decide`."""
        of_answer, turn, is_whole = self._letters[letter]
        if is_whole:
            return self._turns.decide_turn(obligation, turn)
        return self._turns.decide_beginning(obligation, turn, of_answer)
