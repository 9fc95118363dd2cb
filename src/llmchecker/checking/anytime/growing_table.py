"""A table of columns whose last axis grows."""

import numpy as np

_MIN_CAPACITY = 1024


class GrowingTable:
    """Columns of equal length that rows are appended to.

    The capacity doubles when it is exhausted, so that n appended rows cost O(n) copies.

    Attributes:
        columns: each column by its name: an array whose last axis has one entry for each row. A
            view, which `append` replaces.
    """

    def __init__(self) -> None:
        self.columns: dict[str, np.ndarray] = {}
        self._buffers: dict[str, np.ndarray] = {}
        self._size = 0

    def append(self, **columns: np.ndarray) -> None:
        """Append rows; every call has the same columns."""
        size = self._size + next(iter(columns.values())).shape[-1]
        for name, column in columns.items():
            buffer = self._buffers.get(name)
            if buffer is None or buffer.shape[-1] < size:
                capacity = max(_MIN_CAPACITY, 2 * size)
                grown = np.empty((*column.shape[:-1], capacity), dtype=column.dtype)
                if buffer is not None:
                    grown[..., : self._size] = buffer[..., : self._size]
                self._buffers[name] = buffer = grown
            buffer[..., self._size : size] = column
            self.columns[name] = buffer[..., :size]
        self._size = size
