"""The transition matrix of a Markov chain or of a decision process."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmchecker.trees.selection import CANCELLATION_THRESHOLD

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and values of entries of a transition matrix."""

UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounded float64 operation."""


@dataclass(frozen=True)
class TransitionMatrix:
    """A sparse matrix of n states with a row for each choice.

    A state of a Markov chain has one choice.

    Attributes:
        row_groups: (n,) int64, the first row of each state.
        rows, columns, values: the entries of the matrix, by row and column; no row is empty.
    """

    row_groups: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.row_groups)

    @cached_property
    def entry_offsets(self) -> np.ndarray:
        """(n + 1,) int64: the first entry of each state, and the entry count."""
        row_ends = np.cumsum(np.bincount(self.rows))
        return np.append(np.append(0, row_ends)[self.row_groups], len(self.rows))

    @cached_property
    def choice_counts(self) -> np.ndarray:
        """(n,) int64: the number of choices in each state."""
        return np.diff(np.append(self.row_groups, self.rows[-1] + 1))

    @cached_property
    def absorbing(self) -> np.ndarray:
        """(n,) bool: the states that only lead to themselves."""
        has_one_entry = np.diff(self.entry_offsets) == 1
        absorbing: np.ndarray = has_one_entry & (
            self.columns[self.entry_offsets[:-1]] == np.arange(len(self))
        )
        return absorbing


def merge_entries(parts: Sequence[Entries]) -> Entries:
    """Sort all entries by row and column, and add up equal positions."""
    rows, columns, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    # one number for each position: one sort takes half the time of two
    width = int(columns.max()) + 1
    positions = rows * width + columns
    # a stable sort, so that equal positions are added in the given order
    order = np.argsort(positions, kind="stable")
    positions = positions[order]
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    return *np.divmod(positions[starts], width), np.add.reduceat(values[order], starts)


def group_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes in rising order, and (n,) int64: the index of each.

    Args:
        codes: (n,) int64, at least 0.
    """
    # counting needs memory for the largest code, but sorting takes many times longer
    if not len(codes) or codes.max() > 2 * len(codes):
        return np.unique(codes, return_inverse=True)
    is_used = np.bincount(codes) > 0
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[codes]


def concatenate_ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges first[i] to first[i] + count[i] - 1."""
    stops = np.cumsum(count)
    return np.repeat(first - (stops - count), count) + np.arange(count.sum())


def compute_relative_error(parent: np.ndarray, probability: np.ndarray, depth: int) -> float:
    """Compute the largest relative error of a float64 probability on a tree.

    The probability of a path formula is a sum of products of transitions. No term is negative, and
    no operation subtracts. Each step down the tree multiplies, and adds at most as many terms as a
    state has children, in any order. So a step errs by at most that many unit roundoffs of its
    result (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). The errors
    of the steps add up.

    The children of a state may also fail to add up to 1. Equivalent ways to write a sum then differ
    by that defect, so it is added to the error of a step. Finally the error is doubled: a bound
    that is moved outwards by it is beyond every value that is computed from the same tree.

    Args:
        parent: (n - 1,) the parent of each state but the root.
        probability: (n - 1,) the probability of each of these states, given its parent.
        depth: number of steps.
    """
    if not len(parent):
        # a root alone has probability 1, without an operation
        return 0.0
    children = np.bincount(parent)
    defect = np.abs(np.bincount(parent, weights=probability) - 1)[children > 0].max()
    max_children = int(children.max())
    # a few operations more than terms, since Storm divides by 1 minus the loop, here by 1
    step_error = (2 * max_children + 4) * UNIT_ROUNDOFF + float(defect)
    return 2 * (depth + 1) * step_error


def compute_rest_error(
    parent: np.ndarray, probability: np.ndarray, is_rest: np.ndarray, depth: int
) -> float:
    """Compute the largest absolute error that `rest` adds to a probability on a tree.

    The probability of `rest` is 1 minus the sum of its siblings. So it errs by a unit roundoff for
    each of them, in either direction, which is more than a relative error of a small `rest`. A
    `rest` below `CANCELLATION_THRESHOLD` is a sum itself where all tokens are known, and 1 minus a
    sum where a server lists few tokens. All `rest` states of a step together have at most the
    probability 1 of their parents. The error is doubled as the relative one.

    Args:
        parent: as in `compute_relative_error`.
        probability: as in `compute_relative_error`.
        is_rest: (n - 1,) bool, whether each of these states is `rest`.
        depth: number of steps.
    """
    if not find_differences(probability, is_rest).any():
        return 0.0
    return 2 * depth * (int(np.bincount(parent).max()) + 2) * UNIT_ROUNDOFF


def find_differences(probability: np.ndarray, is_rest: np.ndarray) -> np.ndarray:
    """Return (n,) bool: the `rest` states whose probability is 1 minus a sum.

    Args:
        probability: (n,) the probability of each state, given its parent.
        is_rest: (n,) bool.
    """
    # 1 minus a float64 from 0 to 1 is a whole number of unit roundoffs, and a small sum is not
    is_difference = (probability >= CANCELLATION_THRESHOLD) | (probability % UNIT_ROUNDOFF == 0)
    # the `rest` of a text without selected tokens is exactly 1, and without other tokens 0
    differences: np.ndarray = is_rest & (probability > 0) & (probability < 1) & is_difference
    return differences
