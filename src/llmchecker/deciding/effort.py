"""What an answer may cost, and how certain it must be."""

import math
from dataclasses import dataclass

from llmchecker.errors import InvalidEstimate

CONFIDENCES = (0.001, 0.999999999)
"""What a confidence may be: closer to 0 or 1, parts of what it leaves out would be rounded away."""


@dataclass(frozen=True)
class Effort:
    """What an answer may cost, and how certain it must be.

    Attributes:
        width: of the interval that is wanted, whether it is certain or holds with confidence. 0
            asks for the narrowest interval that the budget allows.
        passes: how many texts the model may be asked about; None for no limit.
        seconds: how long the answer may take; None for no limit.
        confidence: with which the interval of the estimate holds.
        seed: of the samples.
        certain: whether only certain bounds are wanted and no estimate.

    Raises:
        InvalidEstimate: a value out of its range, or no limit at all.
    """

    width: float = 0.0
    passes: int | None = None
    seconds: float | None = None
    confidence: float = 0.99
    seed: int = 0
    certain: bool = False

    def __post_init__(self) -> None:
        _require_limits(self)
        seconds = self.seconds
        _require("seconds", seconds, seconds is None or 0 < seconds < math.inf, "above 0")
        if self.passes is None and self.seconds is None and self.width == 0:
            raise InvalidEstimate("a width, a number of passes or of seconds must end the work")


@dataclass(frozen=True)
class Sampling:
    """How many samples of what a tree leaves open are drawn, and how certain they must make.

    Several limits allow the smallest of the numbers that they give. None of them is a time: the
    samples are the same on every machine.

    Attributes:
        samples: the largest number; None for no limit.
        width: that the interval must not exceed, however the samples come out. Of a conditional
            this is the width of each of the two intervals that it is divided from. 0 for no limit.
        passes: about how many texts the model may be asked about; None for no limit.
        confidence: with which the interval holds.
        seed: of the samples.

    Raises:
        InvalidEstimate: a value out of its range, or no limit at all.
    """

    samples: int | None = None
    width: float = 0.0
    passes: int | None = None
    confidence: float = 0.99
    seed: int = 0

    def __post_init__(self) -> None:
        _require_limits(self)
        _require("samples", self.samples, self.samples is None or self.samples >= 1, "at least 1")
        if self.samples is None and self.passes is None and self.width == 0:
            raise InvalidEstimate("samples, width or passes must say how many samples are drawn")


@dataclass(frozen=True)
class Budget:
    """When a refinement stops: as soon as one of these limits is reached.

    Attributes:
        width: the refinement stops when the bounds of every formula are at most this wide.
        passes: how many texts the model may be asked about; answers that were stored count too, so
            that the tree does not depend on the store. None for no limit.
        seconds: how long the refinement may take; looked at between two batches. None for no limit.
            With a limit the tree depends on the speed of the machine.
    """

    width: float = 0.0
    passes: int | None = None
    seconds: float | None = None


def _require(name: str, value: object, fits: bool, right: str) -> None:
    if not fits:
        raise InvalidEstimate(f"{name} is {value!r}; it must be {right}")


def _require_limits(limits: Effort | Sampling) -> None:
    """Refuse a value out of its range among those that both kinds of limits have."""
    passes, seed = limits.passes, limits.seed
    _require("width", limits.width, 0 <= limits.width <= 1, "from 0 to 1")
    _require("passes", passes, passes is None or passes >= 1, "at least 1")
    least, most = CONFIDENCES
    fits = least <= limits.confidence <= most
    _require("confidence", limits.confidence, fits, f"from {least} to {most}")
    _require("seed", seed, 0 <= seed < 2**64, "from 0 to 2^64 - 1")
