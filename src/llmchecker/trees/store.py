"""Next-token distributions that were computed before: their most probable tokens, in files.

Trees that share a model and a start string share distributions, whatever their truncation. A folder
holds the distributions after one prompt of one model, in one file for each run that added some.
Files are written whole and never changed, so that any number of jobs may read and write at once;
what two jobs compute at the same time is stored twice. Deleting a file costs time, never a result:
when all files together exceed the limit, the least recently used go first. Other answers of a model
may lie beside them, in folders of their own that count against the same limit.
"""

import contextlib
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from llmchecker.errors import DamagedFile
from llmchecker.trees.parquet import read_parquet, write_parquet
from llmchecker.trees.selection import CANCELLATION, HEAD, Selection, reselect
from llmchecker.trees.text_tree import PROBABILITY_TOLERANCE

ROWS_AT_ONCE = 4096

_FILES = "[!.]*.parquet"  # the names of files that are being written begin with a dot

_SCHEMA = pa.schema(
    {
        "suffix": pa.list_(pa.int32()),
        "tokens": pa.list_(pa.int32()),
        "probabilities": pa.list_(pa.float64()),
    }
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DistributionStore:
    """All stored distributions.

    Attributes:
        directory: where the files lie. It is made when something is stored.
        limit_bytes: the largest size of all files together.
    """

    directory: Path
    limit_bytes: int

    def after(
        self, fingerprint: str, prompt: Sequence[int], least_rest: float = CANCELLATION
    ) -> "StoredDistributions":
        """Open what is stored of a model after a prompt.

        Args:
            fingerprint: of all that determines the model's answers to the last bit.
            prompt: the tokens with which every text begins.
            least_rest: as in `selection.reselect`.
        """
        return StoredDistributions(self, self.folder(fingerprint, *prompt), least_rest)

    def folder(self, *contents: str | int) -> Path:
        """The folder of what these contents determine. It need not exist."""
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

    Attributes:
        added: how many distributions were added since the folder was opened.
    """

    def __init__(self, store: DistributionStore, folder: Path, least_rest: float) -> None:
        self._least_rest = least_rest
        self._store = store
        self._folder = folder
        self._known: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._new: list[tuple[int, ...]] = []
        self.added = 0
        for path in sorted(folder.glob(_FILES)):
            with contextlib.suppress(FileNotFoundError), dropped_if_damaged(path):
                self._read(path)
                os.utime(path)

    def select(
        self, suffixes: np.ndarray, alpha: float, k: int
    ) -> Iterator[tuple[np.ndarray, Selection]]:
        """Apply TOP(alpha, k) after those suffixes for which enough is stored.

        Args:
            suffixes: (n, d) int64, tokens after the prompt.

        Yields:
            Row numbers of suffixes, rising, and the selections after them, with the bits that
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
            probabilities = _padded([head[1] for head in heads], np.nan)
            selection, enough = reselect(tokens, probabilities, alpha, k, self._least_rest)
            if enough.any():
                yield rows[enough], _rows(selection, enough)

    def add(self, suffixes: np.ndarray, selection: Selection) -> None:
        """Remember the most probable tokens after suffixes: those that were selected, and more."""
        kept = np.maximum(selection.counts + 1, HEAD)
        for row, suffix in enumerate(map(tuple, suffixes.tolist())):
            head = slice(0, kept[row])
            self._known[suffix] = (selection.tokens[row, head], selection.probabilities[row, head])
            self._new.append(suffix)
        self.added += len(suffixes)

    def save(self) -> None:
        """Write what was added since it was last called."""
        if not self._new:
            return
        heads = [self._known[suffix] for suffix in self._new]
        columns = [self._new, [head[0] for head in heads], [head[1] for head in heads]]
        self._new = []
        table = pa.table(columns, schema=_SCHEMA)
        write_parquet(table, self._folder / f"{uuid.uuid4().hex}.parquet")
        self._store.make_room()

    def _read(self, path: Path) -> None:
        suffixes, offsets, tokens, probabilities = _checked(path)
        for row, suffix in enumerate(suffixes):
            head = slice(offsets[row], offsets[row + 1])
            known = self._known.get(suffix)
            if known is None or len(known[0]) < offsets[row + 1] - offsets[row]:
                self._known[suffix] = (tokens[head], probabilities[head])


@contextlib.contextmanager
def dropped_if_damaged(path: Path) -> Iterator[None]:
    """Delete a stored file that the block finds damaged: what it held can be computed again."""
    try:
        yield
    except DamagedFile as error:
        _log.warning("not used, and deleted: %s", error)
        path.unlink(missing_ok=True)


def _checked(path: Path) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray, np.ndarray]:
    """Read a stored file: its suffixes, where the head of each begins, and all heads in a row.

    Raises:
        DamagedFile: a bit of the file is not what was written, or a head is not the beginning of a
            distribution: falling numbers from 0 to 1 that add up to at most 1.
    """
    table, _ = read_parquet(path)
    if table.schema != _SCHEMA:
        raise DamagedFile(f"{path} holds no distributions")
    tokens, probabilities = (table[name].combine_chunks() for name in _SCHEMA.names[1:])
    offsets = tokens.offsets.to_numpy()
    values = probabilities.flatten().to_numpy()
    sums = np.diff(np.concatenate([[0.0], values.cumsum()])[offsets])
    first = np.zeros(len(values), dtype=bool)
    first[offsets[:-1]] = True
    if not (
        np.array_equal(offsets, probabilities.offsets.to_numpy())
        and np.all((values >= 0) & (values <= 1))
        and np.all(first[1:] | (np.diff(values) <= 0))
        and np.all(sums <= 1 + PROBABILITY_TOLERANCE)
    ):
        raise DamagedFile(f"{path} holds numbers that are no distributions")
    suffixes = list(map(tuple, table["suffix"].to_pylist()))
    return suffixes, offsets, tokens.flatten().to_numpy(), values


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
