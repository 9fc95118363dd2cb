"""Groups of equal rows, so that each distinct row is computed only once."""

import numpy as np


def find_distinct(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct columns as rows, and the number of the row of each column.

    Few texts of a level of thousands differ, so a caller computes each result only once.

    Args:
        columns: (k, n) integers.

    Returns:
        (m, k) the distinct columns, and (n,) int64.
    """
    n = columns.shape[1]
    if n == 0:
        return np.empty((0, len(columns)), dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    is_new = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    inverse = np.empty(n, dtype=np.int64)
    inverse[order] = np.cumsum(is_new) - 1
    return ordered[:, is_new].T, inverse


def count_within(groups: np.ndarray) -> np.ndarray:
    """Return (n,) int64: the number of earlier entries with the same value."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    numbers = np.empty(len(groups), dtype=np.int64)
    numbers[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers
