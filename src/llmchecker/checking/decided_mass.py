"""Decided mass: the probability of the texts that decide a path formula.

A text decides a formula if every continuation gives the formula the same truth. No text that
decides it first is the beginning of another one. So their probabilities add up to D, the mass
that is decided true, and V, the mass that is decided false. The rest of the probability is U. The
probability of the formula for the whole model is at least D and at most D + U.

This module decides texts for trees that were grown level by level and for explored trees. It also
turns D, V and U into an interval, with limits above the rounding errors of the sums.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.interval import Interval
from llmchecker.checking.markov.sparse_matrix import (
    UNIT_ROUNDOFF,
    compute_relative_error,
    find_differences,
)
from llmchecker.checking.probabilities import MIN_NORMAL
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.row_groups import find_distinct

UNDECIDED = -1
"""The truth of a formula on a text that does not decide it."""
_SATISFIED, _VIOLATED = 0, 1
"""The obligations of a formula that every path satisfies, and that every path violates."""
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
    monitor: Monitor | HorizonMonitor,
    step: int,
    obligations: np.ndarray,
    letters: np.ndarray,
    is_terminal: np.ndarray,
    *,
    looks_ahead: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Progress a formula by the step of n texts.

    Args:
        monitor: the monitor of the formula.
        step: number of tokens of the texts.
        obligations: (n,) int64, before this step.
        letters: (n,) int64, the letters of the monitor.
        is_terminal: (n,) bool, whether a text never changes.
        looks_ahead: whether a text is decided by what its continuations can be, and not only by an
            obligation that is satisfied or violated.

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
        elif looks_ahead:
            decision = monitor.decide(remaining, step + 1, letter)
            truth[index] = UNDECIDED if decision is None else decision
        elif remaining in (_SATISFIED, _VIOLATED):
            truth[index] = remaining == _SATISFIED
        else:
            truth[index] = UNDECIDED
    return truth[number], after[number], stutter[number]


def split_mass(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    monitor: Monitor,
    *,
    is_whole_model: bool,
) -> DecidedMass:
    """Split the mass of a tree by the truth of a path formula.

    For the whole model anything may follow in a `rest`, so that it decides nothing. In the bounded
    process a `rest` is a terminal state in which atoms over quantifiers are false, so that nothing
    is undecided.

    Args:
        tree: the texts.
        scores: (n,) integers for each quantifier of the formula; scores of `rest` are ignored.
        monitor: the monitor of the formula, with the tree's horizon.
        is_whole_model: whether the mass is that of the whole model.
    """
    letters = monitor.compute_letters({STEP: tree.step, **scores}, tree.kind == StateKind.END)
    is_rest = tree.kind == StateKind.REST
    # the step of a `rest` is known, its scores are not
    letters[is_rest] &= sum(1 << bit for bit, atom in enumerate(monitor.atoms) if atom.is_step_only)
    obligations = np.full(len(tree), monitor.initial_obligation)
    truth = np.full(len(tree), UNDECIDED, dtype=np.int8)
    is_first = np.zeros(len(tree), dtype=bool)  # no beginning of the text decides the formula
    for step, level in enumerate([slice(0, 1), *tree.levels]):
        rows = np.arange(level.start, level.stop)
        if step:
            parents = tree.parent[rows]
            # a state of probability 0 is not reachable
            is_reached = (
                is_first[parents] & (truth[parents] == UNDECIDED) & (tree.probability[rows] > 0)
            )
            rows = rows[is_reached]
            obligations[rows] = obligations[parents[is_reached]]
        is_first[rows] = True
        if is_whole_model:
            rows = rows[~is_rest[rows]]
        truth[rows], obligations[rows], _ = decide_texts(
            monitor,
            step,
            obligations[rows],
            letters[rows],
            ~tree.internal[rows],
            looks_ahead=is_whole_model,
        )
    # an undecided text has children, which have its probability
    is_term = is_first & ((truth != UNDECIDED) | ~tree.internal)
    sums = _MassSums(tree)
    satisfied, violated, undecided = (
        sums.add(is_term & (truth == value)) for value in (1, 0, UNDECIDED)
    )
    return DecidedMass(satisfied, violated, undecided, sums.relative_error)


class _MassSums:
    """Sums of probabilities of states of a tree.

    Attributes:
        relative_error: a limit above the relative error of a sum; it includes the amount by which
            the children of a state fail to add up to 1.
    """

    def __init__(self, tree: TextTree) -> None:
        self._tree = tree
        parent, probability, is_rest = (
            tree.parent[1:],
            tree.probability[1:],
            tree.kind[1:] == StateKind.REST,
        )
        self.relative_error = compute_relative_error(parent, probability, int(tree.step[-1]))
        self._is_difference = np.append(False, find_differences(probability, is_rest))
        # a `rest` is 1 minus a sum, so it errs by a unit roundoff for each of its siblings; doubled
        # as the relative error
        children = int(np.bincount(parent).max()) if len(parent) else 0
        self._rest_error = 2 * (children + 2) * UNIT_ROUNDOFF

    def add(self, states: np.ndarray) -> Mass:
        """Add up the probabilities of the states of a mask."""
        rows = np.flatnonzero(states)
        if len(rows) == 0:
            return Mass(0.0, self.relative_error)
        probability = self._tree.path_probability
        parents = self._tree.parent[rows[self._is_difference[rows]]]
        rest_mass = math.fsum(probability[parents].tolist())
        return Mass(
            math.fsum(probability[rows].tolist()),
            self.relative_error,
            # a small product may be computed as 0
            MIN_NORMAL + self._rest_error * rest_mass,
        )
