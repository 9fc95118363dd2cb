"""The texts of a tree's file, decoded when they are first used."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from llmchecker.trees.sealed_parquet import SealedTable

TEXT_COLUMN = "text"


class StoredTexts:
    """(n,) texts or None, with the indices of a numpy array of objects.

    A check uses few of the texts, whose decoding takes longer than that of all other columns.

    Args:
        table: a table with a column of texts.

    Raises:
        KeyError: the table has no such column.
    """

    def __init__(self, table: SealedTable) -> None:
        self._table = table
        # the column is decoded later, so its absence must be found here
        table.file.schema_arrow.field(TEXT_COLUMN)

    def __len__(self) -> int:
        return int(self._table.file.metadata.num_rows)

    def __getitem__(self, index: Any) -> Any:
        # single texts need no objects for all others
        if isinstance(index, int | np.integer):
            return self._column[int(index)].as_py()
        return self._objects[index]

    def __iter__(self) -> Iterator[str | None]:
        return iter(self._objects)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._objects, dtype, copy=copy)

    def tolist(self) -> list[str | None]:
        """Return all texts."""
        return list(self._objects)

    @cached_property
    def _column(self) -> pa.ChunkedArray:
        return self._table.read_columns([TEXT_COLUMN])[TEXT_COLUMN]

    @cached_property
    def _objects(self) -> np.ndarray:
        objects: np.ndarray = self._column.to_numpy()
        return objects
