"""Decided mass: the probability of the texts that decide a path formula.

A text decides a formula if every continuation gives the formula the same truth. No text that
decides it first is the beginning of another one. So their probabilities add up to D, the mass
that is decided true, and V, the mass that is decided false. The rest of the probability is U. The
probability of the formula for the whole model is at least D and at most D + U.

This module decides texts for trees that were grown level by level and for explored trees. It also
turns D, V and U into an interval, with limits above the rounding errors of the sums. `PathSums`
answers queries from them, for both kinds of trees.
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
REST_VARIABLE = '"rest"'
"""The name of a variable that is 1 in `rest` and else 0; no quantifier can have it."""
_KNOWN_IN_REST = frozenset({STEP, REST_VARIABLE})
"""The variables whose values are known in `rest`."""
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


def decide_tree(
    tree: TextTree,
    columns: Mapping[str, np.ndarray],
    monitor: Monitor,
    *,
    is_whole_model: bool,
) -> np.ndarray:
    """Decide a path formula on every state of a tree that was grown level by level.

    For the whole model anything may follow in a `rest`, so that it decides nothing. In the bounded
    process a `rest` is a terminal state in which atoms over quantifiers are false.

    Args:
        tree: the texts.
        columns: (n,) integers for each variable of the formula; those of quantifiers are ignored in
            `rest`.
        monitor: the monitor of the formula, with the tree's horizon.
        is_whole_model: whether to decide for the whole model.

    Returns:
        (n,) int8: 0, 1 or `UNDECIDED`. A leaf repeats for ever, so that every leaf is decided but
        for a `rest` of the whole model.

    Raises:
        CheckFailed: the formula has too many obligations.
    """
    is_rest, is_terminal = tree.kind == StateKind.REST, ~tree.internal
    letters = monitor.compute_letters({STEP: tree.step, **columns}, tree.kind == StateKind.END)
    # in `rest` the scores are unknown, and no score is final
    letters[is_rest] &= sum(
        1 << bit for bit, atom in enumerate(monitor.atoms) if atom.variables <= _KNOWN_IN_REST
    )
    obligations = np.full(len(tree), monitor.initial_obligation)
    truth = np.full(len(tree), UNDECIDED, dtype=np.int8)
    for step, level in enumerate([slice(0, 1), *tree.levels]):
        if step:
            # still the obligations after the parents' own step
            obligations[level] = obligations[tree.parent[level]]
        truth[level], obligations[level], _ = decide_texts(
            monitor, step, obligations[level], letters[level], is_terminal[level]
        )
    if is_whole_model:
        truth[is_rest] = UNDECIDED
    else:
        _withdraw_refuted_decisions(tree, truth)
    return truth


def find_first_states(tree: TextTree, truth: np.ndarray) -> np.ndarray:
    """Return (n,) bool: the reachable states that no decided state precedes.

    Args:
        tree: the texts.
        truth: (n,) the truth of the states; see `decide_tree`.
    """
    # a state of probability 0 is not reachable
    is_first = tree.probability > 0
    for level in tree.levels:
        parents = tree.parent[level]
        is_first[level] &= is_first[parents] & (truth[parents] == UNDECIDED)
    return is_first


def _withdraw_refuted_decisions(tree: TextTree, truth: np.ndarray) -> None:
    """Withdraw the decisions that a `rest` of the bounded process refutes.

    In `rest` both `gender > 0` and `gender <= 0` are false, which no text of the model allows.
    """
    for value in (0, 1):
        has_value = ~tree.internal & (truth == value)
        for level in reversed(tree.levels):
            is_reached = has_value[level] & (tree.probability[level] > 0)
            has_value[tree.parent[level][is_reached]] = True
        truth[tree.internal & has_value & (truth == 1 - value)] = UNDECIDED


def split_mass(
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    monitor: Monitor,
    *,
    is_whole_model: bool,
) -> DecidedMass:
    """Split the mass of a tree by the truth of a path formula.

    Args:
        tree, scores, monitor, is_whole_model: as in `decide_tree`.
    """
    return sum_masses(tree, decide_tree(tree, scores, monitor, is_whole_model=is_whole_model))


def sum_masses(tree: TextTree, truth: np.ndarray) -> DecidedMass:
    """Add up the masses of the first states that decide a path formula, or never do.

    Args:
        tree: the texts.
        truth: (n,) the truth of the states; see `decide_tree`.
    """
    # an undecided text has children, which have its probability
    is_term = find_first_states(tree, truth) & ((truth != UNDECIDED) | ~tree.internal)
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
