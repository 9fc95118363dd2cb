"""Next-token distributions: a few rows of a vocabulary, from which the most probable are taken."""

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 128
"""Neighbouring tokens of which the largest is looked at first."""


@dataclass(frozen=True)
class Distributions:
    """n distributions over a vocabulary, as weights that are not divided by their sums.

    Of a vocabulary of 262,144 tokens a few dozen matter: dividing the others costs as much as
    finding those few.

    Args:
        weights: (n, vocabulary) float64.
        totals: (n, 1) float64, by which weights are divided to be probabilities.
        ranking: (n, vocabulary), what orders a row as its weights do.
        maxima: (n, blocks), of each whole block of `BLOCK` tokens the largest in `ranking`.
    """

    weights: Tensor
    totals: Tensor
    ranking: Tensor
    maxima: Tensor

    @classmethod
    def of_logits(cls, logits: Tensor) -> "Distributions":
        """The softmax of logits (n, vocabulary), computed in float64."""
        maxima = _maxima(logits)
        blocks = maxima.shape[1] * BLOCK
        largest = torch.cat([maxima, logits[:, blocks:]], dim=1).amax(dim=1, keepdim=True)
        weights = logits.double()
        weights -= largest.double()
        weights.exp_()
        return cls(weights, weights.sum(dim=1, keepdim=True), logits, maxima)

    @classmethod
    def of_probabilities(cls, probabilities: Tensor) -> "Distributions":
        """Distributions that are given: (n, vocabulary) float64, rows summing to 1."""
        totals = torch.ones_like(probabilities[:, :1])
        return cls(probabilities, totals, probabilities, _maxima(probabilities))

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: slice) -> "Distributions":
        """Some of the rows."""
        return Distributions(
            self.weights[rows], self.totals[rows], self.ranking[rows], self.maxima[rows]
        )

    @property
    def vocabulary_size(self) -> int:
        return self.weights.shape[1]

    def probabilities(self) -> Tensor:
        """(n, vocabulary) float64, rows summing to 1."""
        return self.weights / self.totals

    def most_probable(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest probabilities of each row, and their tokens; ties by rising token.

        Args:
            k: at most the size of the vocabulary.

        Returns:
            (n, k) float64 and (n, k) int64.
        """
        beyond = min(k + 1, self.vocabulary_size)
        tokens = self._first(beyond).sort(dim=1).values
        values, order = self.weights.gather(1, tokens).sort(dim=1, descending=True, stable=True)
        tokens = tokens.gather(1, order)
        if beyond > k:
            # any of the equal values that straddle the k-th place may have been taken
            tied = (values[:, k - 1] == values[:, k]).nonzero().squeeze(1)
            if len(tied):
                ordered = self.weights[tied].sort(dim=1, descending=True, stable=True)
                values[tied], tokens[tied] = ordered.values[:, :beyond], ordered.indices[:, :beyond]
        return values[:, :k] / self.totals, tokens[:, :k]

    def of_others(self, row: int, tokens: Tensor) -> float:
        """The probability of all tokens of a row but some, with no digit lost to a difference."""
        others = self.weights[row].clone()
        others[tokens] = 0
        return (others.sum() / self.totals[row]).item()

    def _first(self, k: int) -> Tensor:
        """The first k tokens of each row's ranking, in any order.

        They are in the k blocks with the largest maxima: reading each row once for its maxima is
        much faster than keeping the best k on the way.
        """
        rows, blocks = self.maxima.shape
        if k * 4 > blocks:
            return self.ranking.topk(k, dim=1, sorted=False).indices
        whole, tail = self.ranking[:, : blocks * BLOCK], self.ranking[:, blocks * BLOCK :]
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
