"""Control variates: predictions of what follows a text, from earlier rounds of samples.

The prediction of a drawn text is subtracted, and its exact mean over all texts that could have been
drawn is added. So the mean of a value stays, and only the error of the prediction varies (Owen
2013, "Monte Carlo theory, methods and examples", section 8.9).
"""

import numpy as np

_PRIOR_COUNT = 2.0
"""The weight of the coarser situation's share, in samples."""


class SituationPredictor:
    """Predictions of a text's numerator by its situation, learned from samples.

    A situation of `PartialTree` has few samples at first. So its prediction shrinks towards that of
    all texts with equal step and obligations, which shrinks towards the mean of all samples. Texts
    in the `rest` of a text have a situation of their own.
    """

    def __init__(self) -> None:
        self._counts, self._sums = np.zeros((2, 0))
        self._coarse = np.zeros(0, dtype=np.int64)

    def learn(self, situations: np.ndarray, is_rest: np.ndarray, values: np.ndarray) -> None:
        """Add samples.

        Args:
            situations: (n,) int64, of the texts.
            is_rest: (n,) bool, whether the value is that of the text's `rest` only.
            values: (n,) float64, the numerators that the samples gave from there on.
        """
        keys = 2 * situations + is_rest
        np.add.at(self._counts, keys, 1.0)
        np.add.at(self._sums, keys, values)

    def update_situations(self, coarse_situation: dict[int, int], count: int) -> None:
        """Make room for the situations of a tree.

        Args:
            coarse_situation: as in `PartialTree`.
            count: number of situations, coarse ones included.
        """
        added = 2 * count - len(self._counts)
        self._counts = np.append(self._counts, np.zeros(added))
        self._sums = np.append(self._sums, np.zeros(added))
        coarse = np.arange(count)
        coarse[list(coarse_situation)] = list(coarse_situation.values())
        self._coarse = coarse

    @property
    def mean(self) -> float:
        """The mean of all samples, which starts at 0.5."""
        return float((self._sums.sum() + 0.5) / (self._counts.sum() + 1))

    def predict_all(self) -> np.ndarray:
        """Return (situations, 2) the predictions for texts and for their `rest`."""
        counts, sums = self._counts.reshape(-1, 2), self._sums.reshape(-1, 2)
        coarse_counts, coarse_sums = np.zeros_like(counts), np.zeros_like(sums)
        np.add.at(coarse_counts, self._coarse, counts)
        np.add.at(coarse_sums, self._coarse, sums)
        coarse = (coarse_sums + _PRIOR_COUNT * self.mean) / (coarse_counts + _PRIOR_COUNT)
        return (sums + _PRIOR_COUNT * coarse[self._coarse]) / (counts + _PRIOR_COUNT)
