"""Control variates: predictions of a text's numerator, from earlier rounds.

The prediction of a drawn text is subtracted, and its exact mean over all texts that could have been
drawn is added. So the mean of a value stays, and only the error of the prediction varies (Owen
2013, "Monte Carlo theory, methods and examples", section 8.9).
"""

import numpy as np

from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.partial_tree import PartialTree

_PRIOR_COUNT = 2.0
"""The weight of the coarser prediction, in samples."""

_BUCKETS = 2**16
"""The number of buckets that pairs of situation and last token are hashed into.

Pairs that share a bucket only make predictions worse.
"""


class TextPredictor:
    """Predictions of a text's numerator, learned from samples.

    Three predictions are combined: that of the text's situation and last token, that of its
    situation, and the numerator if the text ended. Each shrinks towards the next one, as the first
    has few samples. Texts in the `rest` of a text have predictions of their own.

    Args:
        estimand: the estimated quantity.
    """

    def __init__(self, estimand: Estimand) -> None:
        self._estimand = estimand
        self._situations = np.zeros((2, 0, 2))
        # 2 MB, which a check without samples does not need
        self._buckets = np.zeros((2, 0, 2))

    def learn(
        self, tree: PartialTree, uids: np.ndarray, is_rest: np.ndarray, values: np.ndarray
    ) -> None:
        """Add samples.

        Args:
            tree: the tree of the texts.
            uids: (n,) int64, the texts.
            is_rest: (n,) int64, 1 where the value is that of the text's `rest` only.
            values: (n,) float64, the numerators that the samples gave from there on.
        """
        if self._buckets.size == 0:
            self._buckets = np.zeros((2, _BUCKETS, 2))
        added = tree.situation_count - self._situations.shape[1]
        self._situations = np.concatenate([self._situations, np.zeros((2, added, 2))], axis=1)
        situations = tree.situation[uids]
        for table, rows in (
            (self._situations, situations),
            (self._buckets, _find_buckets(situations, tree.token[uids])),
        ):
            np.add.at(table[0], (rows, is_rest), 1.0)
            np.add.at(table[1], (rows, is_rest), values)

    def predict(self, tree: PartialTree, uids: np.ndarray, is_rest: np.ndarray) -> np.ndarray:
        """Return (n,) the predictions of texts, or of their `rest` where `is_rest` is 1."""
        situations = tree.situation[uids]
        prediction = self._estimand.compute_numerator_if_ended(tree, uids)
        # situations that no earlier round met have no samples
        known = np.flatnonzero(situations < self._situations.shape[1])
        rows, rest = situations[known], is_rest[known]
        value = _shrink(self._situations, rows, rest, prediction[known])
        buckets = _find_buckets(rows, tree.token[uids[known]])
        prediction[known] = _shrink(self._buckets, buckets, rest, value)
        return prediction


def _find_buckets(situations: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return (situations * 1_000_003 + tokens) % _BUCKETS


def _shrink(
    table: np.ndarray, rows: np.ndarray, is_rest: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    """Return the means of a table's rows, shrunk towards a prior."""
    counts, sums = table[:, rows, is_rest]
    return (sums + _PRIOR_COUNT * prior) / (counts + _PRIOR_COUNT)
