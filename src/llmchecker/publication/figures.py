"""The paper's figures, drawn from result files only.

Colours are seaborn's colour-blind palette; line style, marker or hatch repeats what colour says, so
that a black and white print loses nothing.
"""

import itertools
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl

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

from llmchecker.files import written_whole, written_with_checksum
from llmchecker.publication.drawing import printed

COLUMN_WIDTH = 3.5
"""Inches: one column of a two-column page."""
THIN, THICK = 0.8, 4.6
"""Points: the width of a line for what is certain, and for what holds with confidence."""
DOT = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.6,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.6,
}
"""How an estimate looks: a white dot inside the thick line, which it leaves visible."""
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

STYLE = {
    "font.size": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "llmchecker",
    # labels and queries are texts, in which a dollar begins no formula
    "text.parse_math": False,
    "pdf.fonttype": 42,
}


@contextmanager
def figure_style():
    """How every figure looks: fonts, grid and colours."""
    with sns.axes_style("whitegrid"), sns.color_palette("colorblind"), mpl.rc_context(STYLE):
        yield


def mass_figure(table: pd.DataFrame) -> Figure:
    """Figure 3: the mean mass of the k most probable next tokens, one line a model.

    Args:
        table: columns model, k and mass.
    """
    with figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 2.4), layout="constrained")
        sns.lineplot(
            _numbered(table),
            x="k",
            y="mass",
            hue="model",
            style="model",
            markers=True,
            markevery=_every(table["k"].max()),
            dashes=True,
            ax=axes,
        )
        axes.set(xlabel="k most probable tokens", ylabel="mean probability mass")
        axes.set(xlim=(0, table["k"].max() + 1), ylim=(0, 1.02))
        axes.legend(title=None, loc="lower right")
        _name_models(axes, table)
        return figure


def noun_figure(table: pd.DataFrame, query: str) -> Figure:
    """Figure 4: the value of one query, one bar a noun and model, with what is known of the whole.

    Three layers stand on each bar: a thin line for the bounds, which are certain; a thick line for
    the interval that holds with confidence; a dot for the estimate. Where nothing was estimated the
    bounds stand alone. Where the value is not known, a question mark stands in place of the bar.

    Args:
        table: columns model, noun, value, lower, upper, estimate, low, high and confidence.
        query: what the value answers; the label of the axis.
    """
    with figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 3.1), layout="constrained")
        # seaborn would leave out a bar without a height, and the next would take its place
        drawn = _numbered(table).fillna({"value": 0.0})
        sns.barplot(drawn, x="noun", y="value", hue="model", edgecolor="black", ax=axes)
        groups = table.groupby("model", sort=False)
        hatches = itertools.cycle(HATCHES)
        for bars, (_, rows), hatch in zip(axes.containers, groups, hatches, strict=False):
            centres = np.array([bar.get_x() + bar.get_width() / 2 for bar in bars])
            for bar in bars:
                bar.set(hatch=hatch, linewidth=0.6)
            _draw_layers(axes, centres, rows)
            for x in itertools.compress(centres, rows["value"].isna()):
                axes.annotate("?", (x, 0), (-3, 2), textcoords="offset points", ha="right")
        axes.set(xlabel=None, ylabel=query)
        axes.grid(visible=False, axis="x")
        sns.move_legend(axes, "lower center", bbox_to_anchor=(0.5, 1), ncols=2, title=None)
        _name_models(axes, table)
        figure.legend(
            handles=_layers_of_legend(table["confidence"].dropna()),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            handlelength=0.6,
            handletextpad=0.5,
            columnspacing=1.6,
        )
        return figure


def _numbered(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a number for each model: a legend leaves out names that begin with _."""
    numbers = {name: str(number) for number, name in enumerate(table["model"].unique())}
    return table.assign(model=table["model"].map(numbers))


def _name_models(axes: Axes, table: pd.DataFrame) -> None:
    """Put the names of a table's models into a legend that has their numbers."""
    for text, name in zip(axes.get_legend().get_texts(), table["model"].unique(), strict=True):
        text.set_text(printed(name))


def _draw_layers(axes: Axes, centres: np.ndarray, rows: pd.DataFrame) -> None:
    """Draw bounds, interval and estimate, each above the one before.

    Args:
        axes: to draw on.
        centres: (n,) where each row stands.
        rows: (n) rows of the table.
    """
    axes.vlines(centres, rows["lower"], rows["upper"], color="black", linewidth=THIN)
    for edge in ("lower", "upper"):
        axes.scatter(centres, rows[edge], marker="_", s=16, color="black", linewidth=THIN)
    estimated = rows["low"].notna().to_numpy()
    centres, rows = centres[estimated], rows[estimated]
    # a white edge keeps them apart from the hatches below
    edge = [withStroke(linewidth=THICK + 1.6, foreground="white"), Normal()]
    axes.vlines(
        centres, rows["low"], rows["high"], color="black", linewidth=THICK, path_effects=edge
    )
    estimates = pd.to_numeric(rows["estimate"], errors="coerce").astype(float)
    axes.plot(centres, estimates, **DOT)


def _layers_of_legend(confidences: pd.Series) -> list[Line2D]:
    """What stands on the bars, with what each layer claims; intervals only where there are any."""
    upright = {"linestyle": "none", "marker": "|", "color": "black", "markersize": 10}
    layers = [Line2D([], [], **upright, markeredgewidth=THIN, label="certain bounds")]
    if len(confidences):
        stated = " or ".join(f"{confidence:g}" for confidence in sorted(confidences.unique()))
        label = f"with confidence {stated}"
        layers += [
            Line2D([], [], **upright, markeredgewidth=THICK, label=label),
            Line2D([], [], **DOT, label="estimate"),
        ]
    return layers


def set_log_scales(axes: Axes) -> None:
    """Make both axes logarithmic; powers of ten are told as 0.01, 100 or 1e7.

    No text of a figure is read as mathtext, which the ticks would else be written in.
    """
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-")


def write_figure(figure: Figure, paths: Sequence[str | Path], description: str = "") -> None:
    """Write one figure to several files, each in the format of its suffix, and close it.

    Args:
        description: what viewers show as the file's description, in PDF its subject.
    """
    # the labels of models are in it, and no format has a place for every character
    description = printed(description)
    metadata = {
        "svg": {"Date": None, "Description": description or None},
        "pdf": {"CreationDate": None, "Subject": description or None},
        "png": {"Description": description or None},
    }
    with figure_style():
        for path in map(Path, paths):
            # the report reads no other format
            written = written_with_checksum if path.suffix == ".svg" else written_whole
            with written(path) as partial:
                figure.savefig(partial, dpi=300, metadata=metadata[path.suffix.removeprefix(".")])
    plt.close(figure)


def _every(maximum: int) -> int:
    return max(1, maximum // 10)
