"""Acceleration of loops in a run: when to skip identical iterations, and how many.

A counter may need 4,000,000,000 iterations to wrap around. Where the iterations of a run are
identical, the run skips as many as its conditions allow, or fewer.
"""

import random
from collections.abc import Callable

from loop_invariants.interpreter.evaluator import ConcreteState
from loop_invariants.interpreter.iteration_solver import MAX_ROUNDS, count_identical_iterations
from loop_invariants.ir.expressions import Semantics, Type
from loop_invariants.ir.statements import Loop, Program

_PERIODS = (1, 2, 3, 4, 6)
"""Numbers of consecutive iterations that may repeat together."""

_MAX_TRIES = 40
"""Maximum number of acceleration attempts in a run."""

_MIN_ROUNDS = 8
"""Minimum number of iterations to skip; fewer are executed one by one."""

_FULL_SKIP_SHARE = 0.5
"""Probability that a run skips all identical iterations.

The path changes after them, but a violation may also be shortly before or anywhere between.
"""


class LoopAccelerator:
    """An accelerator for the loops of one run.

    Args:
        program: the program.
        semantics: semantics of its integers.
        rng: selects the number of skipped iterations; equal sources give equal runs.
        draw: returns the nondeterministic values of the run.

    Attributes:
        on_skip: called at each skip with the loop, the number of iterations in the repeated period,
            and the number of repetitions.
        skip_count: number of skips in the run.
        try_count: number of acceleration attempts in the run.
    """

    on_skip: Callable[[Loop, int, int], None]

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        rng: random.Random,
        draw: Callable[[Type, str], int],
    ) -> None:
        self._program = program
        self._semantics = semantics
        self._rng = rng
        self._draw = draw
        self._drawn_values: list[int] = []
        self._draw_counts: dict[int, list[int]] = {}  # number of draws at each loop head
        self.skip_count = 0
        self.try_count = 0
        self.on_skip = lambda loop, period, times: None

    def draw(self, type_: Type, name: str) -> int:
        """Draw and record the next value; the machine's `draw`."""
        value = self._draw(type_, name)
        self._drawn_values.append(value)
        return value

    def skip_iterations(self, loop: Loop, iteration: int, state: ConcreteState) -> int:
        """Skip identical iterations of a loop, for a machine.

        Returns:
            The number of skipped iterations; 0 for an unchanged state.
        """
        draw_counts = self._draw_counts.setdefault(loop.number, [])
        # The loop is entered anew, so earlier iterations have another state.
        if iteration == 0:
            draw_counts.clear()
        draw_counts.append(len(self._drawn_values))
        for period in _PERIODS:
            if period >= len(draw_counts) or self.try_count == _MAX_TRIES:
                return 0
            self.try_count += 1
            # The skipped iterations draw the values of the last ones again.
            draws = self._drawn_values[draw_counts[-1 - period] :]
            rounds = count_identical_iterations(
                self._program, self._semantics, loop, state, draws, period
            )
            if rounds.max_count * period < _MIN_ROUNDS:
                continue
            times = self._choose_repetitions(rounds.max_count)
            state.update(rounds.compute_values(times))
            # The recorded heads are before the skip, so no later period may include them.
            del draw_counts[:-1]
            self.skip_count += 1
            self.on_skip(loop, period, times)
            return times * period
        return 0

    def _choose_repetitions(self, max_count: int) -> int:
        """Choose the number of repetitions: all, almost all, or a random number."""
        # No condition of the loop limits the number of repetitions.
        if max_count >= MAX_ROUNDS:
            is_wide = self._rng.random() < _FULL_SKIP_SHARE
            return 1 + self._rng.getrandbits(32 if is_wide else self._rng.randint(1, 33))
        if self._rng.random() < _FULL_SKIP_SHARE:
            return max_count
        number = self._rng.getrandbits(self._rng.randint(1, max_count.bit_length()))
        return (
            max(1, max_count - number)
            if self._rng.random() < _FULL_SKIP_SHARE
            else 1 + number % max_count
        )
