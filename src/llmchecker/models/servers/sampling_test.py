"""A test whether a server samples its tokens from the probabilities that it returns.

A server with other sampling settings than its probabilities have would give wrong answers. For each
alternative distribution q of a token, the product of q(S) / p(S) over all sampled tokens S is a
martingale with mean 1 if the server samples from p. It ever exceeds 1/d with probability d at most
(Ville 1939, "Étude critique de la notion de collectif"), and grows fast if S is from q.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from llmchecker.errors import InvalidDistribution
from llmchecker.models.continuation import Continuation

_FALSE_ALARM = 1e-9
"""The largest probability of an alarm about a server that samples rightly."""

_TINY = float(np.finfo(np.float64).tiny)


def _temper(temperature: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the distribution at another temperature, the last column as one token."""

    def apply(cells: np.ndarray) -> np.ndarray:
        weights = cells ** (1 / temperature)
        tempered: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
        return tempered

    return apply


def _keep(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the distribution that top-p leaves, mixed with the whole one."""

    def apply(cells: np.ndarray) -> np.ndarray:
        # the most probable tokens come first
        is_kept = np.cumsum(cells, axis=1) - cells < share
        is_kept[:, -1] = False
        kept = np.where(is_kept, cells, 0.0)
        total = kept.sum(axis=1, keepdims=True)
        mixed: np.ndarray = 0.95 * kept / np.maximum(total, _TINY) + 0.05 * cells
        return np.where(total > 0, mixed, cells)

    return apply


_ALTERNATIVES = (
    *map(_temper, (0.5, 0.8, 1.25, 2.0)),
    *map(_keep, (0.0001, 0.9, 1.0)),
)
"""Temperatures below and above 1, the most probable token only, top-p 0.9, and listed tokens."""


class SamplingTest:
    """A test of the tokens that one server samples.

    It notices differences that many tokens show; a small difference stays unnoticed.

    Attributes:
        token_count: number of tokens so far.
    """

    def __init__(self) -> None:
        self.token_count = 0
        self._log_wealths = np.zeros(len(_ALTERNATIVES))
        self._limit = math.log(len(_ALTERNATIVES) / _FALSE_ALARM)

    def add(self, continuations: Sequence[Continuation]) -> None:
        """Add the tokens of continuations that have listed probabilities.

        Raises:
            InvalidDistribution: the server samples from another distribution.
        """
        listed = np.concatenate([each.listed_tokens for each in continuations])
        if len(listed) == 0:
            return
        # the first token has no list where tokens were excluded
        tokens = np.concatenate(
            [each.tokens[len(each.tokens) - len(each.listed_tokens) :] for each in continuations]
        )
        probabilities = np.concatenate([each.probabilities for each in continuations])
        cells = np.column_stack([probabilities, (1 - probabilities.sum(axis=1)).clip(min=_TINY)])
        matches = listed == tokens[:, np.newaxis]
        places = np.where(matches.any(axis=1), matches.argmax(axis=1), listed.shape[1])
        self.add_cells(cells, places, tokens.tolist())

    def add_cells(self, cells: np.ndarray, places: np.ndarray, tokens: Sequence[object]) -> None:
        """Add sampled tokens.

        Args:
            cells: (n, listed + 1) float64, the probabilities of the listed tokens by falling
                probability, and that of all others.
            places: (n,) int64, the column of each sampled token.
            tokens: the sampled tokens, for messages.

        Raises:
            InvalidDistribution: as in `add`.
        """
        rows = np.arange(len(cells))
        chosen = cells[rows, places]
        if (chosen <= 0).any():
            token = tokens[int(np.flatnonzero(chosen <= 0)[0])]
            raise InvalidDistribution(f"token: {token!r} was sampled but has probability 0")
        self.token_count += len(cells)
        for index, alternative in enumerate(_ALTERNATIVES):
            ratios = alternative(cells)[rows, places] / chosen
            self._log_wealths[index] += float(np.log(np.maximum(ratios, _TINY)).sum())
        if self._log_wealths.max() > self._limit:
            raise InvalidDistribution(
                "tokens: the sampled tokens do not follow the returned probabilities; let the "
                "server sample at temperature 1 without truncation and return log probabilities"
            )
