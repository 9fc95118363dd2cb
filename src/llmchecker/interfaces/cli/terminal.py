"""Answers on a terminal, by rich: colours, tables, and intervals drawn as bars.

Texts of models, prompts and files are data. Their control characters are escaped, and no text is
read as markup.
"""

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmchecker.checking.figures import Bar, Figure, Row, Rows
from llmchecker.interfaces.cli.output import escape_unencodable
from llmchecker.utils.printable_text import escape_unprintable

GOOD, BAD, OPEN = "bold green", "bold red", "bold yellow"
"""The styles of outcomes: as required, not as required, and not known."""
_VERDICT_STYLES = {"HOLDS": GOOD, "VIOLATED": BAD, "UNKNOWN": OPEN}
"""The style of a verdict by its outcome; others are bold."""
_SMALL_ROWS = ("states", "transitions", "passes", "seconds", "tree", "forecast")
"""The rows after the answer, besides that of the bounded process."""
_OUTCOME_WIDTH = 9
_MAX_BAR = 40
_MIN_BAR = 6
"""The widths of a drawn interval in characters, without the ends of its axis."""


def draw_bar(bar: Bar, width: int, ascii_only: bool = False) -> Text:
    """Draw an interval in a number of characters between the ends of its axis.

    A character of the interval covers at least one of its points.
    """
    line, block = "-=" if ascii_only else "─━"
    least, greatest = bar.axis.lower, bar.axis.upper
    scale = width / (greatest - least)
    begin = min(max(0, math.floor((bar.interval.lower - least) * scale)), width - 1)
    end = min(max(begin + 1, math.ceil((bar.interval.upper - least) * scale)), width)
    return Text.assemble(
        (f"{least:g} {line * begin}", "dim"),
        (block * (end - begin), "bold cyan"),
        (f"{line * (width - end)} {greatest:g}", "dim"),
    )


def _create_console() -> Console:
    """Create the console of standard output; it reads NO_COLOR and COLUMNS."""
    escape_unencodable()
    return Console(highlight=False, markup=False, emoji=False)


def print_rows(rows: Rows) -> None:
    """Print named figures, with bars next to their intervals, then notes and texts."""
    console = _create_console()
    console.print(_build_figures(console, rows))
    for each in rows.lists:
        grid = _create_grid()
        for probability, text in each.texts:
            grid.add_row(_create_text(f"  {probability}", "bold"), _create_text(text))
        console.print()
        console.print(_create_text(each.heading, "bold"))
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
    text: str = "",
    row: Row = (),
    lines: Sequence[str] = (),
) -> None:
    """Print an outcome next to its name, figures and lines.

    Args:
        outcome: the text of the outcome and its style.
        name: the name of the case or program.
        text: plain text after the name.
        row: the figures of the outcome, after the name.
        lines: reasons, each on a line of its own.
    """
    console = _create_console()
    content = [_create_text(name, "bold")]
    if text:
        content.append(_create_text(text))
    if row:
        room = console.width - _OUTCOME_WIDTH - 2
        content.append(_draw_figures(console, row, room))
    content += [_create_text(line, "dim") for line in lines]
    word, style = outcome
    grid = _create_grid()
    grid.add_row(_create_text(f"{word:<{_OUTCOME_WIDTH}}", style), Text("\n").join(content))
    console.print(grid)


def print_line(text: str) -> None:
    """Print a text on a line of its own."""
    _create_console().print(_create_text(text))


def _build_figures(console: Console, rows: Rows) -> Table:
    figures = rows.figures
    grid = _create_grid()
    room = console.width - max(map(len, figures)) - 2
    # the bars of all rows begin in one column
    drawn_rows = [row for row in figures.values() if any(figure.bar for figure in row)]
    width = max(map(_measure_heads, drawn_rows), default=0)
    for name, row in figures.items():
        is_small = name in _SMALL_ROWS or name.endswith("(bounded)")
        style = "dim" if is_small else ""
        value = _draw_figures(console, row, room, width)
        value.stylize_before(style)
        grid.add_row(_create_text(name, style or "cyan"), value)
    for note in rows.notes:
        grid.add_row(_create_text("note", "yellow"), _create_text(note))
    return grid


def _draw_figures(console: Console, row: Row, room: int, width: int = 0) -> Text:
    """Draw the figures of a row, each with a bar next to its interval.

    Args:
        console: the console, whose encoding limits the characters.
        row: the figures.
        room: number of characters of a line.
        width: the smallest width of the figures before a bar.
    """
    if not any(figure.bar for figure in row):
        return Text("; ").join(map(_style_figure, row))
    width = max(width, _measure_heads(row))
    lines = []
    for figure in row:
        # an exact figure has no interval
        if figure.bar is None:
            lines.append(_style_figure(figure))
            continue
        axis = figure.bar.axis
        ends = len(f"{axis.lower:g} {axis.upper:g}") + 1
        is_narrow = room - width - 2 - ends < _MIN_BAR
        bar_width = max(1, min(room - ends if is_narrow else room - width - 2 - ends, _MAX_BAR))
        drawing = draw_bar(figure.bar, bar_width, not console.encoding.startswith("utf"))
        head = _create_text(figure.text, "bold")
        if is_narrow:
            lines += [head, drawing]
        else:
            head.pad_right(width - head.cell_len + 2)
            lines.append(head + drawing)
        if figure.detail:
            lines.append(_create_text(figure.detail.lstrip(" ,")))
    return Text("\n").join(lines)


def _style_figure(figure: Figure) -> Text:
    style = "" if figure.outcome is None else _VERDICT_STYLES.get(figure.outcome, "bold")
    return _create_text(str(figure), style)


def _measure_heads(row: Row) -> int:
    """Return the width of the longest figure without its detail."""
    return max(cell_len(figure.text if figure.bar else str(figure)) for figure in row)


def _create_grid() -> Table:
    """Create a table of two columns without lines, of which the last takes the remaining width."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _create_text(text: str, style: str = "") -> Text:
    """Return a text without control characters and without markup."""
    return Text(escape_unprintable(text), style)
