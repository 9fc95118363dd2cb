"""Next-token distributions and their most probable tokens."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import InvalidDistribution
from llmchecker.models.device import is_processor

_BLOCK_SIZE = 16
"""Number of tokens in a block; each block's maximum is computed first.

With n blocks, tokens i, i + n, i + 2 n and so on form the block i, so that maxima of neighbouring
blocks are computed together.
"""

SUM_TOLERANCE = 1e-9
"""Largest deviation of a sum of probabilities from 1; they may be rounded decimals."""

_MAX_EXPONENT = 700
"""A logit that is lower by more than this may have the weight 0 in float64."""

_CHUNK_SIZE = 2**13
"""Number of neighbouring tokens that are summed at once: they fit the processor's cache."""

_ALL = slice(None)


def find_by_inversion(sums: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the first index whose cumulative weight exceeds each target.

    Args:
        sums: (m,) float64, cumulative weights; the last one is above 0.
        targets: (n,) float64, random numbers from [0, 1) times the last sum.

    Returns:
        (n,) int64, indices of positive weights.
    """
    # rounding may lift a target to the last sum: the first index with that sum has a weight
    last = np.searchsorted(sums, sums[-1], side="left")
    return np.searchsorted(sums, targets, side="right").clip(max=last)


@contextmanager
def _use_one_thread() -> Iterator[None]:
    """Let torch compute in the calling thread alone.

    A few thousand numbers take microseconds. If other processes use the processor, waiting for a
    second thread takes milliseconds.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Distributions:
    """n distributions over a vocabulary, stored as values that give probabilities.

    Only a few dozen of 262,144 tokens matter. Computing the probabilities of all others would cost
    more than finding these few.

    Attributes:
        values: (n, vocabulary) logits, or probabilities in float64.
        block_maxima: (n, blocks), the largest value of each block of `_BLOCK_SIZE` tokens;
            None on an accelerator, which reads whole rows.
        row_maxima: (n, 1) float64, the largest logit of each row; None if values are probabilities.
        chunk_sums: the sums of the weights of neighbouring tokens.
    """

    values: Tensor
    block_maxima: Tensor | None
    row_maxima: Tensor | None
    chunk_sums: "_ChunkSums"

    @classmethod
    def from_logits(cls, logits: Tensor) -> "Distributions":
        """Return the softmax of logits (n, vocabulary), computed in float64.

        An accelerator computes all probabilities at once, in a single pass. A processor computes
        weights, because most probabilities are never needed.
        """
        # GPUs of Apple have no float64
        logits = logits.cpu() if logits.device.type == "mps" else logits
        if not is_processor(logits.device):
            probabilities = torch.softmax(logits, dim=1, dtype=torch.float64)
            return cls(probabilities, None, None, _ChunkSums.of_values(probabilities, None))
        maxima = _compute_block_maxima(logits)
        # the last tokens are in no block
        block_end = maxima.shape[1] * _BLOCK_SIZE
        row_maxima = (
            torch.cat([maxima, logits[:, block_end:]], dim=1).amax(dim=1, keepdim=True).double()
        )
        return cls(logits, maxima, row_maxima, _ChunkSums.of_values(logits, row_maxima))

    @classmethod
    def from_probabilities(cls, probabilities: Tensor) -> "Distributions":
        """Wrap given probabilities: (n, vocabulary) float64, rows summing to 1."""
        maxima = _compute_block_maxima(probabilities)
        return cls(probabilities, maxima, None, _ChunkSums.of_values(probabilities, None))

    @cached_property
    def totals(self) -> Tensor:
        """(n, 1) float64; a weight divided by its total is a probability."""
        # the values are probabilities already, so nothing is left to normalise
        if self.row_maxima is None:
            return torch.ones_like(self.values[:, :1])
        # from the first chunk to the last: `sum` of torch has another order
        return reduce(torch.add, torch.split(self.chunk_sums.tensor, 1, dim=1))

    def find_invalid_row(self) -> int | None:
        """Return the first row that is not a distribution, or None if all are.

        Logits give a distribution unless one is NaN or +inf, or all are -inf. A single -inf is a
        probability of 0. Given probabilities must not be negative, and must add up to 1 within
        `SUM_TOLERANCE`.
        """
        if self.row_maxima is not None:
            # a NaN is the largest of all logits
            is_valid = self.row_maxima.isfinite().squeeze(1)
        else:
            sums = self.values.sum(dim=1)
            is_valid = (self.values.amin(dim=1) >= 0) & ((sums - 1).abs() <= SUM_TOLERANCE)
        invalid_rows = (~is_valid).nonzero()
        return int(invalid_rows[0]) if len(invalid_rows) else None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> "Distributions":
        """Return the distributions of a slice of the rows."""
        return self._select(rows)

    def select(self, rows: np.ndarray) -> "Distributions":
        """Return the distributions of some of the rows, in the given order."""
        return self._select(torch.from_numpy(rows).to(self.values.device))

    def _select(self, rows: slice | Tensor) -> "Distributions":
        return Distributions(
            self.values[rows],
            None if self.block_maxima is None else self.block_maxima[rows],
            None if self.row_maxima is None else self.row_maxima[rows],
            self.chunk_sums.select(rows),
        )

    @property
    def vocabulary_size(self) -> int:
        return self.values.shape[1]

    @property
    def listed_tokens(self) -> int:
        """Number of tokens that each distribution lists: the whole vocabulary."""
        return self.vocabulary_size

    def probabilities(self) -> Tensor:
        """Return the probabilities: (n, vocabulary) float64, rows summing to 1."""
        # given probabilities have a total of 1
        if self.row_maxima is None:
            return self.values
        return _compute_weights(self.values, self.row_maxima) / self.totals

    def exclude(self, tokens: Sequence[np.ndarray]) -> "Distributions":
        """Return the same weights, but 0 for some tokens of each row.

        Args:
            tokens: n arrays of token ids.
        """
        values = self.values.clone()
        values[_flatten_indices(tokens)] = 0.0 if self.row_maxima is None else -torch.inf
        return Distributions(
            values,
            None if self.block_maxima is None else _compute_block_maxima(values),
            self.row_maxima,
            _ChunkSums.of_values(values, self.row_maxima),
        )

    def gather_weights(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Return (m, j) float64, the weights of tokens (m, j) of some rows (m,)."""
        maxima = None if self.row_maxima is None else self.row_maxima[rows]
        return _compute_weights(self.values[rows[:, None], tokens], maxima)

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest probabilities of each row and their tokens.

        Ties are ordered by rising token id.

        Args:
            k: number of tokens, at most the vocabulary size.

        Returns:
            (n, k) float64 and (n, k) int64.
        """
        weights, tokens = self._select_top(k)
        return weights / self.totals, tokens

    def top_tokens(self, k: int) -> Tensor:
        """Return (n, k) int64, the tokens of `top_k`."""
        return self._select_top(k)[1]

    @_use_one_thread()
    def _select_top(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest weights of each row and their tokens."""
        if self.block_maxima is not None:
            ranked = [self._rank_tokens(row, k) for row in range(len(self))]
            selected = torch.from_numpy(np.stack(ranked))
            return _compute_weights(self.values.gather(1, selected), self.row_maxima), selected
        # one more than k, so that a tie between ranks k and k + 1 is visible
        count = min(k + 1, self.vocabulary_size)
        # rising ids first: the stable sort below then orders ties by id
        tokens = self.values.topk(count, dim=1, sorted=False).indices.sort(dim=1).values
        weights = _compute_weights(self.values.gather(1, tokens), self.row_maxima)
        weights, order = weights.sort(dim=1, descending=True, stable=True)
        tokens = tokens.gather(1, order)
        if count > k:
            # `topk` may have selected any of the equal weights at rank k
            tied_rows = (weights[:, k - 1] == weights[:, k]).nonzero().squeeze(1)
            if len(tied_rows):
                maxima = None if self.row_maxima is None else self.row_maxima[tied_rows]
                tied_weights, bound = weights[tied_rows], weights[tied_rows, k:]
                is_tied = _compute_weights(self.values[tied_rows], maxima) == bound
                # the smallest ids of the equal weights follow the larger weights
                ranks = torch.arange(1, count + 1, dtype=torch.int32, device=tokens.device)
                ranks = ranks.repeat(len(tied_rows), 1)
                ids = torch.searchsorted(is_tied.cumsum(1, dtype=torch.int32), ranks)
                is_larger = tied_weights > bound
                places = (ranks - 1 - is_larger.sum(dim=1, keepdim=True)).clamp(min=0)
                tokens[tied_rows] = tokens[tied_rows].where(is_larger, ids.gather(1, places))
        return weights[:, :k], tokens[:, :k]

    def _rank_tokens(self, row: int, k: int) -> np.ndarray:
        """Return (k,) int64, the tokens of `top_k` of a row on a processor."""
        tokens = self.find_largest(row, k)
        weights = self._row_weights(row, torch.from_numpy(tokens)).numpy()
        ranked: np.ndarray = tokens[np.argsort(-weights, kind="stable")[:k]]
        return ranked

    def find_largest(self, row: int, k: int) -> np.ndarray:
        """Return the k tokens of `top_k` and few others, by rising id, on a processor.

        They are in the blocks whose maxima are at least the k-th largest maximum. Reading each row
        once for its maxima is much faster than keeping the best k while reading.
        """
        assert self.block_maxima is not None
        values = _to_numpy(self.values[row])
        blocks = self.block_maxima.shape[1]
        # with so many blocks most tokens are in them: then each token is a block of its own
        size = _BLOCK_SIZE if k * 4 <= blocks else 1
        maxima = _to_numpy(self.block_maxima[row]) if size > 1 else values
        least = np.partition(maxima, len(maxima) - k)[len(maxima) - k]
        # few tokens have a weight above 0; of the others, the first ones are listed
        bound = 0.0 if self.row_maxima is None else float(self.row_maxima[row]) - _MAX_EXPONENT
        # a NaN is not larger either; the caller finds such rows
        if not least > bound:
            return np.union1d(np.flatnonzero(self._row_weights(row).numpy()), np.arange(k))
        offsets = len(maxima) * np.arange(size)[:, np.newaxis]
        # the last tokens are in no block
        tail = np.arange(size * len(maxima), len(values))
        tokens = np.append(offsets + np.flatnonzero(maxima >= least), tail)
        largest: np.ndarray = tokens[values[tokens] >= least]
        return largest

    def masses_excluding(self, rows: np.ndarray, tokens: Sequence[np.ndarray]) -> np.ndarray:
        """Return the total probabilities of some rows without the given tokens of each.

        They are sums over the other tokens, because 1 - sum would lose digits.
        """
        part = self.select(rows)
        # a copy, because the weights may be `values` itself
        weights = _compute_weights(part.values, part.row_maxima)
        weights[_flatten_indices(tokens)] = 0.0
        # each row alone: the order of its sum must not depend on their number
        sums = torch.stack([row.sum() for row in weights])
        masses: Tensor = sums / part.totals.squeeze(1)
        return masses.cpu().numpy()

    @_use_one_thread()
    def sample_by_inversion(self, row: int, numbers: np.ndarray) -> np.ndarray:
        """Sample tokens of a row by inversion, in proportion to their weights.

        A random number u selects the first token whose cumulative weight exceeds u times the total
        weight. Only the chunk that contains this token is read.

        Args:
            row: index of the row.
            numbers: (n,) float64 from [0, 1).

        Returns:
            (n,) int64, token ids.

        Raises:
            InvalidDistribution: all weights are 0.
        """
        sums = self.chunk_sums.tensor[row].cpu().numpy()
        boundaries = np.concatenate([[0.0], sums.cumsum()])
        if boundaries[-1] == 0:
            raise InvalidDistribution(
                "distribution: no further token is left in a second batch, where probabilities "
                "differ; use the dtype float32"
            )
        targets = numbers * boundaries[-1]
        chunks = find_by_inversion(boundaries[1:], targets)
        tokens = np.empty(len(numbers), dtype=np.int64)
        for chunk in np.unique(chunks):
            first = int(chunk) * _CHUNK_SIZE
            weights = self._row_weights(row, slice(first, first + _CHUNK_SIZE)).cpu().numpy()
            is_selected = chunks == chunk
            indices = find_by_inversion(weights.cumsum(), targets[is_selected] - boundaries[chunk])
            tokens[is_selected] = first + indices
        return tokens

    def write_weights(self, row: int, weights: Tensor) -> None:
        """Write the weights of one row, (vocabulary,) float64."""
        weights.copy_(self.values[row])
        if self.row_maxima is not None:
            weights.sub_(self.row_maxima[row]).exp_()

    def _row_weights(self, row: int, tokens: Tensor | slice = _ALL) -> Tensor:
        """Return the weights of tokens of one row."""
        maximum = None if self.row_maxima is None else self.row_maxima[row]
        return _compute_weights(self.values[row, tokens], maximum)


class _ChunkSums:
    """The sums of the weights in each chunk of `_CHUNK_SIZE` neighbouring tokens.

    They are computed on the first use, of all rows that were given together: the last bits of a sum
    may depend on their number.

    Args:
        compute: returns (n, chunks) float64.
    """

    def __init__(self, compute: Callable[[], Tensor]) -> None:
        self._compute = compute

    @classmethod
    def of_values(cls, values: Tensor, row_maxima: Tensor | None) -> "_ChunkSums":
        """Return the sums of values; the arguments are those of `Distributions`."""
        return cls(partial(_compute_chunk_sums, values, row_maxima))

    @cached_property
    def tensor(self) -> Tensor:
        """(n, chunks) float64."""
        return self._compute()

    def select(self, rows: slice | Tensor) -> "_ChunkSums":
        """Return the sums of some of the rows."""
        return _ChunkSums(lambda: self.tensor[rows])


def _flatten_indices(tokens: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Return the rows and columns of the given tokens of each row."""
    rows = np.repeat(np.arange(len(tokens)), [len(row) for row in tokens])
    return torch.from_numpy(rows), torch.from_numpy(np.concatenate(tokens))


def _to_numpy(values: Tensor) -> np.ndarray:
    """Return values of a processor; float32 for bfloat16, which NumPy does not have."""
    array: np.ndarray = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return array


def _compute_block_maxima(rows: Tensor) -> Tensor:
    blocks = rows.shape[1] // _BLOCK_SIZE
    return rows[:, : blocks * _BLOCK_SIZE].view(len(rows), _BLOCK_SIZE, blocks).amax(dim=1)


def _compute_chunk_sums(values: Tensor, row_maxima: Tensor | None) -> Tensor:
    """Return the sums of the weights in each chunk, (n, chunks) float64."""
    chunks = (
        _compute_weights(chunk, row_maxima) for chunk in torch.split(values, _CHUNK_SIZE, dim=1)
    )
    return torch.cat([chunk.sum(dim=1, keepdim=True) for chunk in chunks], dim=1)


def _compute_weights(values: Tensor, row_maxima: Tensor | None) -> Tensor:
    """Return float64 weights that are proportional to the probabilities within a row."""
    return values if row_maxima is None else (values - row_maxima).exp_()
