"""Bets whether the mean of a list or a population exceeds a number, from values in random order.

Of N values from 0 to 1, n were read, with the sum S. If the mean of all is m, that of the others is
(N m - S) / (N - n), and in random order the next value is so on average. Bets on the difference

    x + S / (N - n) - m N / (N - n)

therefore never gain on average at the mean (Waudby-Smith and Ramdas 2020, "Confidence Sequences for
Sampling Without Replacement"). In a population, the next value is m on average.

Instead of a value, numbers may be known that are at most and at least the value on average, and
bounds L and H of the sum: bets that the mean is above m use the lower ones, bets that it is below
use the upper ones.
"""

from fractions import Fraction

from llmchecker.checking.anytime.confidence_sequence import RESOLUTION
from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence
from llmchecker.utils.interval import Interval


class MeanTest:
    """A test whether a mean is above or below a number, at every stop.

    Attributes:
        is_above: whether the mean is above the number; None while this is unknown.

    Args:
        count: number of values of the whole list; None for a population.
        number: the number, from 0 to 1.
        error_probability: the largest probability that `is_above` is ever wrong, and that one end
            of the interval is, besides the bounds of sums.
    """

    def __init__(self, count: int | None, number: float, error_probability: float) -> None:
        self.is_above: bool | None = None
        self._count, self._read = count, 0
        # a little beyond the number, so that the mean is not the number itself
        self._ends = tuple(number + sign * RESOLUTION for sign in (1, -1))
        # only one of the two can be wrong, so that each has the whole error probability
        self._evidences = tuple(
            ThresholdEvidence(error_probability, sign, end)
            for sign, end in zip((1, -1), self._ends, strict=True)
        )

    @property
    def interval(self) -> Interval:
        """An interval of the mean; with each end, it is wrong as rarely as twice `is_above`."""
        for evidence in self._evidences:
            evidence.narrow()
        lower, upper = (evidence.end for evidence in self._evidences)
        # what was refuted once stays so
        lower = max(lower, self._ends[0]) if self.is_above is True else lower
        upper = min(upper, self._ends[1]) if self.is_above is False else upper
        # the two cross as rarely as the interval misses
        return Interval(min(lower, upper), max(lower, upper))

    def add(self, low: float, high: float, sums: tuple[float, float], size: int = 1) -> None:
        """Read the next value, or the mean of the next ones.

        Args:
            low, high: numbers from 0 to 1, at most and at least the value on average.
            sums: bounds of the sum of the values before it.
            size: the number of values.
        """
        left = 1 if self._count is None else self._count - self._read
        scale = 1.0 if self._count is None else self._count / left
        for evidence, value, total in zip(self._evidences, (low, high), sums, strict=True):
            offset = 0.0 if self._count is None else total / left
            evidence.add(value + offset, offset, offset + 1, scale)
        self._read += size
        if self.is_above is None:
            above, below = (evidence.has_refuted_threshold for evidence in self._evidences)
            self.is_above = above if above or below else None


def is_sum_enough(total: Fraction, needed: Fraction, left: int) -> bool | None:
    """Return whether a sum reaches a number whatever values are left; None if they decide it.

    Args:
        total: the sum so far.
        needed: the number.
        left: the number of values left, each from 0 to 1.
    """
    if total >= needed:
        return True
    return False if total + left < needed else None
