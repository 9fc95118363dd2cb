"""The transition matrix of a Markov chain or of a decision process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and values of entries of a transition matrix."""


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


def group_truths(truths: Iterable[np.ndarray], codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group states whose codes and truths are equal.

    Args:
        truths: (n,) bool each.
        codes: (n,) int64, at least 0.

    Returns:
        A state of each group, in rising order of codes and truths, and (n,) int64: the group of
        each state.
    """
    distinct, groups = group_codes(codes)
    for truth in truths:
        # renumbered each time, so that numbers stay below 2 n
        distinct, groups = group_codes(2 * groups + truth)
    # any state of a group represents it
    representatives = np.empty(len(distinct), dtype=np.int64)
    representatives[groups] = np.arange(len(codes))
    return representatives, groups


def concatenate_ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges first[i] to first[i] + count[i] - 1."""
    stops = np.cumsum(count)
    return np.repeat(first - (stops - count), count) + np.arange(count.sum())
