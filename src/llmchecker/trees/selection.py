"""TOP(alpha, k): which tokens of a next-token distribution are kept (Gross et al., Def. III.4)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llmchecker.errors import InvalidBound, InvalidDistribution

# torch takes seconds to import, which what only reads stored selections need not wait for
if TYPE_CHECKING:
    from torch import Tensor

    from llmchecker.models.distributions import Distributions

CANCELLATION = 1e-6
"""A rest below this is summed from its own tokens: 1 - sum would lose its digits."""

HEAD = 32
"""Tokens that a selection reports at least, selected or not: other truncations may need them."""


@dataclass(frozen=True)
class Selection:
    """What TOP(alpha, k) selects in each of n distributions.

    Args:
        tokens: (n, m) int64, by falling probability; row i selects its first `counts[i]`.
        probabilities: (n, m) float64, of these tokens.
        counts: (n,) int64, at least 1.
        rest: (n,) float64, the probability of all tokens that are not selected.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    counts: np.ndarray
    rest: np.ndarray


def top_alpha_k(probabilities: "Tensor", alpha: float, k: int) -> Selection:
    """Select the most probable tokens of each row until they hold `alpha`, at most `k`.

    Implements TOP(alpha, k), Definition III.4 of Gross et al. (2025). Ties go to the smaller token
    id. The selection is never empty, and never renormalised: what it leaves out is the row's
    `rest`. With alpha = 1 no rounding of a sum ends it early. A token of probability 0 is never
    selected, since no text goes on with it.

    Args:
        probabilities: (n, vocabulary) float64, rows summing to 1.

    Raises:
        InvalidBound: alpha outside [0, 1] or k < 1.
        InvalidDistribution: a row is not finite, is negative somewhere or does not add up to 1.
    """
    from llmchecker.models.distributions import Distributions

    distributions = Distributions.of_probabilities(probabilities)
    if (row := distributions.invalid_row()) is not None:
        raise InvalidDistribution(f"row {row} holds no probabilities that add up to 1")
    return select(distributions, alpha, k)


def select(distributions: "Distributions", alpha: float, k: int) -> Selection:
    """Select as `top_alpha_k` does, from distributions that need not be divided by their sums."""
    if not 0 <= alpha <= 1 or k < 1:
        raise InvalidBound(f"alpha={alpha!r}, k={k!r}: alpha must lie in [0, 1], k be at least 1")
    values, tokens = distributions.most_probable(min(max(k, HEAD), distributions.vocabulary_size))
    probabilities = values.cpu().numpy()
    counts, rest = _counts_and_rest(probabilities, alpha, k)
    for row in np.flatnonzero(rest < CANCELLATION):
        rest[row] = distributions.of_others(row, tokens[row, : counts[row]])
    width = max(counts.max(), min(HEAD, values.shape[1]))
    return Selection(tokens[:, :width].cpu().numpy(), probabilities[:, :width], counts, rest)


def reselect(
    tokens: np.ndarray, probabilities: np.ndarray, alpha: float, k: int
) -> tuple[Selection, np.ndarray]:
    """Select by another truncation from what a selection reported, to the same bits.

    Args:
        tokens: (n, m) int64, the most probable tokens of each row by falling probability.
        probabilities: (n, m) float64, of these tokens; after the last that is known NaN.

    Returns:
        A selection, and (n,) bool: the rows for which it is what `top_alpha_k` returns. For the
        others more of the distribution would have to be known.
    """
    known = ~np.isnan(probabilities)
    probabilities = np.where(known, probabilities, 0.0)
    counts, rest = _counts_and_rest(probabilities, alpha, k)
    # a selection that takes all that is known might have gone on
    ends = (counts < known.sum(axis=1)) | (counts == k)
    if alpha < 1:
        ends |= probabilities.cumsum(axis=1)[:, -1] >= alpha
    return Selection(tokens, probabilities, counts, rest), ends & (rest >= CANCELLATION)


def _counts_and_rest(values: np.ndarray, alpha: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """How many of the falling values each row selects, and 1 minus their sum.

    They are added one after the other, so that the sum depends on nothing that comes after them.

    Raises:
        InvalidDistribution: in a row nothing can be selected, as when it is NaN.
    """
    sums = values.cumsum(axis=1)
    needed = values > 0
    needed[:, k:] = False
    if alpha < 1:
        needed[:, 1:] &= sums[:, :-1] < alpha
    counts = needed.sum(axis=1)
    if (counts == 0).any():
        raise InvalidDistribution("no token of a distribution has a probability above 0")
    return counts, 1 - sums[np.arange(len(sums)), counts - 1]
