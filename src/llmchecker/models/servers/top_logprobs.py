"""Top log probabilities: the most probable next tokens that a server returns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import InvalidBound, InvalidDistribution
from llmchecker.models.distribution import find_by_inversion
from llmchecker.models.servers.settings import LEAST_UNLISTED, MAX_EXCESS


@dataclass(frozen=True)
class TopLogprobs:
    """The most probable tokens of n distributions, with equal numbers of tokens.

    It has the methods of `Distributions` that selection needs. The tokens outside the list are only
    known by their total probability.

    Attributes:
        tokens: (n, listed) int64, by falling probability, ties by rising token id.
        token_probabilities: (n, listed) float64, the probabilities of these tokens.
        vocabulary_size: number of tokens, listed or not.
    """

    tokens: np.ndarray
    token_probabilities: np.ndarray
    vocabulary_size: int

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, rows: np.ndarray) -> "TopLogprobs":
        """Return the distributions of some of the rows, in the given order."""
        return TopLogprobs(self.tokens[rows], self.token_probabilities[rows], self.vocabulary_size)

    @property
    def listed_tokens(self) -> int:
        """Number of tokens that each distribution lists."""
        return int(self.tokens.shape[1])

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest probabilities of each row and their tokens.

        Ties are ordered by rising token id.

        Raises:
            InvalidBound: the rows list fewer than k tokens.
        """
        if k > self.listed_tokens:
            raise InvalidBound(
                f"tokens: {k} are needed, but {self.listed_tokens} are requested; raise "
                "`tokens` of the model"
            )
        return torch.from_numpy(self.token_probabilities[:, :k]), torch.from_numpy(
            self.tokens[:, :k]
        )

    def exclude(self, tokens: Sequence[np.ndarray]) -> "TopLogprobs":
        """Return the same distributions, but probability 0 for some tokens of each row.

        Args:
            tokens: n arrays of token ids.
        """
        is_excluded = np.stack([np.isin(*pair) for pair in zip(self.tokens, tokens, strict=True)])
        probabilities = np.where(is_excluded, 0.0, self.token_probabilities)
        # stable, so that the order of equal probabilities stays
        order = np.argsort(-probabilities, axis=1, kind="stable")
        return TopLogprobs(
            np.take_along_axis(self.tokens, order, axis=1),
            np.take_along_axis(probabilities, order, axis=1),
            self.vocabulary_size,
        )

    def gather_weights(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Return (m, j) float64, the probabilities of tokens (m, j) of some rows (m,)."""
        return self.probabilities()[rows[:, None], tokens]

    def top_tokens(self, k: int) -> Tensor:
        """Return (n, k) int64, the tokens of `top_k`."""
        return self.top_k(k)[1]

    def probabilities(self) -> Tensor:
        """Return (n, vocabulary) float64, with 0 for tokens outside the list."""
        probabilities = torch.zeros((len(self), self.vocabulary_size), dtype=torch.float64)
        return probabilities.scatter_(
            1, torch.from_numpy(self.tokens), torch.from_numpy(self.token_probabilities)
        )

    def sample_by_inversion(self, row: int, numbers: np.ndarray) -> np.ndarray:
        """Sample tokens by inversion, as in `Distributions.sample_by_inversion`.

        Raises:
            InvalidBound: the row does not list all tokens.
        """
        if self.listed_tokens < self.vocabulary_size:
            raise InvalidBound(
                f"top_logprobs: only {self.listed_tokens} of {self.vocabulary_size} tokens are "
                "known; a choice needs all"
            )
        sums = self.probabilities()[row].numpy().cumsum()
        return find_by_inversion(sums, numbers * sums[-1])

    def masses_excluding(self, rows: np.ndarray, tokens: Sequence[np.ndarray]) -> np.ndarray:
        """Return the total probabilities of some rows without the given tokens of each.

        If all tokens are listed, it is the sum over the others. Otherwise it is 1 minus the sum
        over the given tokens, which loses the digits that the server does not send. Tokens that are
        not listed have at least `LEAST_UNLISTED`, unless a listed token has the probability 0.
        """
        masses = [self._compute_mass(*pair) for pair in zip(rows.tolist(), tokens, strict=True)]
        return np.array(masses)

    def _compute_mass(self, row: int, tokens: np.ndarray) -> float:
        probabilities = self.token_probabilities[row]
        is_given = np.isin(self.tokens[row], tokens)
        if self.listed_tokens == self.vocabulary_size:
            return float(probabilities[~is_given].sum())
        # no token outside the list is more probable than the last one in it
        is_everything = probabilities[-1] == 0 and not probabilities[~is_given].any()
        # rounding may make the sum 1 or more, which would prove that no other token follows
        least = 0.0 if is_everything else LEAST_UNLISTED
        return max(least, float(1 - probabilities[is_given].cumsum()[-1]))


def parse_top_logprobs(
    tokens: Sequence[Sequence[int]],
    logprobs: Sequence[Sequence[float]],
    listed_tokens: int,
    vocabulary_size: int,
) -> TopLogprobs:
    """Return the distributions of an answer.

    Probabilities whose sum exceeds 1 only by rounding are divided by their sum.

    Args:
        tokens: token ids of each position in any order.
        logprobs: natural logarithms of their probabilities; the schema of the answer has checked
            that none is a NaN or above 0.
        listed_tokens: number of requested tokens.
        vocabulary_size: number of tokens of the model.

    Raises:
        InvalidDistribution: a position does not have `listed_tokens` tokens with probabilities of a
            distribution.
    """
    for row, values in zip(tokens, logprobs, strict=True):
        if len(row) != listed_tokens or len(values) != listed_tokens:
            raise InvalidDistribution(
                f"top_logprobs: {len(row)} of {listed_tokens} requested tokens were returned"
            )
        if max(row) >= vocabulary_size:
            raise InvalidDistribution(
                f"top_logprobs: {max(row)} is not a token from 0 to {vocabulary_size - 1}"
            )
        if len(set(row)) < listed_tokens:
            raise InvalidDistribution("top_logprobs: a token is listed twice")
    token_ids = np.array(tokens, dtype=np.int64).reshape(-1, listed_tokens)
    probabilities = np.exp(np.array(logprobs, dtype=np.float64)).reshape(-1, listed_tokens)
    # by falling probability, then by rising token id
    order = np.lexsort((token_ids, -probabilities))
    token_ids = np.take_along_axis(token_ids, order, axis=1)
    probabilities = np.take_along_axis(probabilities, order, axis=1)
    totals = np.array([math.fsum(row) for row in probabilities.tolist()])
    lists_all = listed_tokens == vocabulary_size
    # with all tokens listed, no probability is left outside the list
    is_wrong = (totals > 1 + MAX_EXCESS) | (lists_all & (totals < 1 - MAX_EXCESS))
    if is_wrong.any():
        raise InvalidDistribution(
            f"top_logprobs: the sum of the probabilities of {listed_tokens} tokens is "
            f"{totals[is_wrong][0]}"
        )
    # the sum is 1 for all tokens and at most 1 for fewer: any difference is rounding
    divisors = totals if lists_all else np.maximum(totals, 1.0)
    return TopLogprobs(token_ids, probabilities / divisors[:, np.newaxis], vocabulary_size)
