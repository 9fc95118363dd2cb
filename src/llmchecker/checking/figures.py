"""Rows of figures as values, which each output renders itself.

certain [0.05, 0.9]; estimate [0.1, 0.5] with confidence 0.99
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmchecker.checking.interval import PROBABILITIES, Interval


@dataclass(frozen=True)
class Bar:
    """An interval to draw on an axis.

    Attributes:
        interval: the interval.
        axis: the ends of the axis.
    """

    interval: Interval
    axis: Interval = PROBABILITIES


@dataclass(frozen=True)
class Figure:
    """A formatted figure.

    Attributes:
        text: the figure, such as `[0.1, 0.5]`.
        detail: the words after it, such as ` with confidence 0.99`.
        bar: the interval to draw next to the figure; None for a figure without an axis.
        outcome: for a verdict, the value of its outcome; else None.
    """

    text: str
    detail: str = ""
    bar: Bar | None = None
    outcome: str | None = None

    def __str__(self) -> str:
        return self.text + self.detail


Row = tuple[Figure, ...]
"""The figures of a row."""
Rows = Mapping[str, Row]
"""The rows of an output by their names."""


def build_text_rows(texts: Mapping[str, str]) -> dict[str, Row]:
    """Build rows of one text each, by their names."""
    return {name: (Figure(text),) for name, text in texts.items()}


def format_row(row: Row) -> str:
    """Format the figures of a row as text."""
    return "; ".join(map(str, row))
