"""Continuations that a model samples, with its most probable tokens at every position."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class ContinuationTask:
    """A text whose continuation a model samples in proportion to its probabilities.

    Attributes:
        tokens: the token ids after the prompt.
        max_tokens: largest number of tokens of the continuation, at least 1.
        seed: determines the continuation, as far as the server's arithmetic does. The tasks of a
            check have different seeds, so that their random numbers are independent.
        excluded: token ids that the first token must not be; empty for none.
        second_seed: the seed of the tokens after the first, where tokens are excluded.
    """

    tokens: tuple[int, ...]
    max_tokens: int
    seed: int
    excluded: tuple[int, ...] = ()
    second_seed: int = 0

    def join_prompt(self, tail: Sequence[int]) -> "ContinuationTask":
        """Return the task for a prompt without its last tokens, which the text begins with."""
        return replace(self, tokens=(*tail, *self.tokens))


@dataclass(frozen=True)
class Continuation:
    """A sampled continuation.

    The server may end it earlier than requested.

    Attributes:
        tokens: (m,) int64, at least one token.
        listed_tokens: (positions, listed) int64, the most probable tokens at the last positions;
            the first position has none where tokens were excluded.
        probabilities: (positions, listed) float64, of these.
    """

    tokens: np.ndarray
    listed_tokens: np.ndarray
    probabilities: np.ndarray
