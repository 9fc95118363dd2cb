"""TOP(alpha, k): selection of next tokens (Gross et al., Def. III.4)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llmchecker.errors import InvalidBound, InvalidDistribution
from llmchecker.models.servers.settings import LEAST_UNLISTED

# torch takes seconds to import, and code that only reads stored selections does not need it
if TYPE_CHECKING:
    from llmchecker.models.distribution import Distributions
    from llmchecker.models.servers.top_logprobs import TopLogprobs

CANCELLATION_THRESHOLD = 1e-6
"""Rest below which unselected tokens are summed, as 1 - sum loses digits."""

MIN_LISTED_TOKENS = 32
"""Minimum number of tokens that a selection reports, selected or not.

Other truncations of the same distributions may need them.
"""


@dataclass(frozen=True)
class Selection:
    """Tokens that TOP(alpha, k) selects in each of n distributions.

    Attributes:
        tokens: (n, m) int64, by decreasing probability; row i selects its first `counts[i]`. At
            least one more token is reported if the vocabulary has more. A probability of 0 after
            the selected tokens means that no other token has a probability above 0.
        probabilities: (n, m) float64, of these tokens.
        counts: (n,) int64, number of selected tokens, at least 1.
        rest: (n,) float64, probability of all tokens that are not selected.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    counts: np.ndarray
    rest: np.ndarray


def select_tokens(distributions: "Distributions | TopLogprobs", alpha: float, k: int) -> Selection:
    """Select each text's most probable next tokens until they hold `alpha`, at most `k`.

    Implements TOP(alpha, k), Definition III.4 of Gross et al. (2025). Ties go to the smaller token
    id. The selection is never empty and never renormalised: the remaining probability is the
    `rest`. With alpha = 1, rounding of a sum never ends the selection early. A token of probability
    0 is never selected, since no text continues with it.

    Args:
        distributions: full distributions, which may be unnormalised, or the most probable tokens
            that a server reports.
        alpha: probability that the selected tokens hold together, from 0 to 1.
        k: maximum number of selected tokens.

    Raises:
        InvalidBound: alpha outside [0, 1] or k < 1, or a server reports fewer than k tokens.
    """
    if not 0 <= alpha <= 1 or k < 1:
        raise InvalidBound(
            f"alpha={alpha!r}, k={k!r}: out of range; use alpha in [0, 1] and k of at least 1"
        )
    # a k above the vocabulary selects all tokens
    token_count = min(k, distributions.vocabulary_size)
    values, tokens = distributions.top_k(
        max(token_count, min(MIN_LISTED_TOKENS, distributions.listed_tokens))
    )
    probabilities, listed = values.cpu().numpy(), tokens.cpu().numpy()
    counts, rest = _compute_counts_and_rest(probabilities, alpha, k)
    rows = np.flatnonzero(rest < CANCELLATION_THRESHOLD)
    if len(rows):
        selected = [listed[row, : counts[row]] for row in rows]
        rest[rows] = distributions.masses_excluding(rows, selected)
    width = min(max(counts.max() + 1, MIN_LISTED_TOKENS), values.shape[1])
    return Selection(listed[:, :width], probabilities[:, :width], counts, rest)


def reselect_tokens(
    tokens: np.ndarray,
    probabilities: np.ndarray,
    alpha: float,
    k: int,
    min_rest: float = CANCELLATION_THRESHOLD,
) -> tuple[Selection, np.ndarray]:
    """Select from tokens of another selection, with the bits of `select_tokens`.

    Args:
        tokens: (n, m) int64, the most probable tokens of each row by decreasing probability.
        probabilities: (n, m) float64, of these tokens; NaN after the last known token.
        alpha, k: as in `select_tokens`.
        min_rest: a rest below this is not computed as 1 - sum. It is 0 for the tokens that a server
            reports, because no other tokens are available.

    Returns:
        A selection, and (n,) bool: the rows that equal those of `select_tokens`. The others need
        more tokens of the distribution.
    """
    is_known = ~np.isnan(probabilities)
    probabilities = np.where(is_known, probabilities, 0.0)
    counts, rest = _compute_counts_and_rest(probabilities, alpha, k)
    # a selection of all known tokens might have continued
    is_complete = (counts < is_known.sum(axis=1)) | (counts == k)
    if alpha < 1:
        is_complete |= probabilities.cumsum(axis=1)[:, -1] >= alpha
    # tokens after a token of probability 0 have 0 too, and so have the unknown tokens
    has_zero = (is_known & (probabilities == 0)).any(axis=1)
    has_no_rest = has_zero & (counts == (probabilities > 0).sum(axis=1))
    if min_rest == 0:
        least = np.where(has_no_rest, 0.0, LEAST_UNLISTED)
        return Selection(tokens, probabilities, counts, np.maximum(rest, least)), is_complete
    rest[has_no_rest] = 0.0
    return Selection(tokens, probabilities, counts, rest), is_complete & (
        has_no_rest | (rest >= min_rest)
    )


def _compute_counts_and_rest(
    values: np.ndarray, alpha: float, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of selected values of each row, and 1 minus their sum.

    The values are added in order, so that a sum does not depend on later values.

    Args:
        values: (n, m) float64, decreasing in each row.

    Raises:
        InvalidDistribution: a row has no value above 0, for example because of NaN.
    """
    sums = values.cumsum(axis=1)
    is_selected = values > 0
    is_selected[:, k:] = False
    # with alpha = 1 a rounded sum must not end the selection before k
    if alpha < 1:
        is_selected[:, 1:] &= sums[:, :-1] < alpha
    counts = is_selected.sum(axis=1)
    if (counts == 0).any():
        raise InvalidDistribution("distribution: no token has a probability above 0")
    return counts, 1 - sums[np.arange(len(sums)), counts - 1]
