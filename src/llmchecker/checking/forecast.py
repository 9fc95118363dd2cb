"""The forecast of the costs of a narrower answer: `about 4,000 passes (2 min) for a decision`."""

import math
from dataclasses import dataclass, replace

from llmchecker.utils.number_format import format_count


@dataclass(frozen=True)
class Forecast:
    """The expected costs of an answer that is as narrow as wanted.

    All costs are those of the whole computation, so each is above the costs so far.

    Attributes:
        passes: number of texts that the model evaluates, or of answers of a model that returns
            texts alone. None if it may as well be half or twice any number.
        seconds: the time of `passes`, or else of `least_passes`, at the speed so far; None where
            times are not stored.
        width: the wanted width; None for an interval that excludes the threshold.
        least_passes, most_passes: the limits of the passes, which hold with a probability of about
            80 %; None without a limit.
        samples_to_hold: number of samples without which no method of this confidence can show that
            the query holds, whatever they are; None if they are drawn.
        passes_to_hold: the passes of these samples; None if no sample has shown their costs.
        unit: the noun for a pass: `pass` or `answer`.
    """

    passes: int | None
    seconds: float | None
    width: float | None = None
    least_passes: int | None = None
    most_passes: int | None = None
    samples_to_hold: int | None = None
    passes_to_hold: int | None = None
    unit: str = "pass"

    def __str__(self) -> str:
        goal = "for a decision" if self.width is None else f"for a width of {self.width:g}"
        if self._shows_violation:
            goal = "until a violation may show"
        # a range has the time of its lower end
        since = "from " if self.passes is None else ""
        seconds = "" if self.seconds is None else f" ({since}{format_duration(self.seconds)})"
        costs = [f"{each}{seconds} {goal}" for each in self._list_costs()]
        return "; ".join([*costs, *self._list_limits()])

    @property
    def requirement(self) -> str:
        """What a decision needs: `about 4,000 passes would decide it`."""
        costs = [f"{each} would decide it" for each in self._list_costs()]
        if self._shows_violation:
            costs = [f"a violation may show after {each}" for each in self._list_costs()]
        return "; ".join([*costs, *self._list_limits()])

    @property
    def _shows_violation(self) -> bool:
        """Whether the limits begin where samples can show a violation alone."""
        to_hold = self.passes_to_hold or self.samples_to_hold
        is_range = self.passes is None and self.least_passes is not None
        return is_range and to_hold is not None and (self.least_passes or 0) < to_hold

    def without_times(self) -> "Forecast":
        """Return the forecast without what depends on the speed of a machine."""
        return replace(self, seconds=None)

    def scale(self, factor: float, unit: str) -> "Forecast":
        """Return the forecast where a pass is `factor` of another unit."""
        names = ("passes", "least_passes", "most_passes", "passes_to_hold")
        numbers = {name: getattr(self, name) for name in names}
        scaled = {k: each and math.ceil(each * factor) for k, each in numbers.items()}
        return replace(self, **scaled, unit=unit)

    def _list_costs(self) -> list[str]:
        if self.passes is not None:
            return [f"about {format_count(self.passes, self.unit)}"]
        if self.least_passes is None:
            return []
        if self.most_passes is None:
            return [f"about {format_count(self.least_passes, self.unit)} or more"]
        return [f"about {self.least_passes:,} to {format_count(self.most_passes, self.unit)}"]

    def _list_limits(self) -> list[str]:
        if self.samples_to_hold is None:
            return []
        is_answer = self.unit == "answer" and self.passes_to_hold == self.samples_to_hold
        needed = format_count(self.samples_to_hold, self.unit if is_answer else "sample")
        if not is_answer and self.passes_to_hold is not None:
            needed += f" (about {format_count(self.passes_to_hold, self.unit)})"
        return [f"to hold it needs at least {needed}"]


def format_duration(seconds: float) -> str:
    """Format seconds with one unit: `40 s`, `2 min`, `3 h`, `5 d`."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    size, name = next((unit for unit in units if seconds >= unit[0]), units[-1])
    return f"{max(1, round(seconds / size)):,} {name}"
