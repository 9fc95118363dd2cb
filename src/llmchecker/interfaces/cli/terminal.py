"""Answers on a terminal, by rich: colours, tables, and intervals drawn as bars.

Texts of models, prompts and files are data. Their control characters are escaped, and no text is
read as markup.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmchecker.interfaces.cli.output import escape_unencodable
from llmchecker.utils.printable_text import escape_unprintable

CERTAIN, ESTIMATE = "certain", "estimate"
"""The words of the bounds and of the interval with a confidence."""
GOOD, BAD, OPEN = "bold green", "bold red", "bold yellow"
"""The styles of outcomes: as required, not as required, and not known."""
_VERDICT_STYLES = {"HOLDS": GOOD, "VIOLATED": BAD, "UNKNOWN": OPEN, "undecided": OPEN}
"""The style of a verdict by its first word; others are bold."""
_SMALL_ROWS = ("states", "transitions", "passes", "seconds", "tree", "forecast")
"""The rows after the answer, besides that of the bounded process."""
_OUTCOME_WIDTH = 9
_MAX_BAR = 40
_MIN_BAR = 6
"""The widths of a drawn interval in characters, without the ends of its axis."""


@dataclass(frozen=True)
class Bar:
    """An interval to draw on an axis.

    Attributes:
        low, high: the ends of the interval.
        least, greatest: the ends of the axis.
    """

    low: float
    high: float
    least: float = 0.0
    greatest: float = 1.0

    def draw(self, width: int, ascii_only: bool = False) -> Text:
        """Draw the interval in a number of characters between the ends of the axis.

        A character of the interval covers at least one of its points.
        """
        line, interval = "-=" if ascii_only else "─━"
        scale = width / (self.greatest - self.least)
        begin = min(max(0, math.floor((self.low - self.least) * scale)), width - 1)
        end = min(max(begin + 1, math.ceil((self.high - self.least) * scale)), width)
        return Text.assemble(
            (f"{self.least:g} {line * begin}", "dim"),
            (interval * (end - begin), "bold cyan"),
            (f"{line * (width - end)} {self.greatest:g}", "dim"),
        )


Bars = Mapping[str, Bar]
"""The bars of a row by the words `certain` and `estimate`."""


def _create_console() -> Console:
    """Create the console of standard output; it reads NO_COLOR and COLUMNS."""
    escape_unencodable()
    return Console(highlight=False, markup=False, emoji=False)


def print_figures(
    rows: Mapping[str, str], bars: Mapping[str, Bars], notes: Sequence[str] = ()
) -> None:
    """Print named figures, with bars next to the intervals of a row, and notes."""
    console = _create_console()
    console.print(_build_figures(console, rows, bars, notes))


def print_texts(heading: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a heading and rows of a probability and a text."""
    grid = _create_grid(2)
    for probability, text in rows:
        grid.add_row(_create_text(f"  {probability}", "bold"), _create_text(text))
    console = _create_console()
    console.print()
    console.print(_create_text(heading, "bold"))
    console.print(grid)


def print_table(rows: Sequence[Sequence[str]], titles: Sequence[str] = ()) -> None:
    """Print rows in columns, under any titles."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=bool(titles),
        header_style="bold cyan",
    )
    for title in titles or rows[0]:
        # the names of the first column stay on a line
        table.add_column(title, overflow="fold", no_wrap=not table.columns)
    for row in rows:
        table.add_row(*(_create_text(cell.rstrip()) for cell in row))
    _create_console().print(table)


def print_outcome(
    outcome: tuple[str, str],
    name: str,
    figures: str = "",
    bars: Bars | None = None,
    lines: Sequence[str] = (),
) -> None:
    """Print an outcome next to its name, figures and lines.

    Args:
        outcome: the text of the outcome and its style.
        name: the name of the case or program.
        figures: figures, separated by semicolons.
        bars: the bars of the figures.
        lines: reasons, each on a line of its own.
    """
    console = _create_console()
    content = [_create_text(name, "bold")]
    if figures:
        room = console.width - _OUTCOME_WIDTH - 2
        content.append(_draw_figures(console, "", figures, bars or {}, room))
    content += [_create_text(line, "dim") for line in lines]
    text, style = outcome
    grid = _create_grid(2)
    grid.add_row(_create_text(f"{text:<{_OUTCOME_WIDTH}}", style), Text("\n").join(content))
    console.print(grid)


def print_line(text: str) -> None:
    """Print a text on a line of its own."""
    _create_console().print(_create_text(text))


def _build_figures(
    console: Console, rows: Mapping[str, str], bars: Mapping[str, Bars], notes: Sequence[str]
) -> Table:
    grid = _create_grid(2)
    room = console.width - max(map(len, rows)) - 2
    # the bars of all rows begin in one column
    width = max((_measure_heads(text) for name, text in rows.items() if bars.get(name)), default=0)
    for name, text in rows.items():
        is_small = name in _SMALL_ROWS or name.endswith("(bounded)")
        style = "dim" if is_small else ""
        if name == "verdict":
            first_word = text.split(",")[0].split(" ")[0]
            value = _create_text(text, _VERDICT_STYLES.get(first_word, "bold"))
        else:
            value = _draw_figures(console, name, text, bars.get(name, {}), room, width)
            value.stylize_before(style)
        grid.add_row(_create_text(name, style or "cyan"), value)
    for note in notes:
        grid.add_row(_create_text("note", "yellow"), _create_text(note))
    return grid


def _draw_figures(
    console: Console, name: str, text: str, bars: Bars, room: int, width: int = 0
) -> Text:
    """Draw the bars of a row's figures, each next to its interval.

    Args:
        console: the console, whose encoding limits the characters.
        name: the name of the row, which is the word of a single figure.
        text: figures, separated by semicolons; those of several begin with their words.
        bars: the bars by word.
        room: number of characters of a line.
        width: the smallest width of the figures before a bar.
    """
    # texts of users may contain semicolons
    if not bars:
        return _create_text(text)
    width = max(width, _measure_heads(text))
    lines = []
    for part in text.split("; "):
        head, bracket, tail = part.partition("]")
        bar = bars.get(part.split()[0], bars.get(name))
        # an exact figure has no interval
        if bar is None or not bracket:
            lines.append(_create_text(part))
            continue
        ends = len(f"{bar.least:g} {bar.greatest:g}") + 1
        is_narrow = room - width - 2 - ends < _MIN_BAR
        bar_width = room - ends if is_narrow else room - width - 2 - ends
        drawing = bar.draw(max(1, min(bar_width, _MAX_BAR)), not console.encoding.startswith("utf"))
        figures = _create_text(head + bracket, "bold")
        if is_narrow:
            lines += [figures, drawing]
        else:
            figures.pad_right(width - figures.cell_len + 2)
            lines.append(figures + drawing)
        if tail:
            lines.append(_create_text(tail.lstrip(" ,")))
    return Text("\n").join(lines)


def _measure_heads(text: str) -> int:
    """Return the width of the longest figure up to the end of its interval."""
    return max(cell_len("".join(part.partition("]")[:2])) for part in text.split("; "))


def _create_grid(columns: int) -> Table:
    """Create a table without lines, whose last column takes the remaining width."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(columns - 1):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _create_text(text: str, style: str = "") -> Text:
    """Return a text without control characters and without markup."""
    return Text(escape_unprintable(text), style)
