"""Rows and tables as HTML, for notebooks and pages; every text is escaped."""

from collections.abc import Iterable

from markupsafe import Markup

from llmchecker.checking.figures import Bar, Figure, Row, Rows
from llmchecker.utils.interval import Interval

_LEFT = Markup(' style="text-align: left"')
# presentation attributes, because a page forbids other styles than its own
_BAR = Markup(
    '<br/><svg width="160" height="14" role="img" '
    'aria-label="from {} to {} on an axis from {} to {}{}">'
    '<line x1="0%" x2="100%" y1="7" y2="7" stroke="currentColor" stroke-opacity="0.4"/>'
    '<line x1="{}%" x2="{}%" y1="7" y2="7" stroke="currentColor" stroke-width="4" '
    'stroke-linecap="square"/>{}</svg>'
)
# thin and across the whole height, so that it is visible on the interval and next to it
_THRESHOLD = Markup(
    '<line x1="{}%" x2="{}%" y1="0" y2="14" stroke="currentColor" stroke-width="1.5" '
    'stroke-dasharray="3 1"/>'
)


def render_rows(rows: Rows) -> Markup:
    """Render figures by their names, notes and texts."""
    figures = Markup().join(
        Markup("<tr><th{}>{}</th><td{}>{}</td></tr>").format(_LEFT, name, _LEFT, render_row(row))
        for name, row in rows.figures.items()
    )
    notes = Markup().join(Markup("<p>{}</p>").format(note) for note in rows.notes)
    lists = Markup().join(
        Markup("<p>{}</p>{}").format(each.heading, _render_table(each.texts)) for each in rows.lists
    )
    return Markup("<table>{}</table>{}{}").format(figures, notes, lists)


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
    axis, interval, threshold = bar.axis, bar.interval, bar.threshold
    words = [f"{end:g}" for each in (interval, axis) for end in (each.lower, each.upper)]
    ends = [_find_place(axis, end) for end in (interval.lower, interval.upper)]
    label, mark = "", Markup()
    if threshold is not None:
        label = f"; threshold {threshold:g}"
        # a mean of scores may have a threshold that no score reaches
        if axis.lower <= threshold <= axis.upper:
            mark = _THRESHOLD.format(*[_find_place(axis, threshold)] * 2)
    return _BAR.format(*words, label, *ends, mark)


def _find_place(axis: Interval, number: float) -> str:
    """Format the place of a number on an axis in percent."""
    return f"{100 * (number - axis.lower) / axis.width:.4g}"
