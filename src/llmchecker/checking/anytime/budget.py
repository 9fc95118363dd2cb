"""Limits on the costs of an answer, and its confidence."""

import math
from dataclasses import dataclass

from llmchecker.errors import InvalidEstimate

_CONFIDENCE_RANGE = (0.001, 0.999999999)
"""The valid confidences.

Nearer to 0 or 1, shares of the error probability would be rounded away.
"""


@dataclass(frozen=True)
class AnswerBudget:
    """The limits on the costs of an answer, and its confidence.

    Attributes:
        width: wanted width of the interval, either certain or with confidence. 0 requests the
            narrowest interval that the budget allows.
        passes: maximum number of texts that the model evaluates; None for no limit.
        seconds: maximum seconds of the whole computation; None for no limit.
        confidence: confidence of the interval of the estimate.
        seed: seed of the samples.
        certain: whether to compute certain bounds only, without an estimate.

    Raises:
        InvalidEstimate: a value is out of its range, or no limit is set.
    """

    width: float = 0.0
    passes: int | None = None
    seconds: float | None = None
    confidence: float = 0.99
    seed: int = 0
    certain: bool = False

    def __post_init__(self) -> None:
        _check_limits(self)
        seconds = self.seconds
        _check("seconds", seconds, seconds is None or 0 < seconds < math.inf, "above 0")
        # without a limit the refinement ends only when everything is decided
        if self.passes is None and self.seconds is None and self.width == 0:
            raise InvalidEstimate("a width, a number of passes or of seconds must end the work")


@dataclass(frozen=True)
class SamplingPlan:
    """The number of samples from a tree's undecided mass, and their confidence.

    With several limits the smallest of their numbers counts. No limit is a time: the samples are
    the same on every machine.

    Attributes:
        samples: the largest number of samples; None for no limit.
        width: the largest width of the interval, for any outcome of the samples. For a conditional
            this is the width of each of the two intervals of its quotient. 0 for no limit.
        passes: approximate number of texts that the model may evaluate; None for no limit.
        confidence: confidence of the interval.
        seed: seed of the samples.

    Raises:
        InvalidEstimate: a value is out of its range, or no limit is set.
    """

    samples: int | None = None
    width: float = 0.0
    passes: int | None = None
    confidence: float = 0.99
    seed: int = 0

    def __post_init__(self) -> None:
        _check_limits(self)
        _check("samples", self.samples, self.samples is None or self.samples >= 1, "at least 1")
        # a number of samples must be fixed before the first is drawn
        if self.samples is None and self.passes is None and self.width == 0:
            raise InvalidEstimate("samples, width or passes must say how many samples are drawn")


@dataclass(frozen=True)
class RefinementBudget:
    """The limits of a refinement, which stops at the first limit that it reaches.

    Attributes:
        width: the refinement stops when the bounds of every formula are at most this wide.
        passes: maximum number of evaluated texts; cached texts count too, so that the tree does not
            depend on the cache. None for no limit.
        seconds: maximum seconds of the refinement, compared between two batches. None for no limit.
            With a limit the tree depends on the speed of the machine.
    """

    width: float = 0.0
    passes: int | None = None
    seconds: float | None = None


def _check(name: str, value: object, is_valid: bool, requirement: str) -> None:
    if not is_valid:
        raise InvalidEstimate(f"{name} is {value!r}; it must be {requirement}")


def _check_limits(limits: AnswerBudget | SamplingPlan) -> None:
    """Check the ranges of the values that both kinds of limits have."""
    passes, seed = limits.passes, limits.seed
    _check("width", limits.width, 0 <= limits.width <= 1, "from 0 to 1")
    _check("passes", passes, passes is None or passes >= 1, "at least 1")
    low, high = _CONFIDENCE_RANGE
    is_valid = low <= limits.confidence <= high
    _check("confidence", limits.confidence, is_valid, f"from {low} to {high}")
    # a seed is half of a 128-bit key; the sample number is the other half
    _check("seed", seed, 0 <= seed < 2**64, "from 0 to 2^64 - 1")
