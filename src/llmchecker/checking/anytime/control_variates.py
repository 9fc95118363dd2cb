"""Control variates: predictions of a text's numerator, from earlier rounds.

The prediction of a drawn text is subtracted, and its exact mean over all texts that could have been
drawn is added. So the mean of a value stays, and only the error of the prediction varies (Owen
2013, "Monte Carlo theory, methods and examples", section 8.9).
"""

from itertools import product

import numpy as np

CORRECTION_LIMITS = np.array([(0.0, 0.0), *product((0.1, 0.3, 0.6, 1.0), repeat=2)])
"""The largest negative and positive sums of a sample's control variates, of which one is chosen.

A larger limit lets them remove more variance, but widens the range of the values.
"""

_PRIOR_COUNT = 2.0
"""The weight of the numerator if the text ended, in samples."""

_TINY = np.finfo(np.float64).tiny


class TextPredictor:
    """Predictions of a text's numerator, learned from samples.

    The prediction of a situation is the mean of its samples, shrunk towards the numerator if the
    text ended. A rest has a prediction of its own.
    """

    def __init__(self) -> None:
        # the number and the sum of the samples, by situation, of texts and of rests
        self._sums = np.zeros((2, 0, 2))

    def learn(self, situations: np.ndarray, is_rest: np.ndarray, values: np.ndarray) -> None:
        """Add samples.

        Args:
            situations: (n,) int64, the situations of texts.
            is_rest: (n,) bool, whether the value is that of the text's rest only.
            values: (n,) float64, the numerators that the samples gave from there on.
        """
        added = 1 + int(situations.max(initial=-1)) - self._sums.shape[1]
        if added > 0:
            self._sums = np.concatenate([self._sums, np.zeros((2, added, 2))], axis=1)
        rests = is_rest.astype(np.int64)
        np.add.at(self._sums[0], (situations, rests), 1.0)
        np.add.at(self._sums[1], (situations, rests), values)

    def predict(
        self, situations: np.ndarray, is_rest: np.ndarray, if_ended: np.ndarray
    ) -> np.ndarray:
        """Return (n,) the predictions of texts or of their rests.

        Args:
            situations, is_rest: as in `learn`.
            if_ended: (n,) float64, the numerators of the texts, as if each of them ended.
        """
        prediction = if_ended.astype(np.float64)
        # situations that no earlier round met have no samples
        known = np.flatnonzero(situations < self._sums.shape[1])
        counts, sums = self._sums[:, situations[known], is_rest[known].astype(np.int64)]
        prediction[known] = (sums + _PRIOR_COUNT * prediction[known]) / (counts + _PRIOR_COUNT)
        return prediction


class Corrections:
    """The sums of control variates of the samples of a round, for each limit.

    Attributes:
        sums: (limits, samples) float64.

    Args:
        count: number of samples.
    """

    def __init__(self, count: int) -> None:
        self.sums = np.zeros((len(CORRECTION_LIMITS), count))

    def add(
        self,
        samples: np.ndarray,
        weight: np.ndarray,
        drawn: np.ndarray,
        mean: np.ndarray,
        least: np.ndarray,
        largest: np.ndarray,
    ) -> None:
        """Add the control variate of a draw, within the limits of the sums.

        Args:
            samples: (n,) int64, the samples.
            weight: (n,) float64, their weights after the draw.
            drawn: (n,) float64, the prediction of what each sample drew.
            mean: (n,) float64, the exact mean of the predictions.
            least, largest: (n,) float64, limits of the predictions of everything that could be
                drawn and does not end the sample.
        """
        sums = self.sums[:, samples]
        below, above = CORRECTION_LIMITS.T[:, :, np.newaxis]
        # the factor is chosen before the draw: whatever is drawn, the sum stays within its limits
        room_above = (above - sums) / np.maximum(weight * (largest - mean), _TINY)
        room_below = (below + sums) / np.maximum(weight * (mean - least), _TINY)
        factors = np.minimum(room_above, room_below).clip(0.0, 1.0)
        self.sums[:, samples] = sums + factors * (weight * (drawn - mean))
