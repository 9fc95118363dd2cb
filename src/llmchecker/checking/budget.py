"""Limits on the costs of an answer, and its confidence."""

import math
import time
from dataclasses import dataclass
from numbers import Integral

from llmchecker.errors import InvalidEstimate

CONFIDENCE_RANGE = (0.001, 0.999999999)
"""The valid confidences.

Nearer to 0 or 1, shares of the error probability would be rounded away.
"""


@dataclass(frozen=True)
class Budget:
    """The limits on the costs of an answer, and its confidence.

    Attributes:
        width: wanted width of the interval, either certain or with confidence. 0 requests the
            narrowest interval that the budget allows.
        passes: maximum number of texts that the model evaluates; None for no limit.
        seconds: maximum seconds of the whole computation; None for no limit.
        confidence: confidence of the interval of the estimate.
        seed: seed of the samples.
        certain: whether to compute certain bounds only, without an estimate.
        answers: maximum number of answers of a model that returns texts alone.

    Raises:
        InvalidEstimate: a value is out of its range, or no limit is set.
    """

    width: float = 0.0
    passes: int | None = None
    seconds: float | None = None
    confidence: float = 0.99
    seed: int = 0
    certain: bool = False
    answers: int = 500

    def __post_init__(self) -> None:
        passes, seconds, seed = self.passes, self.seconds, self.seed
        _check("width", self.width, 0 <= self.width <= 1, "from 0 to 1")
        _check("answers", self.answers, self.answers >= 1, "at least 1")
        _check("passes", passes, passes is None or passes >= 1, "at least 1")
        _check("seconds", seconds, seconds is None or 0 < seconds < math.inf, "above 0")
        low, high = CONFIDENCE_RANGE
        is_valid = low <= self.confidence <= high
        _check("confidence", self.confidence, is_valid, f"from {low} to {high}")
        # a seed is half of a 128-bit key; the sample number is the other half
        is_valid = isinstance(seed, Integral) and 0 <= seed < 2**64
        _check("seed", seed, is_valid, "a whole number from 0 to 2^64 - 1")
        # other integers, such as numpy's, overflow
        object.__setattr__(self, "seed", int(seed))
        # without a limit the work ends only when everything is decided
        if passes is None and seconds is None and self.width == 0:
            raise InvalidEstimate("budget: no limit ends the work; set passes, seconds or a width")

    def is_late(self, start_time: float) -> bool:
        """Return whether the seconds since a start, by `time.monotonic`, are used up."""
        return self.seconds is not None and time.monotonic() - start_time >= self.seconds


def _check(name: str, value: object, is_valid: bool, requirement: str) -> None:
    if not is_valid:
        raise InvalidEstimate(f"{name}: {value!r} is out of range; it must be {requirement}")
