"""Groups of equal rows, so that each distinct row is computed only once."""

import numpy as np


def group_rows(*columns: np.ndarray) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Return the positions of each distinct row, and the row itself.

    Few rows differ on a level of thousands of texts, so a caller computes each result only once.

    Args:
        columns: (n,) integers or truth values each.
    """
    if len(columns[0]) == 0:
        return []
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = np.unique(column)
        code = code * len(values) + np.searchsorted(values, column)
        # renumbered each time, so that the product of the columns cannot overflow
        _, code = np.unique(code, return_inverse=True)
    counts = np.bincount(code)
    # numpy sorts 16-bit numbers by radix, which takes a tenth of the time
    sort_keys = code.astype(np.uint16) if len(counts) <= 2**16 else code
    order = np.argsort(sort_keys, kind="stable")
    groups = np.split(order, np.cumsum(counts)[:-1])
    rows = zip(
        *(column[[group[0] for group in groups]].tolist() for column in columns), strict=True
    )
    return list(zip(groups, rows, strict=True))
