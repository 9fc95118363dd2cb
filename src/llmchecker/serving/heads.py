"""Heads: the most probable next tokens that a server tells of each distribution, and no more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import InvalidBound, InvalidDistribution

EXCESS = 1e-4
"""How far above 1 the probabilities of a head may add up: servers round to float32 or coarser."""


@dataclass(frozen=True)
class Heads:
    """The most probable tokens of n distributions, equally many of each.

    It offers what selecting needs of `Distributions`. What is not told is one number, the
    probability of all other tokens together.

    Attributes:
        tokens: (n, told) int64, by falling probability; of equal ones the smaller token first.
        known: (n, told) float64, the probabilities of these tokens.
        vocabulary_size: how many tokens there are, told or not.
    """

    tokens: np.ndarray
    known: np.ndarray
    vocabulary_size: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def told(self) -> int:
        """How many tokens of each distribution are told."""
        return self.tokens.shape[1]

    def most_probable(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest probabilities of each row, and their tokens; ties by rising token.

        Raises:
            InvalidBound: fewer than k tokens are told.
        """
        if k > self.told:
            raise InvalidBound(
                f"{k} tokens are needed, but the server is asked for {self.told}: ask it for more "
                "by `tokens` of the model"
            )
        return torch.from_numpy(self.known[:, :k]), torch.from_numpy(self.tokens[:, :k])

    def probabilities(self) -> Tensor:
        """(n, vocabulary) float64; tokens that are not told have 0."""
        dense = torch.zeros((len(self), self.vocabulary_size), dtype=torch.float64)
        return dense.scatter_(1, torch.from_numpy(self.tokens), torch.from_numpy(self.known))

    def of_others(self, row: int, tokens: Tensor) -> float:
        """The probability of all tokens of a row but some.

        What is told of all tokens is added up. Of a part it is 1 minus the sum of that part, in
        which the digits are lost that the server does not tell.
        """
        among = np.isin(self.tokens[row], tokens.numpy())
        if self.told == self.vocabulary_size:
            return float(self.known[row, ~among].sum())
        return max(0.0, float(1 - self.known[row, among].cumsum()[-1]))


def checked_head(
    tokens: Sequence[int], logprobs: Sequence[float], told: int, vocabulary_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens and probabilities of one answer, in the order of a head.

    Probabilities that add up to more than 1 by no more than rounding are divided by their sum.

    Args:
        tokens: as the server sent them, in any order.
        logprobs: the natural logarithms of their probabilities.
        told: how many tokens were asked for.
        vocabulary_size: how many tokens there are.

    Raises:
        InvalidDistribution: these are no `told` tokens with probabilities of one distribution.
    """
    if len(tokens) != told or len(logprobs) != told:
        raise InvalidDistribution(f"{told} tokens were asked for, and {len(tokens)} came")
    for token, logprob in zip(tokens, logprobs, strict=True):
        if type(token) is not int or not 0 <= token < vocabulary_size:
            raise InvalidDistribution(f"{token!r} is no token from 0 to {vocabulary_size - 1}")
        if type(logprob) not in (int, float) or math.isnan(logprob) or logprob > EXCESS:
            raise InvalidDistribution(f"token {token} has the log probability {logprob!r}")
    if len(set(tokens)) < told:
        raise InvalidDistribution("a token is named twice")
    ids, values = np.array(tokens, dtype=np.int64), np.exp(np.array(logprobs, dtype=np.float64))
    order = np.lexsort((ids, -values))
    ids, values = ids[order], values[order]
    total = math.fsum(values)
    if total > 1 + EXCESS:
        raise InvalidDistribution(f"the probabilities of {told} tokens add up to {total}")
    if told == vocabulary_size and total < 1 - EXCESS:
        raise InvalidDistribution(f"the probabilities of all tokens add up to {total}")
    # of all tokens the sum is 1, and of some at most that: the difference is rounding
    return ids, values / total if total > 1 or told == vocabulary_size else values
