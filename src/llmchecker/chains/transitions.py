"""The transitions of a Markov chain, or of a decision process whose states have several choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and values of entries of a transition matrix."""

UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounded float64 operation."""


@dataclass(frozen=True)
class Transitions:
    """A matrix with n states and a row for each choice. A state of a Markov chain has one choice.

    Attributes:
        groups: (n,) int64, the first row of each state.
        rows, columns, values: the entries of the matrix, by row and column; no row is empty.
    """

    groups: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def first(self) -> np.ndarray:
        """(n + 1,) int64: the first entry of each state, followed by the number of all entries."""
        return np.append(np.searchsorted(self.rows, self.groups), len(self.rows))

    @cached_property
    def choices(self) -> np.ndarray:
        """(n,) int64: the number of choices in each state."""
        return np.diff(np.append(self.groups, self.rows[-1] + 1))

    @cached_property
    def absorbing(self) -> np.ndarray:
        """(n,) bool: the states that only lead to themselves."""
        alone = np.diff(self.first) == 1
        return alone & (self.columns[self.first[:-1]] == np.arange(len(self)))


def merged(parts: Sequence[Entries]) -> Entries:
    """All entries sorted by row and column; entries with the same row and column are added up."""
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0)))
    return rows[first], columns[first], np.add.reduceat(values[order], first)


def consecutive(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """For each i in turn the numbers from first[i] to first[i] + count[i] - 1."""
    behind = np.cumsum(count)
    return np.repeat(first - (behind - count), count) + np.arange(count.sum())


def relative_error(parent: np.ndarray, probability: np.ndarray, depth: int) -> float:
    """The largest relative error of a probability that is computed in float64 on a tree.

    The probability of a path formula is a sum of products of transitions. No term is negative, and
    nothing is ever subtracted. Each step down the tree multiplies, and adds at most as many terms
    as a state has children, in any order. So a step errs by at most that many unit roundoffs of its
    result (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), and the
    errors of the steps add up.

    The children of a state may also fail to add up to 1. Equivalent ways to write a sum then differ
    by that much, so it is added to the error of a step. Finally the error is doubled: a bound that
    is moved outwards by it lies beyond every value that is computed from the same tree.

    Args:
        parent: (n - 1,) the parent of each state but the root.
        probability: (n - 1,) of each of these states, given its parent.
        depth: the number of steps.
    """
    if not len(parent):
        return 0.0
    children = np.bincount(parent)
    defect = np.abs(np.bincount(parent, weights=probability) - 1)[children > 0].max()
    most = int(children.max())
    # a few operations more than terms, since Storm divides by what is left of a loop, here by 1
    step = (2 * most + 4) * UNIT_ROUNDOFF + float(defect)
    return 2 * (depth + 1) * step
