"""The interval of an anytime check's samples, and the limits of their control variates.

A sample bets on the values of later ones. What a bet uses, such as the limit of control variates
and the expected variance, depends on earlier samples only.
"""

import math

import numpy as np

from llmchecker.checking.anytime.confidence_sequence import (
    LEAST_VARIANCE,
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.control_variates import CORRECTION_LIMITS
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.anytime.path_sampler import SampleRound, UndecidedPart
from llmchecker.checking.sample_values import SampleValues

_MIN_MEASURED_SAMPLES = 16
"""The least number of samples that choose a limit of control variates."""


class SampleInterval:
    """The interval of samples of an explored tree.

    Args:
        estimand: what the samples estimate.
        confidence: confidence of the interval.
        threshold: the threshold that the interval is compared with; None without one.
    """

    def __init__(self, estimand: Estimand, confidence: float, threshold: float | None) -> None:
        self._estimand, self._confidence, self._threshold = estimand, confidence, threshold
        self._sequence = ConfidenceSequence(confidence, threshold)
        self._mean_evidence = MeanEvidence()
        # for each limit of control variates, the values of all samples in units of U
        self._unit_values = np.zeros((len(CORRECTION_LIMITS), 0))
        self._has_condition = False

    def __len__(self) -> int:
        return len(self._sequence)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval, not cut to the certain bounds; None without samples."""
        if len(self) == 0:
            return None
        low, high = (self._estimand.to_answer(end) for end in self._sequence.interval)
        return low, high

    @property
    def estimate(self) -> float | None:
        """The mean of the samples; None if no sample meets the condition of a conditional."""
        if len(self) == 0 or not self._has_condition:
            return None
        return self._estimand.to_answer(self._sequence.estimate)

    @property
    def values(self) -> SampleValues:
        """The values of the samples, in units of the answer."""
        return self._sequence.values.scale(self._estimand.offset, self._estimand.size)

    @property
    def mean_evidence(self) -> MeanEvidence | None:
        """The evidence about a mean of probabilities; None without samples."""
        if self._estimand.is_ratio or self._estimand.is_score:
            return None
        # a round without a complete sample counts too
        return self._mean_evidence if any(self._mean_evidence.used) else None

    def add_round(self, samples: SampleRound, planned: float) -> None:
        """Add the values of a round, up to the first missing one.

        Which samples are incomplete depends on their texts. All values before the first of them
        may be used, as the interval holds at every time, but no further bet may follow.

        Args:
            samples: the round.
            planned: the number of values that were expected from the first of the round on.
        """
        count, part = samples.complete_count, samples.part
        index = self._choose_limit(part, planned)
        numerator = samples.numerator - samples.corrections.sums[index]
        self._mean_evidence = self._mean_evidence.add_round(
            part.numerator + part.total * numerator[:count],
            len(samples.is_complete),
            *_find_range(part, index),
            planned,
        )
        start = 0
        while start < count:
            # bets on later values use what the earlier ones show
            if start > 0:
                index = self._choose_limit(part, planned - start)
            stop = min(count, start + max(len(self), _MIN_MEASURED_SAMPLES))
            self._narrow(samples, slice(start, stop), index, planned - start)
            start = stop

    def _narrow(self, samples: SampleRound, chosen: slice, index: int, planned: float) -> None:
        """Narrow the interval by some samples of a round.

        Args:
            samples: the round.
            chosen: the samples, all of them complete.
            index: the index of the limit of control variates.
            planned: the number of values that are expected from the first of these on.
        """
        part, (low, high) = samples.part, _find_range(samples.part, index)
        is_ratio = self._estimand.is_ratio
        ratio = self._sequence.estimate if is_ratio else 0.0
        denominator = samples.denominator[chosen]
        # a row for each limit of control variates
        numerators = samples.numerator[chosen] - samples.corrections.sums[:, chosen]
        unit_values = numerators - ratio * denominator
        variances = predict_variances(self._unit_values[index], unit_values[index])
        self._sequence.narrow_interval(
            Values(
                numerator=part.numerator + part.total * numerators[index],
                denominator=(
                    part.denominator + part.total * denominator
                    if is_ratio
                    else np.ones(len(denominator))
                ),
                low=low,
                high=high,
                size=part.largest_denominator,
                variances=np.maximum(part.total**2 * variances, LEAST_VARIANCE),
                planned=planned,
            )
        )
        met = part.denominator + part.total * denominator.max() if is_ratio else 1.0
        self._has_condition = self._has_condition or met > 0
        self._unit_values = np.concatenate([self._unit_values, unit_values], axis=1)

    def _choose_limit(self, part: UndecidedPart, planned: float) -> int:
        """Return the index of the limit of control variates that promises the least width.

        The width counts when passes end, or when a threshold is expected to be decided.

        Args:
            part: the undecided part of which the next values are.
            planned: the number of values that are expected from now on.
        """
        # a ratio needs values that are never negative
        if self._estimand.is_ratio or len(self) < _MIN_MEASURED_SAMPLES:
            return 0
        error = math.log(2 / (1 - self._confidence))
        count = len(self) + planned
        if self._threshold is not None:
            distance = abs(self._sequence.estimate - self._threshold) / part.total
            count = min(count, max(len(self), self._expect_decisive_count(distance, error)))

        variances = self._unit_values.var(axis=1)
        # few values may agree by chance, so each variance is drawn to that of plain values
        weight = len(self) / (len(self) + _MIN_MEASURED_SAMPLES)
        deviations = np.sqrt(weight * variances + (1 - weight) * variances[0])

        def expect_width(index: int) -> float:
            # the width of an interval of means, and the part that the range of values costs
            return 2 * float(deviations[index]) * math.sqrt(2 * error / count) + (
                float(1 + CORRECTION_LIMITS[index].sum()) * error / count
            )

        return min(range(len(CORRECTION_LIMITS)), key=expect_width)

    def _expect_decisive_count(self, distance: float, error: float) -> float:
        """Return the number of samples that a decision of the threshold needs at best.

        The logarithm of the fastest wealth grows by s^2 / (2 v) with a value of variance v whose
        mean is s from the threshold (Kelly 1956, "A New Interpretation of Information Rate").
        """
        if distance == 0:
            return math.inf
        ratio = float(self._unit_values[0].std()) / distance
        # a product may be infinite, where a power raises an error
        return 2 * error * ratio * ratio


def _find_range(part: UndecidedPart, index: int) -> tuple[float, float]:
    """Return the least and the largest numerator of a sample with a limit of control variates."""
    below, above = CORRECTION_LIMITS[index].tolist()
    return part.numerator - part.total * above, part.numerator + part.total * (1 + below)
