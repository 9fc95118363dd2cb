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

import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from llmchecker.files import written_whole, written_with_checksum

COLUMN_WIDTH = 3.5
"""Inches: one column of a two-column page."""
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

STYLE = {
    "font.size": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "llmchecker",
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
            table,
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
        return figure


def noun_figure(table: pd.DataFrame, query: str) -> Figure:
    """Figure 4: the value of one query, one bar a noun and model, with its bounds as a line.

    Where the value is not known, a question mark stands in place of the bar.

    Args:
        table: columns model, noun, value, lower and upper.
        query: what the value answers; the label of the axis.
    """
    with figure_style():
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH, 2.6), layout="constrained")
        # seaborn would leave out a bar without a height, and the next would take its place
        drawn = table.fillna({"value": 0.0})
        sns.barplot(drawn, x="noun", y="value", hue="model", edgecolor="black", ax=axes)
        groups = table.groupby("model", sort=False)
        hatches = itertools.cycle(HATCHES)
        for bars, (_, rows), hatch in zip(axes.containers, groups, hatches, strict=False):
            centres = [bar.get_x() + bar.get_width() / 2 for bar in bars]
            axes.vlines(centres, rows["lower"], rows["upper"], color="black", linewidth=0.8)
            for edge in ("lower", "upper"):
                axes.scatter(centres, rows[edge], marker="_", s=12, color="black", linewidth=0.8)
            for bar in bars:
                bar.set(hatch=hatch, linewidth=0.6)
            for x in itertools.compress(centres, rows["value"].isna()):
                axes.annotate("?", (x, 0), (0, 2), textcoords="offset points", ha="right")
        axes.set(xlabel=None, ylabel=query)
        sns.move_legend(axes, "lower center", bbox_to_anchor=(0.5, 1), ncols=2, title=None)
        return figure


def write_figure(figure: Figure, paths: Sequence[str | Path], description: str = "") -> None:
    """Write one figure to several files, each in the format of its suffix, and close it.

    Args:
        description: what viewers show as the file's description, in PDF its subject.
    """
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
