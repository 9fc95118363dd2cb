"""The paper's figures, drawn from result files only.

Colours are seaborn's colour-blind palette. Line style, marker or hatch repeats the meaning of a
colour, so that the figures remain readable in black and white.
"""

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

# Before the import of pyplot, which would otherwise select a backend.
mpl.use("agg")

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETRIGHT
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from llmchecker.utils.atomic_files import atomic_write, atomic_write_with_checksum
from llmchecker.utils.number_format import format_number
from llmchecker.utils.printable_text import escape_unprintable

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

COLUMN_WIDTH = 3.5
"""Width of one column of a two-column page, in inches."""
_THIN = 0.8
"""Width of a thin line, in points."""
_INTERVAL: dict[str, Any] = {
    "linestyle": "none",
    "ecolor": "black",
    "elinewidth": _THIN,
    "capthick": _THIN,
    "clip_on": False,
    "zorder": 3,
}
"""Style of a confidence interval."""
_ESTIMATE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 1.7,
    "markeredgewidth": 0,
    "color": "black",
    "clip_on": False,
    "zorder": 4,
}
"""Style of an estimate: a dot that is smaller than the ends of its interval."""
_BOUNDED: dict[str, Any] = {
    "linestyle": "none",
    "marker": CARETRIGHT,
    "markersize": 4.5,
    "color": "black",
    "clip_on": False,
    "zorder": 5,
}
"""Style of the figure of the bounded process: a triangle whose tip is at the figure."""
_GROUP_WIDTH = 0.84
"""Width of the rows of a noun; the distance of two nouns is 1."""
_BAR_SHARE, _BAR_PLACE, _INTERVAL_PLACE = 0.36, -0.08, 0.3
"""Width of a bar, its place and that of its interval, as shares of the width of a row."""
_CAP_SHARE, _CAP_LIMITS = 30.0, (0.8, 2.5)
"""Half the width of the ends of an interval: points for a width of 1, and its limits in points."""
_FIGURES = ["value", "lower", "upper", "estimate", "low", "high"]
"""Columns of the table of Figure 4 that are drawn."""
_AXIS_CHARACTERS = 32
"""Maximum number of characters in a line of the label of the y axis."""
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

_STYLE: "dict[RcKeyType, Any]" = {
    "font.size": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "llmchecker",
    # Labels and queries are plain texts, in which a dollar does not begin a formula.
    "text.parse_math": False,
    "pdf.fonttype": 42,
}


@contextmanager
def use_figure_style() -> Iterator[None]:
    """Apply the style of all figures in the block: fonts, grid and colours."""
    with sns.axes_style("whitegrid"), sns.color_palette("colorblind"), mpl.rc_context(_STYLE):
        yield


