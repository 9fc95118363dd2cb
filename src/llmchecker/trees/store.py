"""Next-token distributions that were computed before: their most probable tokens, in files.

Trees that share a model and a start string share distributions, whatever their truncation. A folder
holds those after one prompt of one model, in one file for each run that added some. Files are
written whole and never changed, so that any number of jobs may read and write at once; what two
jobs compute at the same time is stored twice. Deleting files costs time, never a result: the least
recently used go first when all together exceed the limit. What else a model was asked may lie
beside them, in folders of its own that count against the same limit.
"""

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmchecker.errors import InvalidStore
from llmchecker.files import written_whole
from llmchecker.trees.selection import HEAD, Selection, reselect

ROWS_AT_ONCE = 4096

_FILES = "[!.]*.parquet"  # the names of files that are being written begin with a dot

_SCHEMA = pa.schema(
    {
        "suffix": pa.list_(pa.int32()),
        "tokens": pa.list_(pa.int32()),
        "probabilities": pa.list_(pa.float64()),
    }
)


@dataclass(frozen=True)
class DistributionStore:
    """All stored distributions.

    Args:
        directory: where; it is made when something is stored.
        limit_bytes: of all files together.
    """

    directory: Path
    limit_bytes: int

    def after(self, fingerprint: str, prompt: Sequence[int]) -> "StoredDistributions":
        """Open what is stored of a model after a prompt.

        Args:
            fingerprint: of all that determines the model's answers to the last bit.

        Raises:
            InvalidStore: a file holds something else.
        """
        return StoredDistributions(self, self.folder(fingerprint, *prompt))

    def folder(self, *contents: str | int) -> Path:
        """The folder for what is determined by some contents, whether it is there or not."""
        return self.directory / hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:32]

    def make_room(self) -> None:
        """Delete the least recently used files until the others keep the limit."""
        files = []
        for path in self.directory.glob(f"*/{_FILES}"):
            with contextlib.suppress(FileNotFoundError):  # another job deletes too
                files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        excess = sum(size for _, size, _ in files) - self.limit_bytes
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


class StoredDistributions:
    """The stored distributions after one prompt, and those to be stored.

    `added` counts what was added since they were opened.
    """

    def __init__(self, store: DistributionStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._known: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._new: list[tuple[int, ...]] = []
        self.added = 0
        for path in sorted(folder.glob(_FILES)):
            with contextlib.suppress(FileNotFoundError):  # another job made room
                self._read(path)
                os.utime(path)

    def select(
        self, suffixes: np.ndarray, alpha: float, k: int
    ) -> Iterator[tuple[np.ndarray, Selection]]:
        """Apply TOP(alpha, k) after those suffixes of which enough is stored.

        Args:
            suffixes: (n, d) int64, tokens after the prompt.

        Yields:
            Numbers of suffixes, rising, and the selections after them: the bits that
            `top_alpha_k` returns for the whole distributions.
        """
        for first in range(0, len(suffixes), ROWS_AT_ONCE):
            part = enumerate(map(tuple, suffixes[first : first + ROWS_AT_ONCE].tolist()), first)
            found = [(row, self._known[suffix]) for row, suffix in part if suffix in self._known]
            if not found:
                continue
            rows = np.array([row for row, _ in found])
            heads = [head for _, head in found]
            tokens = _padded([head[0] for head in heads], -1)
            selection, enough = reselect(tokens, _padded([h[1] for h in heads], np.nan), alpha, k)
            if enough.any():
                yield rows[enough], _rows(selection, enough)

    def add(self, suffixes: np.ndarray, selection: Selection) -> None:
        """Remember the most probable tokens after suffixes, at least those that were selected."""
        kept = np.maximum(selection.counts, HEAD)
        for row, suffix in enumerate(map(tuple, suffixes.tolist())):
            head = slice(0, kept[row])
            self._known[suffix] = (selection.tokens[row, head], selection.probabilities[row, head])
            self._new.append(suffix)
        self.added += len(suffixes)

    def save(self) -> None:
        """Write what was added since the last time."""
        if not self._new:
            return
        heads = [self._known[suffix] for suffix in self._new]
        columns = [self._new, [head[0] for head in heads], [head[1] for head in heads]]
        table = pa.table(columns, schema=_SCHEMA)
        self._new = []
        with written_whole(self._folder / f"{uuid.uuid4().hex}.parquet") as partial:
            pq.write_table(table, partial, compression="zstd")
        self._store.make_room()

    def _read(self, path: Path) -> None:
        try:
            table = pq.read_table(path, schema=_SCHEMA).combine_chunks()
        except pa.ArrowInvalid as error:
            raise InvalidStore(
                f"{path} holds no distributions ({error}); delete it to compute them again"
            ) from error
        columns = [table[name].combine_chunks() for name in ("tokens", "probabilities")]
        flat = [column.flatten().to_numpy() for column in columns]
        offsets = columns[0].offsets.to_numpy()
        for row, suffix in enumerate(map(tuple, table["suffix"].to_pylist())):
            head = slice(offsets[row], offsets[row + 1])
            known = self._known.get(suffix)
            if known is None or len(known[0]) < offsets[row + 1] - offsets[row]:
                self._known[suffix] = (flat[0][head], flat[1][head])


def _padded(rows: Sequence[np.ndarray], filler: float) -> np.ndarray:
    """Rows of unequal length as one array, filled up at their ends."""
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max()), filler)
    padded[np.arange(lengths.max()) < lengths[:, np.newaxis]] = np.concatenate(rows)
    return padded


def _rows(selection: Selection, chosen: np.ndarray) -> Selection:
    return Selection(
        selection.tokens[chosen],
        selection.probabilities[chosen],
        selection.counts[chosen],
        selection.rest[chosen],
    )
