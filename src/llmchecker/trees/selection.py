"""TOP(alpha, k): which tokens of a next-token distribution are kept (Gross et al., Def. III.4)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llmchecker.errors import InvalidBound, InvalidDistribution

# torch takes seconds to import; who only reads stored selections need not wait for it
if TYPE_CHECKING:
    from torch import Tensor

    from llmchecker.models.distributions import Distributions
    from llmchecker.serving.heads import Heads

CANCELLATION = 1e-6
"""A smaller rest is summed from its own tokens, because 1 - sum would lose its digits."""

HEAD = 32
"""The smallest number of tokens that a selection reports, selected or not.

Other truncations of the same distributions may need them.
"""


@dataclass(frozen=True)
class Selection:
    """What TOP(alpha, k) selects in each of n distributions.

    Attributes:
        tokens: (n, m) int64, by falling probability; row i selects its first `counts[i]`. One
            more is told if there is one: a probability of 0 behind those says that they are all.
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


def select(distributions: "Distributions | Heads", alpha: float, k: int) -> Selection:
    """Select as `top_alpha_k` does, from distributions that need not be divided by their sums.

    Raises:
        InvalidBound: also if the distributions are heads of fewer than k tokens.
    """
    if not 0 <= alpha <= 1 or k < 1:
        raise InvalidBound(f"alpha={alpha!r}, k={k!r}: alpha must lie in [0, 1], k be at least 1")
    needed = min(k, distributions.vocabulary_size)
    values, tokens = distributions.most_probable(max(needed, min(HEAD, distributions.told)))
    probabilities = values.cpu().numpy()
    counts, rest = _counts_and_rest(probabilities, alpha, k)
    for row in np.flatnonzero(rest < CANCELLATION):
        rest[row] = distributions.of_others(row, tokens[row, : counts[row]])
    width = min(max(counts.max() + 1, HEAD), values.shape[1])
    return Selection(tokens[:, :width].cpu().numpy(), probabilities[:, :width], counts, rest)


def reselect(
    tokens: np.ndarray,
    probabilities: np.ndarray,
    alpha: float,
    k: int,
    least_rest: float = CANCELLATION,
) -> tuple[Selection, np.ndarray]:
    """Select from what another selection reported, with the bits of `top_alpha_k`.

    Args:
        tokens: (n, m) int64, the most probable tokens of each row by falling probability.
        probabilities: (n, m) float64, of these tokens; NaN after the last one that is known.
        least_rest: a rest below this is not 1 - sum. It is 0 for heads, of which no more is told.

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
    if least_rest == 0:
        return Selection(tokens, probabilities, counts, np.maximum(rest, 0.0)), ends
    # tokens behind one of probability 0 have 0 too, and so have those that are not known
    zeros = (known & (probabilities == 0)).any(axis=1)
    nothing = zeros & (counts == (probabilities > 0).sum(axis=1))
    rest[nothing] = 0.0
    return Selection(tokens, probabilities, counts, rest), ends & (nothing | (rest >= least_rest))


def _counts_and_rest(values: np.ndarray, alpha: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """How many of the falling values each row selects, and 1 minus their sum.

    The values are added one after the other, so that a sum does not depend on later values.

    Raises:
        InvalidDistribution: nothing can be selected in a row, for example because it is NaN.
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