def draw_mass_figure(table: pd.DataFrame) -> Figure:
    """Draw Figure 3: mass of the k most probable tokens, one line per model.

    A line is the mean over prompts. Its band is the interquartile range, which contains the middle
    half of the prompts.

    Args:
        table: the columns model, k, mass, lower_quartile and upper_quartile.
    """
    with use_figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 2.4), layout="constrained")
        # replace models by numbers, because a legend omits names that begin with _
        numbers = {name: str(number) for number, name in enumerate(table["model"].unique())}
        sns.lineplot(
            table.assign(model=table["model"].map(numbers)),
            x="k",
            y="mass",
            hue="model",
            style="model",
            markers=True,
            markevery=max(1, table["k"].max() // 10),
            dashes=True,
            ax=axes,
        )
        _draw_bands(axes, table)
        axes.set(xlabel="number of most probable next tokens", ylabel="probability of these tokens")
        axes.set(xlim=(0, table["k"].max() + 1), ylim=(0, 1.02))
        axes.legend(title="mean and middle half of prompts", title_fontsize=8, loc="lower right")
        _name_models(axes, table)
        return figure


def draw_noun_figure(table: pd.DataFrame, answer: str, is_bounded: bool = True) -> Figure:
    """Draw Figure 4: the answers to one query, for each noun and model.

    A bar reaches from the lower to the upper certain bound. Right of it are the estimate, a dot,
    and its confidence interval, an error bar. The tip of a triangle left of the bar is at the
    figure of the bounded process; a question mark replaces it where it is unknown. Rows without an
    estimate have no dot, and without a bounded process no row has a triangle.

    Args:
        table: the columns model, noun, value, lower, upper, estimate, low, high and confidence.
        answer: a description of the answer, which is the label of the axis.
        is_bounded: whether the rows have the value of a bounded process.
    """
    # An undecided figure is the text "unknown", which has no place on the axis.
    columns = {name: pd.to_numeric(table[name], errors="coerce") for name in _FIGURES}
    numbers = pd.DataFrame(columns).astype(float)
    table = table.assign(**numbers)
    nouns = {noun: position for position, noun in enumerate(table["noun"].unique())}
    groups = list(table.groupby("model", sort=False))
    confidences = table["confidence"].dropna()
    slot = _GROUP_WIDTH / len(groups)
    bar_width, bar_place = slot * _BAR_SHARE, slot * _BAR_PLACE
    cap = float(np.clip(_CAP_SHARE * slot / len(nouns), *_CAP_LIMITS))
    with use_figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 3.1), layout="constrained")
        # infinite bounds have no place on the axis, and their bars reach its ends
        finite = numbers.where(np.isfinite(numbers))
        axes.set_ylim(*_find_limits(finite.min().min(), finite.max().max()))
        handles = _build_layer_handles(axes, confidences, is_bounded)
        colours = sns.color_palette(n_colors=len(groups))
        looks = zip(groups, colours, itertools.cycle(HATCHES), strict=False)
        for index, ((model, rows), colour, hatch) in enumerate(looks):
            offset = (index - (len(groups) - 1) / 2) * slot
            centres = rows["noun"].map(nouns).to_numpy() + offset
            fill: dict[str, Any] = {
                "facecolor": sns.light_palette(colour, n_colors=3)[1],
                "edgecolor": colour,
                "hatch": hatch,
                "linewidth": _THIN,
            }
            handles.append(Patch(**fill, label=escape_unprintable(str(model))))
            _draw_bounds(axes, centres + bar_place, rows, bar_width, fill)
            _draw_intervals(axes, centres + slot * _INTERVAL_PLACE, rows, cap)
            if is_bounded:
                edges = centres + bar_place - bar_width / 2
                _draw_bounded_figures(axes, edges, rows["value"])
        axes.set(xlabel="start string", ylabel=textwrap.fill(answer, _AXIS_CHARACTERS))
        axes.set_xticks(list(nouns.values()), map(escape_unprintable, nouns), fontsize=7.5)
        axes.grid(visible=False, axis="x")
        axes.set_axisbelow(True)
        figure.legend(
            handles=handles,
            # without labels a legend omits names that begin with _
            labels=[str(handle.get_label()) for handle in handles],
            loc="outside upper center",
            ncols=2,
            frameon=False,
            columnspacing=1.6,
        )
        return figure


def _draw_bands(axes: Axes, table: pd.DataFrame) -> None:
    """Draw a band between the quartiles of each model, in the style of its line."""
    lines = [line for line in axes.get_lines() if np.size(line.get_xdata())]
    for line, (_, rows) in zip(lines, table.groupby("model", sort=False), strict=True):
        axes.fill_between(
            rows["k"],
            rows["lower_quartile"],
            rows["upper_quartile"],
            facecolor=(line.get_color(), 0.15),
            # Edges separate the bands in black and white, where both are grey.
            edgecolor=line.get_color(),
            linestyle=line.get_linestyle(),
            linewidth=_THIN,
        )


def _name_models(axes: Axes, table: pd.DataFrame) -> None:
    """Replace the numbers in a legend by the names of a table's models."""
    legend = axes.get_legend()
    texts = [] if legend is None else legend.get_texts()
    for text, name in zip(texts, table["model"].unique(), strict=True):
        text.set_text(escape_unprintable(name))


def _find_limits(lowest: float, highest: float) -> tuple[float, float]:
    """Return the ends of the y axis, which include 0 and leave a margin at other ends."""
    if math.isnan(lowest):
        return 0.0, 1.0
    lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    margin = 0.05 * (highest - lowest) or 0.05
    return lowest - margin * (lowest < 0), highest + margin


