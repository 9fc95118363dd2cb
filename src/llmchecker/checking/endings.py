"""Endings: how much of the answers had ended at the horizon, which a verdict states.

A text that the horizon cuts is a beginning: the model would continue it. A requirement about whole
answers, such as a largest number of words, may change its truth there.
"""

import math
from dataclasses import dataclass

from llmchecker.checking.interval import PROBABILITIES, Interval
from llmchecker.utils.number_format import format_count

ROUNDING = 1e-9
"""A limit above the rounding error of a sum of probabilities of texts."""


@dataclass(frozen=True)
class Endings:
    """Probabilities of texts that ended within the horizon, and of texts that it cuts.

    Attributes:
        ended: certain bounds of the probability that a text ends within the horizon.
        cut: an upper bound of the probability that the horizon cuts a text which no earlier token
            decides.
    """

    ended: Interval = PROBABILITIES
    cut: float = 1.0

    def narrow(self, other: "Endings") -> "Endings":
        """Return the bounds that both share."""
        lower = max(self.ended.lower, other.ended.lower)
        upper = max(lower, min(self.ended.upper, other.ended.upper))
        return Endings(Interval(lower, upper), min(self.cut, other.cut))


def describe_endings(horizon: int, endings: Endings) -> str:
    """Describe a horizon: `within 6 tokens; 0.00 of the answers had ended`."""
    return f"within {format_count(horizon, 'token')}; {_describe_share(endings.ended)}"


def _describe_share(ended: Interval) -> str:
    lower, upper = format_share(ended)
    if (lower, upper) == ("0.00", "1.00"):
        return "it is unknown how many of the answers had ended"
    share = lower if lower == upper else f"{lower} to {upper}"
    return f"{share} of the answers had ended"


def format_share(share: Interval) -> tuple[str, str]:
    """Format the ends of a share with two digits, rounded outwards but for rounding errors."""
    slack = 100 * 4 * ROUNDING
    lower, upper = (
        math.floor(100 * share.lower + slack) / 100,
        math.ceil(100 * share.upper - slack) / 100,
    )
    return f"{lower:.2f}", f"{upper:.2f}"
