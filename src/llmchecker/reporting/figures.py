"""The paper's figures, drawn from result files only.

Colours are seaborn's colour-blind palette. Line style, marker or hatch repeats the meaning of a
colour, so that the figures remain readable in black and white.
"""

import itertools
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
from matplotlib.patheffects import Normal, withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from llmchecker.utils.atomic_files import atomic_write, atomic_write_with_checksum
from llmchecker.utils.number_format import format_number
from llmchecker.utils.printable_text import escape_unprintable

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

COLUMN_WIDTH = 3.5
"""Width of one column of a two-column page, in inches."""
THIN, THICK = 0.8, 4.6
"""Line widths of certain bounds and of confidence intervals, in points."""
_ESTIMATE_MARKER: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.6,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.6,
}
"""Style of an estimate: a white dot inside the thick line."""
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
        sns.lineplot(
            _number_models(table),
            x="k",
            y="mass",
            hue="model",
            style="model",
            markers=True,
            markevery=_compute_marker_interval(table["k"].max()),
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
    """Draw Figure 4: the value of one query, one bar per noun and model.

    Each bar has three layers for the whole model: a thin line for the certain bounds, a thick line
    for the confidence interval, and a dot for the estimate. A bar without an estimate has bounds
    only. A question mark replaces the bar of an unknown value. Without a bounded process no row has
    a bar.

    Args:
        table: the columns model, noun, value, lower, upper, estimate, low, high and confidence.
        answer: a description of the answer, which is the label of the axis.
        is_bounded: whether the rows have the value of a bounded process.
    """
    with use_figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 3.1), layout="constrained")
        # seaborn would omit a bar without a height and shift the next bars.
        bar_data = _number_models(table).fillna({"value": 0.0})
        sns.barplot(bar_data, x="noun", y="value", hue="model", edgecolor="black", ax=axes)
        groups = table.groupby("model", sort=False)
        hatches = itertools.cycle(HATCHES)
        for bars, (_, rows), hatch in zip(axes.containers, groups, hatches, strict=False):
            centres = np.array([bar.get_x() + bar.get_width() / 2 for bar in bars])
            for bar in bars:
                bar.set(hatch=hatch, linewidth=0.6)
            _draw_layers(axes, centres, rows)
            for x in itertools.compress(centres, rows["value"].isna() & is_bounded):
                axes.annotate("?", (x, 0), (-3, 2), textcoords="offset points", ha="right")
        axes.set(xlabel="start string", ylabel=textwrap.fill(answer, _AXIS_CHARACTERS))
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", labelsize=7.5)
        sns.move_legend(axes, "lower center", bbox_to_anchor=(0.5, 1), ncols=2, title=None)
        _name_models(axes, table)
        figure.legend(
            handles=_build_legend_handles(table["confidence"].dropna()),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            handlelength=0.6,
            handletextpad=0.5,
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
            linewidth=THIN,
        )


def _number_models(table: pd.DataFrame) -> pd.DataFrame:
    """Replace models by numbers, because a legend omits names that begin with _."""
    numbers = {name: str(number) for number, name in enumerate(table["model"].unique())}
    return table.assign(model=table["model"].map(numbers))


def _name_models(axes: Axes, table: pd.DataFrame) -> None:
    """Replace the numbers in a legend by the names of a table's models."""
    legend = axes.get_legend()
    texts = [] if legend is None else legend.get_texts()
    for text, name in zip(texts, table["model"].unique(), strict=True):
        text.set_text(escape_unprintable(name))


def _draw_layers(axes: Axes, centres: np.ndarray, rows: pd.DataFrame) -> None:
    """Draw bounds, interval and estimate, each above the one before.

    Args:
        axes: the axes of the figure.
        centres: (n,) positions of the rows on the x axis.
        rows: n rows of the table.
    """
    axes.vlines(centres, rows["lower"], rows["upper"], color="black", linewidth=THIN)
    for edge in ("lower", "upper"):
        axes.scatter(centres, rows[edge], marker="_", s=16, color="black", linewidth=THIN)
    # Rows without an estimate have bounds only.
    has_estimate = rows["low"].notna().to_numpy()
    centres, rows = centres[has_estimate], rows[has_estimate]
    # A white edge separates the intervals from the hatches below.
    effects = [withStroke(linewidth=THICK + 1.6, foreground="white"), Normal()]
    axes.vlines(
        centres, rows["low"], rows["high"], color="black", linewidth=THICK, path_effects=effects
    )
    # An undecided estimate is the text "unknown", which has no dot.
    estimates = pd.to_numeric(rows["estimate"], errors="coerce").astype(float)
    axes.plot(centres, estimates, **_ESTIMATE_MARKER)


def _build_legend_handles(confidences: pd.Series) -> list[Line2D]:
    """Build the legend of the layers, with intervals and estimates if they exist."""
    bar_style: dict[str, Any] = {
        "linestyle": "none",
        "marker": "|",
        "color": "black",
        "markersize": 10,
    }
    layers = [Line2D([], [], **bar_style, markeredgewidth=THIN, label="certain bounds")]
    if len(confidences):
        confidence_text = " or ".join(
            format_number(confidence) for confidence in sorted(confidences.unique())
        )
        label = f"with confidence {confidence_text}"
        layers += [
            Line2D([], [], **bar_style, markeredgewidth=THICK, label=label),
            Line2D([], [], **_ESTIMATE_MARKER, label="estimate"),
        ]
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


def _compute_marker_interval(maximum: int) -> int:
    return max(1, maximum // 10)
