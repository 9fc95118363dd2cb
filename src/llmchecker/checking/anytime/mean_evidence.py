"""Evidence about the mean of several probabilities, each with its own samples.

Every interval of one probability is wide after few samples, and so is the mean of such intervals.
But deviations of independent samples average out. Let y be the values of the samples of a
probability P: given the earlier ones, each has mean P and is between low and high. Weights w, whose
sum is at most 1, and guesses g between low and high depend on earlier values only. Then, for a
scale c and R = high - low,

    exp(c sum w (y - P) - sum ((y - g) / R)^2 psi(c w R)),    psi(x) = -log(1 - x) - x,

is 1 at first and is never expected to rise (Fan, Grama and Liu 2015, "Exponential Inequalities for
Martingales with Applications", EJP 20, lemma 4.1; Waudby-Smith and Ramdas 2024, theorem 2). Nor is
the product over all probabilities, if their random numbers are independent. By Markov's inequality
it exceeds 1/d with probability d at most. This bounds the sum of u P, where u is the sum of the
weights of a probability. The remaining (1 - u) P is within its certain bounds.

The last value may depend on earlier values only. A round that a limit interrupts depends on its
own: there every missing value counts as the worst one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmchecker.utils.stored_fields import COUNT, NUMBER, check_fields, list_of

SCALES = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
"""The scales c. The best one depends on the number of probabilities, samples and their variance."""

_MAX_STAKE = 0.5
"""The largest c w R; at 1 the penalty is infinite."""

_ROUNDING_MARGIN = 1e-9
"""A limit above the rounding errors of an end."""


@dataclass(frozen=True)
class MeanEvidence:
    """The sums of a probability's samples.

    Attributes:
        used: for each scale, the sum of the weights, at most 1.
        low_sums, high_sums: for each scale, the weighted sum of the values; the two differ by
            missing values.
        penalties: for each scale, the sum of the squared deviations times psi.
        total, number: the sum of the values and their number, for guesses.
    """

    used: tuple[float, ...] = (0.0,) * len(SCALES)
    low_sums: tuple[float, ...] = (0.0,) * len(SCALES)
    high_sums: tuple[float, ...] = (0.0,) * len(SCALES)
    penalties: tuple[float, ...] = (0.0,) * len(SCALES)
    total: float = 0.0
    number: int = 0

    def find_variance(self, scale: int) -> float:
        """Return about the variance of the weighted sum of the values.

        Args:
            scale: the index of the scale whose weights the sum has.
        """
        # psi(x) is about x^2 / 2
        return float(2 * self.penalties[scale] / SCALES[scale] ** 2)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "MeanEvidence":
        """Return the evidence whose attributes a JSON object has.

        Raises:
            TypeError, ValueError: the object has other content.
        """
        column = list_of(NUMBER, len(SCALES))
        names = ("used", "low_sums", "high_sums", "penalties")
        fields = {**dict.fromkeys(names, column), "total": NUMBER, "number": COUNT}
        check_fields(content, fields, "evidence")
        columns: dict[str, Any] = {
            name: tuple(map(float, column)) if isinstance(column, list) else column
            for name, column in content.items()
        }
        return cls(**columns)

    def add_round(
        self, values: np.ndarray, count: int, low: float, high: float, planned: float
    ) -> "MeanEvidence":
        """Return the evidence with a round of samples.

        Args:
            values: (n,) float64, the first values of the round, in order.
            count: the number of values that the round would have without a limit.
            low, high: the limits of each value.
            planned: the number of values, at least `count`, that are expected from the first of
                these on.
        """
        used = np.array(self.used)
        spread = max(high - low, math.ulp(1.0))
        weights = np.minimum((1 - used) / planned, _MAX_STAKE / (SCALES * spread))
        stakes = SCALES * weights * spread
        missing = count - len(values)
        sums = self.total + np.cumsum(values)
        # the middle of the range counts as one earlier value
        earlier = np.concatenate([[self.total], sums[:-1]]) + (low + high) / 2
        guesses = earlier / (self.number + np.arange(1, len(values) + 1))
        deviations = (values - guesses.clip(low, high)) / spread
        # with a value, the next guess is missing too
        square = float(deviations @ deviations) + missing
        sum_of_values = float(values.sum())
        return MeanEvidence(
            used=tuple((used + count * weights).tolist()),
            low_sums=_add(self.low_sums, weights * (sum_of_values + missing * low)),
            high_sums=_add(self.high_sums, weights * (sum_of_values + missing * high)),
            penalties=_add(self.penalties, square * (-np.log1p(-stakes) - stakes)),
            total=self.total + sum_of_values,
            number=self.number + len(values),
        )


def _add(column: Sequence[float], values: np.ndarray) -> tuple[float, ...]:
    return tuple((np.array(column) + values).tolist())


_NO_EVIDENCE = MeanEvidence()


@dataclass(frozen=True)
class Member:
    """A probability of a mean.

    Attributes:
        lower, upper: its certain bounds.
        evidence: its samples; None without any.
    """

    lower: float
    upper: float
    evidence: MeanEvidence | None


def bound_sums(
    members: Sequence[Member], error_probability: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bound the sum of the first n probabilities for every n, from independent samples.

    Args:
        members: the probabilities.
        error_probability: the largest probability that the bounds miss the sum for any n, as the
            product over the first n is never expected to rise either.

    Returns:
        (members + 1,) float64 each, the lower and the upper bounds for n = 0, 1, ….
    """
    # two ends, each with every scale
    target = math.log(2 * len(SCALES) / error_probability)
    # (members, scales) each
    evidence = [member.evidence or _NO_EVIDENCE for member in members]
    used, low_sums, high_sums, penalties = (
        np.array(column).reshape(-1, len(SCALES))
        for column in (
            [each.used for each in evidence],
            [each.low_sums for each in evidence],
            [each.high_sums for each in evidence],
            [each.penalties for each in evidence],
        )
    )
    lower, upper = (
        np.array([getattr(member, name) for member in members]).reshape(-1, 1)
        for name in ("lower", "upper")
    )
    margin = (_add_up(penalties) + target) / SCALES
    rounding = _ROUNDING_MARGIN * np.arange(len(members) + 1)
    lows = (_add_up(low_sums + (1 - used) * lower) - margin).max(axis=1) - rounding
    highs = (_add_up(high_sums + (1 - used) * upper) + margin).min(axis=1) + rounding
    # without samples no margin is needed
    return (
        np.maximum(lows, _add_up(lower)[:, 0] - rounding),
        np.minimum(highs, _add_up(upper)[:, 0] + rounding),
    )


def _add_up(columns: np.ndarray) -> np.ndarray:
    """Return (n + 1, k) the sums of the first 0, 1, … rows of (n, k)."""
    return np.concatenate([np.zeros((1, columns.shape[1])), columns.cumsum(axis=0)])
