"""The scores of a tree's texts as a file: one integer a state, and none for `rest`."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmchecker.errors import InvalidTree
from llmchecker.files import written_whole
from llmchecker.quantifiers import REST_FILLER
from llmchecker.text_tree import Kind, TextTree


def write(scores: np.ndarray, tree: TextTree, path: str | Path) -> None:
    """Write the columns uid and score, with no score where the state is `rest`."""
    unknown = tree.kind == Kind.REST
    table = pa.table(
        {
            "uid": pa.array(np.arange(len(tree)), pa.int64()),
            "score": pa.array(scores, pa.int64(), mask=unknown),
        }
    )
    with written_whole(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def read(tree: TextTree, path: str | Path) -> np.ndarray:
    """Read the scores of a tree: (n,) int64, `REST_FILLER` for `rest`.

    Raises:
        InvalidTree: the file is about another tree.
    """
    column = pq.read_table(path)["score"].combine_chunks()
    unknown = column.is_null().to_numpy(zero_copy_only=False)
    if not np.array_equal(unknown, tree.kind == Kind.REST):
        raise InvalidTree(f"{path} does not hold the scores of this tree; delete it to score again")
    return column.fill_null(REST_FILLER).to_numpy()


def read_all(tree: TextTree, paths: Iterable[str | Path]) -> dict[str, np.ndarray]:
    """Read the scores of several quantifiers, by name: the file's name without its suffix."""
    return {Path(path).stem: read(tree, path) for path in paths}
