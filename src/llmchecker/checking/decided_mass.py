"""Decided mass: the probability of the texts that decide a path formula.

A text decides a formula if every continuation gives the formula the same truth. No text that
decides it first is the beginning of another one. So their probabilities add up to D, the mass
that is decided true, and V, the mass that is decided false. The rest of the probability is U. The
probability of the formula for the whole model is at least D and at most D + U.

An interval of D, V and U has limits above the rounding errors of the sums. `tree_sums` answers
queries from them, for trees that were grown level by level and for explored trees.
"""

import math
from dataclasses import dataclass

import numpy as np

from llmchecker.properties.logic.monitor import PathMonitor
from llmchecker.utils.interval import Interval
from llmchecker.utils.row_groups import find_distinct

UNDECIDED = -1
"""The truth of a formula on a text that does not decide it."""
_DIVISION_ERROR = 4 * 2.0**-53
"""A limit above the relative error of a sum, a quotient and a product."""


@dataclass(frozen=True)
class Mass:
    """A sum of probabilities, with limits above its rounding error.

    Attributes:
        value: the computed sum.
        relative_error: a limit above the error that grows with the sum.
        absolute_error: a limit above the error that does not; above 0 where a positive sum may be
            computed as 0.
    """

    value: float
    relative_error: float
    absolute_error: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether the sum has no term, so that 0 is exact."""
        return self.value == 0 and self.absolute_error == 0

    @property
    def low(self) -> float:
        """A number from 0 on that the exact sum reaches."""
        return max(0.0, self.value / (1 + self.relative_error) - self.absolute_error)

    @property
    def high(self) -> float:
        """A number that the exact sum does not exceed."""
        return self.value * (1 + self.relative_error) + self.absolute_error

    def __add__(self, other: "Mass") -> "Mass":
        """Return the sum of two sums."""
        return Mass(
            self.value + other.value,
            max(self.relative_error, other.relative_error),
            self.absolute_error + other.absolute_error,
        )


@dataclass(frozen=True)
class DecidedMass:
    """The decided and the undecided mass of a path formula on a tree.

    Attributes:
        satisfied, violated, undecided: D, V and U.
        total_error: a limit above the difference of their sum and 1, besides rounding. The
            probabilities of a tree may be rounded decimals.
    """

    satisfied: Mass
    violated: Mass
    undecided: Mass
    total_error: float = 0.0

    @property
    def least(self) -> Interval:
        """The interval of D, the least probability of the formula."""
        return self._bound_share(self.satisfied, self.violated + self.undecided)

    @property
    def greatest(self) -> Interval:
        """The interval of D + U, the greatest probability of the formula."""
        return self._bound_share(self.satisfied + self.undecided, self.violated)

    @property
    def interval(self) -> Interval:
        """The certain bounds of the formula's probability, rounded outwards."""
        return Interval(self.least.lower, self.greatest.upper)

    def _bound_share(self, share: Mass, others: Mass) -> Interval:
        """Bound one of two sums that add up to 1."""
        # without terms of one kind the graph shows 0 or 1
        if share.is_empty:
            return Interval(0.0, 0.0)
        if others.is_empty:
            return Interval(1.0, 1.0)
        # near 1 the other sum has more correct digits, which the difference rounds
        low = math.nextafter(1 - others.high - self.total_error, -math.inf)
        high = math.nextafter(1 - others.low + self.total_error, math.inf)
        low, high = max(share.low, low), min(share.high, high, 1.0)
        return Interval(low, max(low, high))


def bound_quotient(part: Interval, other: Interval) -> Interval:
    """Bound a / (a + b) for two probabilities a and b with bounds.

    The quotient rises with a and falls with b, so that the ends of a and b bound it.

    Args:
        part: the bounds of a.
        other: the bounds of b; one of both upper ends is above 0.
    """
    # ends of 0 are exact, so the quotient is then exactly 0 or 1
    low = (
        1.0 if other.upper == 0 else part.lower / (part.lower + other.upper) * (1 - _DIVISION_ERROR)
    )
    high = (
        0.0
        if part.upper == 0
        else min(part.upper / (part.upper + other.lower) * (1 + _DIVISION_ERROR), 1.0)
    )
    return Interval(low, high)


def decide_texts(
    monitor: PathMonitor,
    step: int,
    obligations: np.ndarray,
    letters: np.ndarray,
    is_terminal: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Progress a formula by the step of n texts.

    Args:
        monitor: the monitor of the formula.
        step: number of tokens of the texts.
        obligations: (n,) int64, before this step.
        letters: (n,) int64, the letters of the monitor.
        is_terminal: (n,) bool, whether a text never changes.

    Returns:
        (n,) int8, the truth; (n,) int64, the obligations after the step; and (n,) int8, the truth
        if the last letters repeat.
    """
    situations, number = find_distinct(np.stack([obligations, letters, is_terminal.astype(int)]))
    truth, stutter = np.zeros((2, len(situations)), dtype=np.int8)
    after = np.zeros(len(situations), dtype=np.int64)
    for index, (obligation, letter, ends) in enumerate(situations.tolist()):
        after[index] = remaining = monitor.progress(obligation, letter)
        stutter[index] = monitor.holds_under_stutter(obligation, letter)
        if ends:
            truth[index] = stutter[index]
        else:
            decision = monitor.decide(remaining, step + 1, letter)
            truth[index] = UNDECIDED if decision is None else decision
    return truth[number], after[number], stutter[number]
