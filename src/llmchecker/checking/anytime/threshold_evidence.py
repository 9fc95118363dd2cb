"""Evidence that a mean is above or below a threshold, by a mixture of bets.

A gambler with a fixed stake l bets that the mean is above m: a value x from a to b multiplies the
wealth, which is 1 at first, by 1 + l (x - m), and l is at most 1 / (m - a). If the mean is m or
less, the wealth is never expected to rise. Nor is the mean wealth W(m) of many gamblers, each with
a stake of its own. So it ever reaches 1/d with probability d at most (Ville 1939), and every m at
which it did is below the mean, except with probability d. As W falls with m, these m are all below
one point, which covers the mean at every time at once (see `confidence_sequence`).

For bits, the stake (p - t) / (t (1 - t)) is the best one at the threshold t if their mean is p: the
bet is the likelihood ratio of p and t (Wald 1945, "Sequential Tests of Statistical Hypotheses").
The mean p is unknown, so the stakes are those of all p beyond the threshold, in equal shares
(Robbins 1970, "Statistical Methods Related to the Law of the Iterated Logarithm"). This costs about
one and a half nats more than a known p, and no stake has to be learned from the values.

A value may have a size s: then x - s m takes the place of x - m, with the same inequalities.
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import RESOLUTION

_STAKES = 64
"""Number of stakes of the mixture."""
_ROUNDING_MARGIN = 1e-6
"""A limit above the rounding error of the logarithm of the wealth."""
_SHARES = (np.arange(_STAKES) + 0.5) / _STAKES
"""(64,) float64, the shares of the wealth that one value can lose at the threshold."""


class ThresholdEvidence:
    """The evidence about one end of the interval of a mean.

    Attributes:
        end: the last refuted number; it never moves back.

    Args:
        error_probability: the largest probability that the end is ever wrong.
        sign: 1 for the lower end, -1 for the upper end.
        threshold: the number that should be refuted as early as possible.
    """

    def __init__(self, error_probability: float, sign: int, threshold: float) -> None:
        self.end = 0.0 if sign > 0 else 1.0
        self._sign, self._threshold = sign, threshold
        self._target = _ROUNDING_MARGIN - math.log(error_probability) + math.log(_STAKES)
        # values with their limits and sizes
        self._counts: Counter[tuple[float, ...]] = Counter()
        # (64,) float64, the logarithms of the wealths at the threshold
        self._logs = np.zeros(_STAKES)
        self._factors: dict[tuple[float, ...], np.ndarray] = {}

    @property
    def has_refuted_threshold(self) -> bool:
        """Whether the mean is beyond the threshold."""
        return self._reaches_target(self._logs)

    def add(self, value: float, low: float = 0.0, high: float = 1.0, size: float = 1.0) -> None:
        """Read a value, with its limits and its size."""
        self._counts[key := (value, low, high, size)] += 1
        if key not in self._factors:
            self._factors[key] = self._compute_logs(self._threshold, np.array([key]))[0]
        self._logs = self._logs + self._factors[key]

    def narrow(self) -> None:
        """Move the end to the last number that the values so far refute."""
        if self._counts:
            self.end = _find_last_refuted(self.end, 1.0 if self._sign > 0 else 0.0, self._refutes)

    def _refutes(self, number: float) -> bool:
        counts = np.array(list(self._counts.values()))
        logs = self._compute_logs(number, np.array(list(self._counts)))
        return self._reaches_target(counts @ logs)

    def _compute_logs(self, number: float, values: np.ndarray) -> np.ndarray:
        """Return (n, 64) float64, the logarithms of factors of the wealth at a number.

        Args:
            number: the number.
            values: (n, 4) float64, values with their limits and sizes.
        """
        column, expected = values[:, :1], number * values[:, 3:]
        stakes = _SHARES / self._find_losses(self._threshold, values)
        # at a number beyond the threshold, a stake could lose more than the wealth
        stakes = np.minimum(stakes, _SHARES[-1] / self._find_losses(number, values))
        logs: np.ndarray = np.log1p(self._sign * (column - expected) * stakes)
        return logs

    def _reaches_target(self, logs: np.ndarray) -> bool:
        largest = logs.max()
        return bool(largest + math.log(np.exp(logs - largest).sum()) >= self._target)

    def _find_losses(self, number: float, values: np.ndarray) -> np.ndarray:
        """Return (n, 1) float64, the largest losses of bets on a number with a stake of 1."""
        low, high, sizes = values[:, 1:2], values[:, 2:3], values[:, 3:]
        losses = number * sizes - low if self._sign > 0 else high - number * sizes
        floored: np.ndarray = np.maximum(losses, RESOLUTION * sizes)
        return floored


def _find_last_refuted(
    refuted: float, open_number: float, is_refuted: Callable[[float], bool]
) -> float:
    """Return the last number that bets refute, by bisection: the wealth falls beyond it.

    Args:
        refuted: a refuted number.
        open_number: a number that is not refuted.
        is_refuted: whether bets refute a number.
    """
    while abs(open_number - refuted) > RESOLUTION:
        middle = (refuted + open_number) / 2
        if is_refuted(middle):
            refuted = middle
        else:
            open_number = middle
    return refuted
