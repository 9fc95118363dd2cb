"""Runs that pass over many rounds of a loop at once, to be as long as those of a machine.

A loop may need 4,000,000,000 rounds until a counter wraps around. Where the rounds of a run are
alike, the run goes on behind as many of them as its conditions allow, or behind some of these.
"""

import random
from collections.abc import Callable

from llmchecker.programs.acceleration import MOST_ROUNDS, alike
from llmchecker.programs.evaluation import ConcreteState
from llmchecker.programs.expressions import Semantics, Type
from llmchecker.programs.statements import Loop, Program

_PERIODS = (1, 2, 3, 4, 6)
"""So many rounds together may be like those after them."""

_MOST_TRIES = 40
"""The most times that a run is asked for rounds that are alike."""

_FEWEST = 8
"""Fewer rounds are run one by one."""

_ALL = 0.5
"""How often a run passes over all the rounds that are alike.

After them something else happens; but what is wrong may be so just before, or anywhere.
"""


class Leaper:
    """Passes over rounds in one run of a program.

    Args:
        program: the program.
        semantics: what its integers are.
        source: decides over how many rounds to pass; equal sources give equal runs.
        draw: gives the values that the run draws.

    Attributes:
        passed: is told of each leap: the loop, how many rounds the run had made that were then
            repeated, and how often they were.
        leaps: how many leaps the run has made.
        tries: how often it asked whether rounds are alike.
    """

    passed: Callable[[Loop, int, int], None]

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        source: random.Random,
        draw: Callable[[Type, str], int],
    ) -> None:
        self._program = program
        self._semantics = semantics
        self._source = source
        self._draw = draw
        self._drawn: list[int] = []
        self._heads: dict[int, list[int]] = {}  # how much was drawn at each head of a loop
        self.leaps = 0
        self.tries = 0
        self.passed = lambda loop, period, times: None

    def value(self, type_: Type, name: str) -> int:
        """The next value that the run draws; to be given to the machine."""
        value = self._draw(type_, name)
        self._drawn.append(value)
        return value

    def leap(self, loop: Loop, iteration: int, state: ConcreteState) -> int:
        """Pass over rounds of a loop; to be given to the machine.

        Returns:
            How many rounds; 0 if the state was left as it is.
        """
        heads = self._heads.setdefault(loop.number, [])
        if iteration == 0:
            heads.clear()
        heads.append(len(self._drawn))
        for period in _PERIODS:
            if period >= len(heads) or self.tries == _MOST_TRIES:
                return 0
            self.tries += 1
            # What the last rounds drew, the next ones draw again.
            draws = self._drawn[heads[-1 - period] :]
            rounds = alike(self._program, self._semantics, loop, state, draws, period)
            if rounds.most * period < _FEWEST:
                continue
            times = self._times(rounds.most)
            state.update(rounds.after(times))
            del heads[:-1]
            self.leaps += 1
            self.passed(loop, period, times)
            return times * period
        return 0

    def _times(self, most: int) -> int:
        """How often to repeat rounds: all times, all but a few, or any number."""
        if most >= MOST_ROUNDS:
            wide = self._source.random() < _ALL
            return 1 + self._source.getrandbits(32 if wide else self._source.randint(1, 33))
        if self._source.random() < _ALL:
            return most
        fewer = self._source.getrandbits(self._source.randint(1, most.bit_length()))
        return max(1, most - fewer) if self._source.random() < _ALL else 1 + fewer % most
