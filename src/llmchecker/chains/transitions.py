"""Transitions of a process: a Markov chain, or a decision process with several choices a state."""

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
    """A matrix of n states and r rows, one row a choice; a Markov chain has one choice a state.

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
        """(n + 1,) int64: the first entry of each state, and their number behind."""
        return np.append(np.searchsorted(self.rows, self.groups), len(self.rows))

    @cached_property
    def choices(self) -> np.ndarray:
        """(n,) int64: how many rows a state has."""
        return np.diff(np.append(self.groups, self.rows[-1] + 1))

    @cached_property
    def absorbing(self) -> np.ndarray:
        """(n,) bool: the states that only lead to themselves."""
        alone = np.diff(self.first) == 1
        return alone & (self.columns[self.first[:-1]] == np.arange(len(self)))


def merged(parts: Sequence[Entries]) -> Entries:
    """All entries by row and column, those with the same row and column as their sum."""
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0)))
    return rows[first], columns[first], np.add.reduceat(values[order], first)


def consecutive(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """For one i after another, count[i] numbers: first[i], first[i] + 1 and so on."""
    behind = np.cumsum(count)
    return np.repeat(first - (behind - count), count) + np.arange(count.sum())


def relative_error(parent: np.ndarray, probability: np.ndarray, depth: int) -> float:
    """By what part of itself a probability computed in float64 on a tree may be wrong, at most.

    A probability of a path formula is a sum of products of transitions, none of them negative, and
    nothing is ever subtracted. Each step down the tree multiplies, and adds at most as many terms
    as a state has children, in whatever order; so it errs by at most that many unit roundoffs of
    its result (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), and
    the steps add up. To this comes by how much the children of a state fail to add up to 1, since
    then it matters in which of its forms a sum is computed. The whole is doubled, so that a bound
    that is moved outwards by it lies beyond every value that is computed from the same tree.

    Args:
        parent, probability: (n - 1,) of each state but the root.
        depth: the number of steps.
    """
    if not len(parent):
        return 0.0
    children = np.bincount(parent)
    defect = np.abs(np.bincount(parent, weights=probability) - 1)[children > 0].max()
    most = int(children.max())
    # a few operations more than terms: Storm divides by what is left of a loop, here by 1
    step = (2 * most + 4) * UNIT_ROUNDOFF + float(defect)
    return 2 * (depth + 1) * step
