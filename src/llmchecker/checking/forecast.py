"""The forecast of the costs of a narrower answer: `about 4,000 passes (2 min) for a decision`."""

from dataclasses import dataclass

from llmchecker.utils.number_format import format_count


@dataclass(frozen=True)
class Forecast:
    """The expected costs of an answer that is as narrow as wanted.

    Attributes:
        passes: number of texts that the model evaluates in all, rounded.
        seconds: seconds of the whole computation, at the speed so far.
        width: the wanted width; None for an interval that excludes the threshold.
    """

    passes: int
    seconds: float
    width: float | None = None

    def __str__(self) -> str:
        goal = "for a decision" if self.width is None else f"for a width of {self.width:g}"
        costs = f"{format_count(self.passes, 'pass')} ({format_duration(self.seconds)})"
        return f"about {costs} {goal}"


def format_duration(seconds: float) -> str:
    """Format seconds with one unit: `40 s`, `2 min`, `3 h`, `5 d`."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    size, name = next((unit for unit in units if seconds >= unit[0]), units[-1])
    return f"{max(1, round(seconds / size)):,} {name}"
