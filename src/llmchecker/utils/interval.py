"""Intervals of numbers and of truth values, with ends that are rounded outwards."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from llmchecker.errors import InvalidEstimate


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval, which contains the answer to a query.

    The ends of a number are its least and its greatest possible value. An end without a limit is
    infinite. For a query without =? the ends are whether it surely holds and whether it may hold:
    (True, True) is true, (False, False) is false, and (False, True) is unknown.

    Attributes:
        lower, upper: the two ends.

    Raises:
        InvalidEstimate: an end is NaN.
    """

    lower: float | bool
    upper: float | bool

    def __post_init__(self) -> None:
        # nothing computed from NaN may look like an answer
        if math.isnan(self.lower) or math.isnan(self.upper):
            raise InvalidEstimate(f"interval: {self} contains NaN; please report this")

    @property
    def width(self) -> float:
        """The distance of the ends."""
        return self.upper - self.lower

    @property
    def is_exact(self) -> bool:
        """Whether both ends are equal, so that the answer is known."""
        return self.lower == self.upper

    def clip(self, number: float) -> float:
        """Return the number of the interval that is nearest to a number."""
        return min(max(number, self.lower), self.upper)

    def cut(self, other: "Interval") -> "Interval":
        """Return the part of another interval that is in this one.

        Ends of the other interval in the wrong order are exchanged. If the intervals are disjoint,
        the part is the end of this interval that is nearest to the other: the bounds are right, and
        an interval that misses them is wrong.
        """
        low, high = min(other.lower, other.upper), max(other.lower, other.upper)
        return Interval(self.clip(low), max(min(high, self.upper), self.lower))

    def __sub__(self, other: "Interval") -> "Interval":
        """Return the interval of the differences, with its ends rounded outwards."""
        return Interval(
            _subtract_down(self.lower, other.upper),
            -_subtract_down(other.lower, self.upper),
        )


PROBABILITIES = Interval(0.0, 1.0)
"""The interval of all probabilities."""
DIFFERENCES = Interval(-1.0, 1.0)
"""The interval of all differences of two probabilities."""
NUMBERS = Interval(-math.inf, math.inf)
"""The interval of all numbers."""
TRUTHS = Interval(False, True)
"""The interval of both truth values: it is unknown whether a query holds."""


def average(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the mean of several numbers, with its ends rounded outwards."""
    intervals = list(intervals)
    lower, upper = (
        sum(map(Fraction, ends), Fraction()) / len(intervals)
        for ends in ([each.lower for each in intervals], [each.upper for each in intervals])
    )
    return round_interval(lower, upper)


def round_interval(lower: Fraction, upper: Fraction) -> Interval:
    """Return the interval of two exact ends, rounded outwards."""
    return Interval(_round_down(lower), -_round_down(-upper))


def _round_down(number: Fraction) -> float:
    """Return the greatest float64 that is at most a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def _subtract_down(minuend: float, subtrahend: float) -> float:
    """Return the greatest float64 that is at most the exact difference."""
    # an end without a limit leaves the difference without one
    if math.isinf(minuend) or math.isinf(subtrahend):
        return -math.inf
    return _round_down(Fraction(minuend) - Fraction(subtrahend))