def _draw_bounds(
    axes: Axes, centres: np.ndarray, rows: pd.DataFrame, width: float, fill: dict[str, Any]
) -> None:
    """Draw a bar between the certain bounds of each row.

    Args:
        axes: the axes of the figure, with their limits.
        centres: (n,) positions of the rows on the x axis.
        rows: n rows of the table.
        width: the width of a bar.
        fill: the style of the bars.
    """
    bottom, top = axes.get_ylim()
    # a bar without a certain bound on a side reaches the end of the axis
    lower = rows["lower"].fillna(-math.inf).clip(bottom, top)
    upper = rows["upper"].fillna(math.inf).clip(bottom, top)
    axes.bar(centres, upper - lower, width, bottom=lower, clip_on=False, zorder=2, **fill)


def _draw_intervals(axes: Axes, centres: np.ndarray, rows: pd.DataFrame, cap: float) -> None:
    """Draw the estimate of each row that has one, with its confidence interval.

    Args:
        axes: the axes of the figure.
        centres: (n,) positions of the rows on the x axis.
        rows: n rows of the table.
        cap: half the width of the ends of an interval, in points.
    """
    has_interval = rows["low"].notna().to_numpy()
    centres, rows = centres[has_interval], rows[has_interval]
    # the interval of a decided answer may have an undecided estimate, and is drawn without a dot
    middles = (rows["low"] + rows["high"]) / 2
    halves = (rows["high"] - rows["low"]) / 2
    axes.errorbar(centres, middles, halves, **_INTERVAL, capsize=cap)
    axes.plot(centres, rows["estimate"], **_ESTIMATE)


def _draw_bounded_figures(axes: Axes, edges: np.ndarray, values: pd.Series) -> None:
    """Draw a triangle whose tip is at each value, or a question mark where it is unknown.

    Args:
        axes: the axes of the figure.
        edges: (n,) positions of the left edges of the bars on the x axis.
        values: n figures of the bounded process.
    """
    axes.plot(edges, values, **_BOUNDED)
    for x in itertools.compress(edges, values.isna()):
        axes.annotate("?", (x, 0), (-1, 2), textcoords="offset points", ha="right")


def _build_layer_handles(axes: Axes, confidences: pd.Series, is_bounded: bool) -> list[Any]:
    """Build the entries of the legend that all models share.

    Args:
        axes: the axes of the figure.
        confidences: the confidences of the intervals; empty without intervals.
        is_bounded: whether the rows have the value of a bounded process.
    """
    # without a model's colour, because each model's bars are certain bounds
    layers: list[Any] = [
        Patch(facecolor="0.92", edgecolor="0.3", linewidth=_THIN, label="certain bounds")
    ]
    if len(confidences):
        levels = " or ".join(format_number(level) for level in sorted(confidences.unique()))
        label = f"estimate, confidence {levels}"
        # matplotlib draws the entry of an error bar upright, as in the figure
        style = {**_INTERVAL, **_ESTIMATE, "capsize": _CAP_LIMITS[1]}
        layers.append(axes.errorbar([math.nan], [math.nan], [math.nan], **style, label=label))
    if is_bounded:
        layers.append(Line2D([], [], **_BOUNDED, label="bounded process"))
    return layers


def set_log_scales(axes: Axes) -> None:
    """Make both axes logarithmic, with ticks such as 0.01, 100 or 1e7.

    The default ticks are mathtext, which the style of the figures disables.
    """
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value)))
        axis.set_minor_formatter(NullFormatter())


def _format_tick(value: float) -> str:
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-")


def write_figure(figure: Figure, paths: Sequence[str | Path], description: str = "") -> None:
    """Write a figure to files in the formats of their suffixes, and close it.

    Args:
        figure: the figure.
        paths: files with the suffix svg, pdf or png.
        description: the description in the metadata of a file; the subject of a PDF.
    """
    # The description contains labels of models, and no format supports every character.
    description = escape_unprintable(description)
    # A hash salt fixes the ids, and without dates equal figures are equal files.
    metadata = {
        "svg": {"Date": None, "Description": description or None},
        "pdf": {"CreationDate": None, "Subject": description or None},
        "png": {"Description": description or None},
    }
    with use_figure_style():
        for path in map(Path, paths):
            # Only SVG files need a checksum, because the report reads no other format.
            open_file = atomic_write_with_checksum if path.suffix == ".svg" else atomic_write
            with open_file(path) as partial:
                figure.savefig(partial, dpi=300, metadata=metadata[path.suffix.removeprefix(".")])
    plt.close(figure)
