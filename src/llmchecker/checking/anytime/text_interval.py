"""The interval of a mean by the values of texts, of which some are open.

A value is a share of the range of a part. For the lower end of the interval, a part has the values
of one range, and for the upper end those of another, so that the means of the two enclose the mean.
An open value is the least one for the lower end, and the greatest one for the upper end.
"""

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import (
    LEAST_VARIANCE,
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence
from llmchecker.utils.interval import PROBABILITIES, Interval


class TextInterval:
    """The interval of a mean from 0 to 1.

    Attributes:
        shares: the values so far, for the lower and for the upper end.
        limits: the ranges of the values of the next round, for the two ends.

    Args:
        confidence: the confidence.
        threshold: a number that should be refuted as early as possible; None for the narrowest
            interval.
    """

    def __init__(self, confidence: float, threshold: float | None) -> None:
        self.limits: tuple[Interval, Interval] = (PROBABILITIES, PROBABILITIES)
        self.shares: tuple[list[float], list[float]] = ([], [])
        # the lower end is that of the first values, the upper end that of the second
        self._sequences: tuple[ConfidenceSequence, ...] = ()
        self._evidences: tuple[ThresholdEvidence, ...] = ()
        if threshold is None:
            # the sequences are for a number that is only estimated
            self._sequences = tuple(ConfidenceSequence(confidence) for _ in range(2))
        else:
            error = (1 - confidence) / 2
            self._evidences = tuple(ThresholdEvidence(error, sign, threshold) for sign in (1, -1))
        self._read_count = 0
        self._sum = self._weight = 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval."""
        if self._evidences:
            low, high = (each.end for each in self._evidences)
        else:
            low, high = self._sequences[0].interval[0], self._sequences[1].interval[1]
        # the two cross as rarely as the interval misses
        return min(low, high), max(low, high)

    @property
    def has_refuted_threshold(self) -> bool:
        """Whether the mean is beyond the threshold."""
        return any(each.has_refuted_threshold for each in self._evidences)

    @property
    def mean(self) -> float:
        """The mean of the values so far, weighted by the inverse square of their ranges."""
        return self._sum / self._weight

    def add(self, share: float | None) -> None:
        """Add a value, as a share of the range; None if it is open."""
        pair = (0.0, 1.0) if share is None else (share, share)
        for shares, each in zip(self.shares, pair, strict=True):
            shares.append(each)
        for evidence, each, limits in zip(self._evidences, pair, self.limits, strict=False):
            evidence.add(limits.lower + each * limits.width, limits.lower, limits.upper)

    def narrow(self, planned: float) -> None:
        """Narrow the interval by the values since the last round.

        Args:
            planned: the number of values that were expected from the first of these on.
        """
        done, count = self._read_count, len(self.shares[0])
        if done == count:
            return
        for evidence in self._evidences:
            evidence.narrow()
        for shares, limits in zip(self.shares, self.limits, strict=True):
            weight = 1 / max(limits.width, 2.0**-20) ** 2
            values = (limits.lower + each * limits.width for each in shares[done:])
            self._sum += weight * sum(values)
            self._weight += weight * (count - done)
        for sequence, shares, limits in zip(
            self._sequences, self.shares, self.limits, strict=False
        ):
            column = np.array(shares)
            variances = limits.width**2 * predict_variances(column[:done], column[done:])
            sequence.narrow_interval(
                Values(
                    numerator=limits.lower + limits.width * column[done:],
                    denominator=np.ones(count - done),
                    low=limits.lower,
                    high=limits.upper,
                    size=1.0,
                    variances=np.maximum(variances, LEAST_VARIANCE),
                    planned=planned,
                )
            )
        self._read_count = count
