"""Rows and tables as HTML, for notebooks and pages; every text is escaped."""

from collections.abc import Iterable

from markupsafe import Markup

from llmchecker.checking.figures import Bar, Display, Figure, Row

_LEFT = Markup(' style="text-align: left"')
# presentation attributes, because a page forbids other styles than its own
_BAR = Markup(
    '<br/><svg width="160" height="10" role="img" '
    'aria-label="from {} to {} on an axis from {} to {}">'
    '<line x1="0%" x2="100%" y1="5" y2="5" stroke="currentColor" stroke-opacity="0.4"/>'
    '<line x1="{}%" x2="{}%" y1="5" y2="5" stroke="currentColor" stroke-width="4" '
    'stroke-linecap="square"/></svg>'
)


def render_display(display: Display) -> Markup:
    """Render figures by their names, notes and texts."""
    rows = Markup().join(
        Markup("<tr><th{}>{}</th><td{}>{}</td></tr>").format(_LEFT, name, _LEFT, render_row(row))
        for name, row in display.rows.items()
    )
    notes = Markup().join(Markup("<p>{}</p>").format(note) for note in display.notes)
    lists = Markup().join(
        Markup("<p>{}</p>{}").format(each.heading, _render_table(each.texts))
        for each in display.lists
    )
    return Markup("<table>{}</table>{}{}").format(rows, notes, lists)


def render_row(row: Row) -> Markup:
    """Render the figures of a row, each with its interval as a bar."""
    has_bars = any(figure.bar for figure in row)
    return Markup("<br/>" if has_bars else "; ").join(map(_render_figure, row))


def _render_table(rows: Iterable[tuple[str, str]]) -> Markup:
    """Render rows of a number and a text."""
    cells = Markup().join(
        Markup("<tr><td>{}</td><td{}>{}</td></tr>").format(number, _LEFT, text)
        for number, text in rows
    )
    return Markup("<table>{}</table>").format(cells)


def _render_figure(figure: Figure) -> Markup:
    text = Markup.escape(str(figure))
    return text if figure.bar is None else text + _render_bar(figure.bar)


def _render_bar(bar: Bar) -> Markup:
    axis, interval = bar.axis, bar.interval
    ends = [100 * (end - axis.lower) / axis.width for end in (interval.lower, interval.upper)]
    words = [f"{end:g}" for each in (interval, axis) for end in (each.lower, each.upper)]
    return _BAR.format(*words, *(f"{end:.4g}" for end in ends))
