"""Rows and tables as HTML, for notebooks and pages; every text is escaped."""

from collections.abc import Iterable

from markupsafe import Markup

from llmchecker.checking.figures import Bar, Figure, ForestPlot, Plot, Row, Rows
from llmchecker.utils.interval import Interval
from llmchecker.utils.number_format import format_number

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
_PLOT = Markup(
    '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" width="100%" height="110" '
    'role="img" aria-label="{}">'
    '<path d="M0 0H{}M0 100H{}" stroke="currentColor" stroke-opacity="0.3" '
    'vector-effect="non-scaling-stroke"/>'
    '<rect x="0" width="{}" y="{}" height="{}" fill="currentColor" fill-opacity="0.18"/>'
    '<path d="{}" fill="none" stroke="currentColor" stroke-width="3" '
    'vector-effect="non-scaling-stroke"/>{}</svg>'
)
_LIMIT = Markup(
    '<path class="threshold" d="M0 {}H{}" fill="none" stroke="currentColor" stroke-width="1.5" '
    'stroke-dasharray="4 2" vector-effect="non-scaling-stroke"/>'
)
_FOREST_ROW = Markup(
    '<tr><th scope="row"><bdi>{}</bdi></th><td>'
    '<svg width="100%" height="22" role="img" aria-label="from {} to {}{}">'
    '<line x1="0%" x2="100%" y1="11" y2="11" stroke="currentColor" stroke-opacity="0.15"/>'
    '<line x1="50%" x2="50%" y1="0" y2="22" stroke="currentColor" stroke-opacity="0.5"/>'
    '<line x1="{}%" x2="{}%" y1="11" y2="11" stroke="currentColor" stroke-width="5" '
    'stroke-linecap="square"/>{}</svg></td></tr>'
)
_FOREST_LIMIT = Markup(
    '<line class="threshold" x1="{}%" x2="{}%" y1="0" y2="22" stroke="currentColor" '
    'stroke-width="1.5" stroke-dasharray="4 2"/>'
)
_FOREST = Markup(
    '<table class="forest"><tbody>{}</tbody><tfoot><tr><td></td><td><div>'
    "<span>{}</span><span>0</span><span>{}</span></div></td></tr></tfoot></table>"
)
_LEAST_HEIGHT = 1.5
"""The height of an exact number in a plot of height 100, so that it is visible."""


def render_plot(plot: Plot) -> Markup:
    """Render the intervals of rows in rising order, with their average and its threshold."""
    axis, average, threshold = plot.average.axis, plot.average.interval, plot.average.threshold
    width = len(plot.rows)
    segments = []
    for number, interval in enumerate(plot.rows):
        top, height = _find_height(axis, interval)
        segments.append(f"M{number + 0.5:g} {top:.4g}v{height:.4g}")
    top, height = _find_height(axis, average)
    label = f"{width:,} of {plot.count:,} rows in rising order, from {axis.lower:g} to "
    label += f"{axis.upper:g}; their {plot.noun} is from {average.lower:g} to {average.upper:g}"
    mark = Markup()
    if threshold is not None:
        label += f"; threshold {threshold:g}"
        if axis.lower <= threshold <= axis.upper:
            place, _ = _find_height(axis, Interval(threshold, threshold))
            mark = _LIMIT.format(f"{place + _LEAST_HEIGHT / 2:.4g}", width)
    ends = [f"{each:.4g}" for each in (top, height)]
    return _PLOT.format(width, label, width, width, width, *ends, "".join(segments), mark)


def _find_height(axis: Interval, interval: Interval) -> tuple[float, float]:
    """Return the top of an interval in a plot of height 100, and its height."""
    top, bottom = (
        100 * (axis.upper - end) / axis.width for end in (interval.upper, interval.lower)
    )
    missing = max(0.0, _LEAST_HEIGHT - (bottom - top)) / 2
    return top - missing, bottom - top + 2 * missing


def render_forest(plot: ForestPlot) -> Markup:
    """Render the intervals of differences below each other, with a line at 0."""
    rows = []
    for name, bar in plot.rows:
        interval, threshold = bar.interval, bar.threshold
        label, mark = "", Markup()
        if threshold is not None:
            label = f"; threshold {threshold:g}"
            mark = _FOREST_LIMIT.format(*[_find_place(plot.axis, threshold)] * 2)
        ends = [_find_place(plot.axis, end) for end in (interval.lower, interval.upper)]
        words = [f"{end:g}" for end in (interval.lower, interval.upper)]
        rows.append(_FOREST_ROW.format(name, *words, label, *ends, mark))
    ends = [format_number(end, 2) for end in (plot.axis.lower, plot.axis.upper)]
    return _FOREST.format(Markup().join(rows), *ends)


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
