"""Plots of answers: the intervals of a verdict, its deciding texts, and a history.

The plots belong to pyplot, so that a notebook shows them, and change no setting of matplotlib.
"""

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETUP

from llmchecker.checking.answer import Answer
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.witnesses import WITNESS, compute_decisive_mass, find_start_text
from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.query import Query
from llmchecker.reporting.query_wording import describe_query
from llmchecker.utils.number_format import format_number
from llmchecker.utils.printable_text import escape_unprintable

CERTAIN_COLOUR, INTERVAL_COLOUR = "#949494", "#0173b2"
"""Grey and blue of seaborn's colour-blind palette."""
_WIDTH = 6.0
"""Width of a plot in inches."""
_HISTORY_HEIGHT, _ROW_HEIGHT, _FRAME_HEIGHT, _LINE_HEIGHT = 3.0, 0.3, 0.9, 0.16
"""Heights in inches: of the history, a row, the x axis with a title, and a further line of it."""
_MAX_LABEL_LENGTH = 28
_LINE_LENGTH = 64
"""Maximum number of characters in a line above or below the axes."""


def draw_history(answer: Answer, axes: Axes | None = None) -> Axes:
    """Draw certain bounds and the interval of the samples after each round.

    A line is at any threshold of the query.

    Args:
        answer: an answer with a history.
        axes: the axes of the plot; None for new ones.
    """
    axes = _create_axes(_HISTORY_HEIGHT) if axes is None else axes
    # a logarithmic axis has no 0
    rounds = [progress for progress in answer.history if progress.passes > 0]
    if answer.has_bounds:
        # an expected score may have no limit at first
        bounds = [
            (progress.passes, float(progress.lower), float(progress.upper))
            for progress in rounds
            if math.isfinite(progress.width)
        ]
        axes.fill_between(
            *(np.array(bounds).reshape(-1, 3).T),
            color=CERTAIN_COLOUR,
            alpha=0.3,
            label="certain",
        )
    sampled = [
        (progress.passes, progress.sampled.lower, progress.sampled.upper)
        for progress in rounds
        if progress.sampled is not None
    ]
    if sampled and answer.confidence is not None:
        passes, low, high = map(list, zip(*sampled, strict=True))
        axes.fill_between(
            passes,
            low,
            high,
            color=INTERVAL_COLOUR,
            alpha=0.6,
            label=f"confidence {format_number(answer.confidence)}",
        )
    threshold = find_threshold(answer.query)
    if threshold is not None:
        axes.axhline(
            float(threshold.number), color="black", linestyle="--", linewidth=0.8, label="threshold"
        )
    if rounds:
        axes.set_xscale("log")
    axes.set_xlabel("answers" if answer.is_text_only else "evaluated texts")
    axes.set_ylabel(_name_axis(answer.query))
    decision = "" if answer.decision is None else str(answer.decision)
    _set_title(axes, answer.query.text, *_define(answer), decision)
    axes.legend()
    return axes


def draw_answer(answer: Answer, label: str | None = None, axes: Axes | None = None) -> Axes:
    """Draw the figures of an answer, or the texts that decide a query without =?.

    Args:
        answer: the answer.
        label: the label of the row; None for the start string.
        axes: axes of answers with numbers, to which the answer adds a row; None for new axes.

    Raises:
        InvalidQuery: the answer is true or false, and no single text decides it.
    """
    if answer.query.is_numeric:
        return _draw_intervals(answer, label, axes)
    return _draw_deciding_texts(answer, axes)


def _draw_intervals(answer: Answer, label: str | None, axes: Axes | None) -> Axes:
    """Draw bounds as a thin line, any interval as a thick one, and the value."""
    axes = _create_axes(_FRAME_HEIGHT) if axes is None else axes
    # each row has one line of certain bounds; other axes have labels of ticks, not of rows
    y = sum(line.get_label() == "certain" for line in axes.get_lines())
    labels = [text.get_text() for text in axes.get_yticklabels()[:y]]
    # an expected score may have no limit on a side
    ends = [end for end in (answer.lower, answer.upper) if math.isfinite(end)]
    style: dict[str, Any] = {"color": "black", "linewidth": 0.8, "marker": "|", "markersize": 9}
    axes.plot(ends, [y] * len(ends), **style, label="certain")
    if (sampled := answer.sampled) is not None:
        style = {"color": INTERVAL_COLOUR, "linewidth": 5, "solid_capstyle": "butt"}
        style["label"] = f"confidence {format_number(sampled.confidence)}"
        axes.plot([sampled.interval.lower, sampled.interval.upper], [y, y], **style)
    if answer.bounded is not None:
        # a triangle whose tip touches the line
        style = {"marker": CARETUP, "color": INTERVAL_COLOUR, "markersize": 7}
        axes.plot(answer.bounded, y, **style, linestyle="none", label="bounded")
    _set_row_labels(axes, [*labels, find_start_text(answer.witnesses) if label is None else label])
    axes.set_xlabel(_name_axis(answer.query))
    if not isinstance(answer.query.root, Expectation):
        axes.set_xlim(-0.02, 1.02)
    _set_title(axes, answer.query.text, *_define(answer))
    # the rows have figures of the same kinds, which the legend lists once
    entries = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
    axes.legend(list(entries.values()), list(entries), **place)
    return axes


