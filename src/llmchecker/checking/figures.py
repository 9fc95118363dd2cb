"""Rows of figures as values, which each output renders itself.

certain [0.05, 0.9]; estimate [0.1, 0.5] with confidence 0.99
"""

from collections.abc import Mapping
from dataclasses import dataclass

from llmchecker.utils.interval import PROBABILITIES, Interval


@dataclass(frozen=True)
class Bar:
    """An interval to draw on an axis.

    Attributes:
        interval: the interval.
        axis: the ends of the axis.
        threshold: the number that the interval is compared with; None without one.
    """

    interval: Interval
    axis: Interval = PROBABILITIES
    threshold: float | None = None


@dataclass(frozen=True)
class Plot:
    """The intervals of rows to draw next to each other, in rising order.

    Attributes:
        rows: the intervals.
        average: the interval, axis and threshold of their average, or of their worst row.
        noun: the name of that number, such as `mean`.
        count: number of rows, of which those with an interval may be a part.
    """

    rows: tuple[Interval, ...]
    average: Bar
    noun: str
    count: int


@dataclass(frozen=True)
class ForestPlot:
    """The intervals of differences to draw below each other, on one axis.

    Attributes:
        rows: the name and the interval of each difference, with its threshold.
        axis: the ends of the axis, with 0 in the middle.
        count: number of differences, of which the rows may be a part.
    """

    rows: tuple[tuple[str, Bar], ...]
    axis: Interval
    count: int


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
_NAME_WIDTH = 13
"""The smallest width of the column of names in a text."""


@dataclass(frozen=True)
class TextList:
    """A list of texts under a heading.

    Attributes:
        heading: the line above the texts.
        texts: probability and text of each row.
    """

    heading: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rows:
    """The rows of an output: figures, notes and texts.

    Attributes:
        figures: the figures of each row by its name.
        notes: sentences after the figures.
        lists: the lists of texts after the notes.
    """

    figures: Mapping[str, Row]
    notes: tuple[str, ...] = ()
    lists: tuple[TextList, ...] = ()


def build_text_rows(texts: Mapping[str, str]) -> dict[str, Row]:
    """Build rows of one text each, by their names."""
    return {name: (Figure(text),) for name, text in texts.items()}


def format_row(row: Row) -> str:
    """Format the figures of a row as text."""
    return "; ".join(map(str, row))


def format_rows(rows: Rows) -> str:
    """Format rows as text: a line for each figure, note and text."""
    figures = [(name, format_row(row)) for name, row in rows.figures.items()]
    width = max(_NAME_WIDTH, *(len(name) + 2 for name in rows.figures))
    pairs = [*figures, *(("note", note) for note in rows.notes)]
    lines = [f"{name:<{width}}{text}" for name, text in pairs]
    for each in rows.lists:
        lines += ["", each.heading]
        lines += [f"  {probability:<12}{text}" for probability, text in each.texts]
    return "\n".join(lines)
