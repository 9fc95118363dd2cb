"""The values of samples with their limits, as bets read them."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class SampleValues:
    """The values of samples, in the order in which bets read them.

    Attributes:
        lower: (n,) float64, the numerators for the lower end of the interval.
        upper: (n,) float64, those for the upper end, from which only open answers differ.
        denominator: (n,) float64, 1 for a mean.
        low, high: (n,) float64, limits of each numerator.
        size: (n,) float64, the largest denominator.
    """

    lower: np.ndarray
    upper: np.ndarray
    denominator: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size: np.ndarray

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def is_ratio(self) -> bool:
        """Whether the denominators vary."""
        return bool((self.denominator != 1).any())

    def scale(self, offset: float, factor: float) -> "SampleValues":
        """Return the values `offset` + `factor` x of values x of a mean; a ratio has no scale."""
        if offset == 0 and factor == 1:
            return self
        columns = (self.lower, self.upper, self.low, self.high)
        lower, upper, low, high = (offset + factor * column for column in columns)
        return replace(self, lower=lower, upper=upper, low=low, high=high)

    def subtract(self, number: float) -> "SampleValues":
        """Return the distances from a mean or a ratio, as values of a mean."""
        ones = np.ones(len(self))
        return SampleValues(
            self.lower - number * self.denominator,
            self.upper - number * self.denominator,
            ones,
            self.low - number * self.size,
            self.high - number * self.size,
            ones,
        )
