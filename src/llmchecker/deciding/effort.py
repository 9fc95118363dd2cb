"""What an answer may cost, and how certain it must be."""

import math
from dataclasses import dataclass

from llmchecker.errors import InvalidEstimate


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
        for name, wrong, right in (
            ("width", not 0 <= self.width <= 1, "from 0 to 1"),
            ("passes", self.passes is not None and self.passes < 1, "at least 1"),
            ("seconds", not (self.seconds is None or 0 < self.seconds < math.inf), "above 0"),
            ("confidence", not 0 < self.confidence < 1, "between 0 and 1"),
            ("seed", not 0 <= self.seed < 2**64, "from 0 to 2^64 - 1"),
        ):
            if wrong:
                raise InvalidEstimate(f"{name} is {getattr(self, name)!r}; it must be {right}")
        if self.passes is None and self.seconds is None and self.width == 0:
            raise InvalidEstimate("a width, a number of passes or of seconds must end the work")