def _draw_deciding_texts(answer: Answer, axes: Axes | None) -> Axes:
    """Draw the added probabilities of the texts that decide a query without =?."""
    if not answer.witnesses:
        raise InvalidQuery(
            f"{answer.query.text}: no single texts decide it, so there is no plot; ask with =?"
        )
    axes = _create_axes(_FRAME_HEIGHT) if axes is None else axes
    kind = answer.witnesses[0].kind
    probabilities = [witness.probability for witness in answer.witnesses]
    rows = range(len(probabilities))
    begins = [0.0, *itertools.accumulate(probabilities)][:-1]
    axes.barh(rows, probabilities, left=begins, height=0.6, color=INTERVAL_COLOUR)
    texts = [witness.continuation + " …" * witness.rest for witness in answer.witnesses]
    _set_row_labels(axes, texts)
    verb = "satisfy" if kind == WITNESS else "do not satisfy"
    label = [f"added probability of texts that {verb} {_find_event(answer.query)}"]
    mass = compute_decisive_mass(answer.query, kind)
    # the texts of an unknown outcome decide nothing, however probable they are
    if mass is not None and answer.holds is not None:
        axes.axvline(mass, color="black", linestyle="--", linewidth=0.8)
        threshold = find_threshold(answer.query)
        includes_threshold = threshold is not None and threshold.comparison in (">=", "<")
        comparison = "more than" if ((kind == WITNESS) != includes_threshold) else "at least"
        label.append(f"dashed: {comparison} {format_number(mass)} decides")
    axes.set_xlim(left=0)
    axes.set_xlabel("\n".join(_wrap(label)))
    axes.xaxis.label.set_parse_math(False)
    words = (*_define(answer), describe_query(answer.query), str(answer.decision))
    _set_title(axes, answer.query.text, *words)
    return axes


def _define(answer: Answer) -> list[str]:
    """Return what the query asks for in words, in printable form."""
    return [escape_unprintable(f"{name}: {words}") for name, words in answer.definitions.items()]


def _find_event(query: Query) -> str:
    """Return the path formula as it is written: `F leak = 1` of `P<0.1 [ F leak = 1 ]`."""
    return query.path_text.strip()


def _name_axis(query: Query) -> str:
    if isinstance(query.root, Expectation):
        return f"expected {query.root.quantifier}"
    return "probability"


def _create_axes(height: float) -> Axes:
    return plt.subplots(figsize=(_WIDTH, height), layout="constrained")[1]


def _set_row_labels(axes: Axes, labels: Sequence[str]) -> None:
    """Label the rows from top to bottom, and give each row of its own figure a height."""
    axes.set_yticks(range(len(labels)), labels)
    for text, label in zip(axes.get_yticklabels(), labels, strict=True):
        text.set(text=_shorten(label), parse_math=False)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    # a figure with other axes keeps the size that its owner chose
    if isinstance(axes.figure, Figure) and axes.figure.axes == [axes]:
        axes.figure.set_figheight(_FRAME_HEIGHT + _ROW_HEIGHT * len(labels))


def _set_title(axes: Axes, query: str, *sentences: str) -> None:
    """Write a query and sentences above the axes, in lines that fit them."""
    lines = _wrap([query, *sentences])
    axes.set_title("\n".join(lines), loc="left", fontsize=9, parse_math=False)
    # a figure with other axes keeps the size that its owner chose
    if isinstance(axes.figure, Figure) and axes.figure.axes == [axes]:
        height = axes.figure.get_figheight() + _LINE_HEIGHT * (len(lines) - 1)
        axes.figure.set_figheight(height)


def _wrap(texts: Iterable[str]) -> list[str]:
    """Return the lines of texts, each of which begins a line."""
    return [line for text in texts for line in textwrap.wrap(text, _LINE_LENGTH)]


def _shorten(text: str) -> str:
    """Return a text in printable form, with an ellipsis in place of its middle."""
    text = escape_unprintable(text)
    if len(text) <= _MAX_LABEL_LENGTH:
        return text
    half = _MAX_LABEL_LENGTH // 2
    return f"{text[:half]}…{text[-half + 1 :]}"
