"""Next-token distributions, and their most probable tokens."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import InvalidDistribution

BLOCK = 128
"""The size of the blocks of neighbouring tokens whose largest value is found first."""

TOLERANCE = 1e-9
"""How far from 1 given probabilities may add up. They may be rounded decimals."""

SUMMED = 2**13
"""The number of neighbouring tokens that are summed at once: they fit the processor's cache."""

NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Distributions:
    """n distributions over a vocabulary, as values from which probabilities can be computed.

    A few dozen of 262,144 tokens matter. Computing the probabilities of all others would cost more
    than finding those few.

    Attributes:
        values: (n, vocabulary) logits, or probabilities in float64.
        maxima: (n, blocks), the largest value of each whole block of `BLOCK` tokens.
        largest: (n, 1) float64, the largest logit of each row; None if values are probabilities.
        sums: (n, parts) float64, the weights of every `SUMMED` neighbouring tokens together.
        totals: (n, 1) float64; a weight divided by it is a probability.
    """

    values: Tensor
    maxima: Tensor
    largest: Tensor | None
    sums: Tensor
    totals: Tensor

    @classmethod
    def of_logits(cls, logits: Tensor) -> "Distributions":
        """The softmax of logits (n, vocabulary), computed in float64."""
        maxima = _maxima(logits)
        blocks = maxima.shape[1] * BLOCK
        largest = torch.cat([maxima, logits[:, blocks:]], dim=1).amax(dim=1, keepdim=True).double()
        sums = _sums(logits, largest)
        totals = sum(sums.split(1, dim=1))
        return cls(logits, maxima, largest, sums, totals)

    @classmethod
    def of_probabilities(cls, probabilities: Tensor) -> "Distributions":
        """Distributions that are given: (n, vocabulary) float64, rows summing to 1."""
        totals = torch.ones_like(probabilities[:, :1])
        sums = _sums(probabilities, None)
        return cls(probabilities, _maxima(probabilities), None, sums, totals)

    def invalid_row(self) -> int | None:
        """The first row that is no distribution; None if all are.

        Logits give a distribution unless one is NaN or +inf, or all are -inf. A single -inf is a
        probability of 0. Given probabilities must not be negative, and must add up to 1 within
        `TOLERANCE`.
        """
        if self.largest is not None:
            # each weight is in [0, 1] and the largest is 1, or else the sum of them is NaN
            valid = self.totals.isfinite().squeeze(1)
        else:
            sums = self.values.sum(dim=1)
            valid = (self.values >= 0).all(dim=1) & ((sums - 1).abs() <= TOLERANCE)
        invalid = (~valid).nonzero()
        return int(invalid[0]) if len(invalid) else None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> "Distributions":
        """Some of the rows."""
        largest = None if self.largest is None else self.largest[rows]
        values, maxima, sums = self.values[rows], self.maxima[rows], self.sums[rows]
        return Distributions(values, maxima, largest, sums, self.totals[rows])

    @property
    def vocabulary_size(self) -> int:
        return self.values.shape[1]

    @property
    def told(self) -> int:
        """How many tokens of each distribution are told: all."""
        return self.vocabulary_size

    def probabilities(self) -> Tensor:
        """(n, vocabulary) float64, rows summing to 1."""
        return _weights(self.values, self.largest) / self.totals

    def most_probable(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest probabilities of each row, and their tokens; ties by rising token.

        Args:
            k: at most the size of the vocabulary.

        Returns:
            (n, k) float64 and (n, k) int64.
        """
        beyond = min(k + 1, self.vocabulary_size)
        tokens = self._first(beyond).sort(dim=1).values
        weights = _weights(self.values.gather(1, tokens), self.largest)
        weights, order = weights.sort(dim=1, descending=True, stable=True)
        tokens = tokens.gather(1, order)
        if beyond > k:
            # any of the equal weights that straddle the k-th place may have been taken
            tied = (weights[:, k - 1] == weights[:, k]).nonzero().squeeze(1)
            for row in tied.tolist():
                ordered = self._row(row).sort(descending=True, stable=True)
                weights[row], tokens[row] = ordered.values[:beyond], ordered.indices[:beyond]
        return weights[:, :k] / self.totals, tokens[:, :k]

    def of_others(self, row: int, tokens: Tensor) -> float:
        """The probability of all tokens of a row but some.

        It is summed up, because 1 - sum would lose digits.
        """
        others = self._row(row).clone()
        others[tokens] = 0
        return (others.sum() / self.totals[row]).item()

    def chosen(self, row: int, numbers: np.ndarray, without: np.ndarray = NO_TOKENS) -> np.ndarray:
        """Tokens of a row that random numbers choose by inversion, in proportion to their weights.

        A number chooses the first token at which the sum of the weights so far exceeds that share
        of the whole sum. Only the part of the vocabulary in which this happens is read.

        Args:
            numbers: (n,) float64 from [0, 1).
            without: (m,) int64, tokens that are excluded.

        Returns:
            (n,) int64.

        Raises:
            InvalidDistribution: all tokens that are not excluded have probability 0.
        """

        def weights(part: int) -> np.ndarray:
            first = part * SUMMED
            largest = None if self.largest is None else self.largest[row]
            found = _weights(self.values[row, first : first + SUMMED], largest).cpu().numpy().copy()
            found[without[without // SUMMED == part] - first] = 0
            return found

        sums = self.sums[row].cpu().numpy().copy()
        for part in np.unique(without // SUMMED):
            sums[part] = weights(part).sum()
        ends = np.concatenate([[0.0], sums.cumsum()])
        if not ends[-1] > 0:
            raise InvalidDistribution("all tokens that are not excluded have probability 0")
        wanted = numbers * ends[-1]
        # a product that is rounded up to the whole sum leads past the last possible token
        parts = np.searchsorted(ends[1:], wanted, side="right").clip(max=np.flatnonzero(sums)[-1])
        tokens = np.empty(len(numbers), dtype=np.int64)
        for part in np.unique(parts):
            here, found = parts == part, weights(part)
            places = np.searchsorted(found.cumsum(), wanted[here] - ends[part], side="right")
            tokens[here] = part * SUMMED + places.clip(max=np.flatnonzero(found)[-1])
        return tokens

    def _row(self, row: int) -> Tensor:
        """The weights of one row, (vocabulary,)."""
        return _weights(self.values[row], None if self.largest is None else self.largest[row])

    def _first(self, k: int) -> Tensor:
        """The k tokens of each row with the largest values, in any order.

        They are in the k blocks with the largest maxima. Reading each row once for its maxima is
        much faster than keeping the best k while reading.
        """
        rows, blocks = self.maxima.shape
        if k * 4 > blocks:
            return self.values.topk(k, dim=1, sorted=False).indices
        whole, tail = self.values[:, : blocks * BLOCK], self.values[:, blocks * BLOCK :]
        best = self.maxima.topk(k, dim=1, sorted=False).indices
        inside = best[:, :, None].expand(-1, -1, BLOCK)
        candidates = whole.view(rows, blocks, BLOCK).gather(1, inside).flatten(1)
        candidates = torch.cat([candidates, tail], dim=1)
        places = candidates.topk(k, dim=1, sorted=False).indices
        block, offset = places // BLOCK, places % BLOCK
        tokens = best.gather(1, block.clamp(max=k - 1)) * BLOCK + offset
        return tokens.where(block < k, places - k * BLOCK + blocks * BLOCK)


def _maxima(rows: Tensor) -> Tensor:
    blocks = rows.shape[1] // BLOCK
    return rows[:, : blocks * BLOCK].view(len(rows), blocks, BLOCK).amax(dim=2)


def _sums(values: Tensor, largest: Tensor | None) -> Tensor:
    """(n, parts) float64, the weights of every `SUMMED` neighbouring values together."""
    parts = (_weights(part, largest) for part in values.split(SUMMED, dim=1))
    return torch.cat([part.sum(dim=1, keepdim=True) for part in parts], dim=1)


def _weights(values: Tensor, largest: Tensor | None) -> Tensor:
    """Float64 weights, to which the probabilities of values of the same rows are proportional."""
    return values if largest is None else (values - largest).exp_()
