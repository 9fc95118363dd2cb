"""Cache of next-token distributions on disk: the most probable tokens of each.

Trees with the same model and start string share distributions, whatever their truncation. A folder
holds the distributions after one prompt of one model, with one file for each run that added to it.
Files are written atomically and never changed, so any number of jobs may read and write at once.
Distributions that two jobs compute at the same time are stored twice. Deleting a file costs time,
never a result. When all files together exceed the limit, the least recently used are deleted first.
Other results of a model may be in folders of the same cache, which count against the same limit.
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
from llmchecker.trees.sealed_parquet import read_parquet, write_parquet
from llmchecker.trees.selection import (
    CANCELLATION_THRESHOLD,
    MIN_LISTED_TOKENS,
    Selection,
    reselect_tokens,
)
from llmchecker.trees.text_tree import PROBABILITY_TOLERANCE

_BATCH_ROWS = 4096

_FILE_PATTERN = "[!.]*.parquet"  # the names of files that are being written begin with a dot

_SCHEMA = pa.schema(
    {
        "suffix": pa.list_(pa.int32()),
        "tokens": pa.list_(pa.int32()),
        "probabilities": pa.list_(pa.float64()),
    }
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DistributionCache:
    """Cache of distributions in a directory.

    Attributes:
        directory: folder of the cache; created by the first write.
        max_bytes: maximum size of all files together in bytes.
    """

    directory: Path
    max_bytes: int

    def open_distributions(
        self, fingerprint: str, prompt: Sequence[int], min_rest: float = CANCELLATION_THRESHOLD
    ) -> "PromptDistributions":
        """Open the stored distributions of a model after a prompt.

        Args:
            fingerprint: hash of all inputs that determine the model's output to the last bit.
            prompt: token ids with which every text begins.
            min_rest: as in `selection.reselect_tokens`.
        """
        folder = self.locate_folder(fingerprint, *prompt)
        return PromptDistributions(self, folder, tuple(prompt), min_rest)

    def locate_folder(self, *key_parts: str | int) -> Path:
        """Return the folder for a key, which need not exist.

        Args:
            key_parts: all values that determine the contents of the folder.
        """
        return self.directory / hashlib.sha256(json.dumps(key_parts).encode()).hexdigest()[:32]

    def evict(self) -> None:
        """Delete the least recently used files until the cache is within its limit."""
        files = []
        for path in self.directory.glob(f"*/{_FILE_PATTERN}"):
            with contextlib.suppress(FileNotFoundError):  # another job may delete it
                # the modification time is the time of the last use: readers update it
                files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        excess_bytes = sum(size for _, size, _ in files) - self.max_bytes
        for _, size, path in sorted(files):
            if excess_bytes <= 0:
                return
            path.unlink(missing_ok=True)
            excess_bytes -= size


class PromptDistributions:
    """Stored and new distributions after one prompt.

    Attributes:
        prompt: token ids with which every text begins.
        added_count: number of distributions added since the folder was opened.
    """

    def __init__(
        self, cache: DistributionCache, folder: Path, prompt: tuple[int, ...], min_rest: float
    ) -> None:
        self.prompt = prompt
        self._min_rest = min_rest
        self._cache = cache
        self._folder = folder
        self._distributions: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._new_continuations: list[tuple[int, ...]] = []
        self.added_count = 0
        # in a fixed order: of equally long entries for a continuation the first is kept
        for path in sorted(folder.glob(_FILE_PATTERN)):
            with contextlib.suppress(FileNotFoundError), delete_if_damaged(path):
                continuations, offsets, tokens, probabilities = _read_distributions(path)
                for row, continuation in enumerate(continuations):
                    head = slice(offsets[row], offsets[row + 1])
                    stored_head = self._distributions.get(continuation)
                    # of two files for one continuation, the longer list serves more truncations
                    if stored_head is None or len(stored_head[0]) < offsets[row + 1] - offsets[row]:
                        self._distributions[continuation] = (tokens[head], probabilities[head])
                # marks the file as recently used, for `evict`
                os.utime(path)

    def select(
        self, continuations: np.ndarray, alpha: float, k: int
    ) -> Iterator[tuple[np.ndarray, Selection]]:
        """Apply TOP(alpha, k) after the continuations whose stored tokens suffice.

        Args:
            continuations: (n, d) int64, token ids after the prompt.
            alpha: probability that the selected tokens hold together, from 0 to 1.
            k: maximum number of selected tokens.

        Yields:
            Increasing row numbers of continuations, and the selections after them. The selections
            equal those of `select_tokens` for the full distributions, to the last bit.
        """
        # in batches, because padding makes all rows of a batch as long as its longest
        for first in range(0, len(continuations), _BATCH_ROWS):
            numbered_rows = enumerate(
                map(tuple, continuations[first : first + _BATCH_ROWS].tolist()), first
            )
            stored_heads = [
                (row, self._distributions[continuation])
                for row, continuation in numbered_rows
                if continuation in self._distributions
            ]
            if not stored_heads:
                continue
            rows = np.array([row for row, _ in stored_heads])
            heads = [head for _, head in stored_heads]
            tokens = _pad_rows([head[0] for head in heads], -1)
            probabilities = _pad_rows([head[1] for head in heads], np.nan)
            selection, is_sufficient = reselect_tokens(
                tokens, probabilities, alpha, k, self._min_rest
            )
            if is_sufficient.any():
                yield rows[is_sufficient], _select_rows(selection, is_sufficient)

    def add(self, continuations: np.ndarray, selection: Selection) -> None:
        """Add the reported tokens after continuations: all selected tokens, and more.

        Args:
            continuations: (n, d) int64, token ids after the prompt.
            selection: the selections after them.
        """
        # one token more than selected: a probability of 0 there proves that the rest is 0
        stored_counts = np.maximum(selection.counts + 1, MIN_LISTED_TOKENS)
        for row, continuation in enumerate(map(tuple, continuations.tolist())):
            head = slice(0, stored_counts[row])
            self._distributions[continuation] = (
                selection.tokens[row, head],
                selection.probabilities[row, head],
            )
            self._new_continuations.append(continuation)
        self.added_count += len(continuations)

    def save(self) -> None:
        """Write the distributions added since the last call."""
        if not self._new_continuations:
            return
        heads = [self._distributions[continuation] for continuation in self._new_continuations]
        columns = [
            self._new_continuations,
            [head[0] for head in heads],
            [head[1] for head in heads],
        ]
        self._new_continuations = []
        table = pa.table(columns, schema=_SCHEMA)
        write_parquet(table, self._folder / f"{uuid.uuid4().hex}.parquet")
        # new files may exceed the limit
        self._cache.evict()


@contextlib.contextmanager
def delete_if_damaged(path: Path) -> Iterator[None]:
    """Delete a stored file, which can be recomputed, if the block finds damage."""
    try:
        yield
    except DamagedFile as error:
        _log.warning("not used, and deleted: %s", error)
        path.unlink(missing_ok=True)


def _read_distributions(
    path: Path,
) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray, np.ndarray]:
    """Read a stored file.

    Returns:
        The continuations, the row offsets, the tokens of all rows and their probabilities.

    Raises:
        DamagedFile: the contents differ from those written, or a row is not the beginning of a
            distribution: decreasing numbers from 0 to 1 with a sum of at most 1.
    """
    table, _ = read_parquet(path)
    if table.schema != _SCHEMA:
        raise DamagedFile(f"{path}: no distributions", path)
    tokens, probabilities = (table[name].combine_chunks() for name in _SCHEMA.names[1:])
    offsets = tokens.offsets.to_numpy()
    values = probabilities.flatten().to_numpy()
    sums = np.diff(np.concatenate([[0.0], values.cumsum()])[offsets])
    # marks where a row begins: only within a row must the values not increase
    is_row_start = np.zeros(len(values), dtype=bool)
    is_row_start[offsets[:-1]] = True
    if not (
        np.array_equal(offsets, probabilities.offsets.to_numpy())
        and np.all((values >= 0) & (values <= 1))
        and np.all(is_row_start[1:] | (np.diff(values) <= 0))
        and np.all(sums <= 1 + PROBABILITY_TOLERANCE)
    ):
        raise DamagedFile(f"{path}: its numbers are not distributions", path)
    continuations = list(map(tuple, table["suffix"].to_pylist()))
    return continuations, offsets, tokens.flatten().to_numpy(), values


def _pad_rows(rows: Sequence[np.ndarray], filler: float) -> np.ndarray:
    """Return rows of unequal length as one array, padded at their ends."""
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max()), filler)
    padded[np.arange(lengths.max()) < lengths[:, np.newaxis]] = np.concatenate(rows)
    return padded


def _select_rows(selection: Selection, mask: np.ndarray) -> Selection:
    """Return the rows of a selection that a mask or indices choose."""
    return Selection(
        selection.tokens[mask],
        selection.probabilities[mask],
        selection.counts[mask],
        selection.rest[mask],
    )
