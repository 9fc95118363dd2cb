"""The figures of the experiments on programs, drawn from their tables only.

Each semantics has a panel. As in the project's other figures, shape or hatch repeats the meaning of
a colour.
"""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from llmchecker.errors import InvalidTable
from llmchecker.reporting.figures import COLUMN_WIDTH, HATCHES, set_log_scales, use_figure_style
from llmchecker.utils.printable_text import escape_unprintable
from loop_invariants.verification.result import Outcome

_MAX_SETS = 14
"""Maximum number of bars of a panel that leaves room for numbers."""
_MIN_COLUMNS = 4
"""Minimum number of bars that a panel has room for, which limits their width."""
_GREY = "0.55"
_MARKERS = "oX^Ds"
_EDGE_BAND = 0.2
"""Logarithmic length of an axis beyond the edge, relative to the rest."""
_SMALL_FONT_SIZE = 7
"""Font size of numbers within a figure, in points."""


def draw_solved_sets(table: pd.DataFrame) -> Figure:
    """Draw sets of programs that the same ways solve: bars over a matrix of dots.

    Each semantics has a panel. A bar counts the programs that exactly the ways with a filled dot
    below it solve. The grey bar counts the programs that no way solves. The number after the name
    of a way counts all programs that it solves.

    Args:
        table: the result of `build_solved_sets_table`; a panel contains only the largest sets.

    Raises:
        InvalidTable: the table has no rows.
    """
    _check_rows(table)
    strategies = list(table.columns.drop(["semantics", "programs", "names"]))
    panels = list(table.groupby("semantics", sort=False))
    bars_inches, dots_inches = 0.9, 0.14 * len(strategies) + 0.1
    with use_figure_style():
        size = (COLUMN_WIDTH, len(panels) * (bars_inches + dots_inches + 0.3))
        layout = ConstrainedLayoutEngine(h_pad=0.03, hspace=0)
        figure = plt.figure(figsize=size, layout=layout)
        ratios = [bars_inches, dots_inches] * len(panels)
        grid = figure.add_gridspec(len(ratios), 1, height_ratios=ratios)
        shared_axes: Axes | None = None
        for index, (semantics, sets) in enumerate(panels):
            # All panels share the x axis, so that their bars have equal widths.
            bars = shared_axes = figure.add_subplot(grid[2 * index], sharex=shared_axes)
            dots = figure.add_subplot(grid[2 * index + 1], sharex=shared_axes)
            drawn_sets = _select_largest_sets(sets, strategies)
            _draw_bars(bars, drawn_sets, strategies)
            solved_counts = [sets.loc[sets[strategy], "programs"].sum() for strategy in strategies]
            labels = [
                f"{escape_unprintable(strategy)}  {count}"
                for strategy, count in zip(strategies, solved_counts, strict=True)
            ]
            _draw_dots(dots, drawn_sets, labels)
            bars.set_title(str(semantics), fontsize=9, loc="left")
            # Sets that are not drawn still count in the text below.
            omitted_sets = sets.drop(drawn_sets.index)
            if len(omitted_sets):
                note = (
                    f"smaller sets not drawn: {len(omitted_sets)}, "
                    f"programs: {omitted_sets['programs'].sum()}"
                )
                dots.set_xlabel(note, fontsize=_SMALL_FONT_SIZE)
        max_columns = max(
            [_MIN_COLUMNS, *(len(_select_largest_sets(sets, strategies)) for _, sets in panels)]
        )
        assert shared_axes is not None, "the table has rows"
        shared_axes.set_xlim(-0.6, max_columns - 0.4)
        return figure


def draw_seconds(table: pd.DataFrame, method: str) -> Figure:
    """Draw the seconds of a method against those of each tool.

    Each tool has a row and each semantics a column. A point is a program that the method or the
    tool verifies. If only one verifies it, the point is on the edge, which shows the number of such
    programs. The corner shows the number of programs that neither verifies.

    Args:
        table: the result of `build_seconds_table`.
        method: the name of the method in labels.

    Raises:
        InvalidTable: the table has no rows.
    """
    _check_rows(table)
    is_verified = table["outcome"] == Outcome.VERIFIED
    is_tool_verified = table["tool_outcome"] == Outcome.VERIFIED
    verified_seconds = pd.concat(
        [table["seconds"][is_verified], table["tool_seconds"][is_tool_verified]]
    )
    # Without a verified program, any axis will do.
    low, edge = (
        (verified_seconds.min() / 2, 2 * verified_seconds.max())
        if len(verified_seconds)
        else (0.1, 10.0)
    )
    limits = (low, edge * (edge / low) ** _EDGE_BAND)
    points = table.assign(
        x=table["tool_seconds"].where(is_tool_verified, edge),
        y=table["seconds"].where(is_verified, edge),
        tool_verified=is_tool_verified,
        verified=is_verified,
    )
    tools, semantics = points["tool"].unique(), points["semantics"].unique()
    with use_figure_style():
        figure, axes = plt.subplots(
            len(tools),
            len(semantics),
            figsize=(COLUMN_WIDTH, 0.3 + 1.75 * len(tools)),
            layout="constrained",
            squeeze=False,
            sharey=True,
        )
        colours = sns.color_palette("colorblind", len(tools))
        for row, tool in enumerate(tools):
            # More tools than markers repeat the first markers.
            style = {"color": colours[row], "marker": _MARKERS[row % len(_MARKERS)]}
            for column, name in enumerate(semantics):
                panel_axes = axes[row, column]
                panel_points = points[(points["tool"] == tool) & (points["semantics"] == name)]
                _draw_points(panel_axes, panel_points, edge, **style)
                set_log_scales(panel_axes)
                # The same limits on both axes, so that the diagonal means equal seconds.
                panel_axes.set(xlim=limits, ylim=limits, aspect="equal")
                panel_axes.plot(
                    [low, edge], [low, edge], color=_GREY, linewidth=0.8, ls="--", zorder=1
                )
                panel_axes.set_xlabel(f"{tool} (s)")
                panel_axes.set_title(name if row == 0 else None, fontsize=9)
            axes[row, 0].set_ylabel(f"{method} (s)")
        return figure


def _check_rows(table: pd.DataFrame) -> None:
    if table.empty:
        raise InvalidTable("table: no rows; a figure needs at least one program")


def _select_largest_sets(sets: pd.DataFrame, strategies: list[str]) -> pd.DataFrame:
    """Select the largest sets, and always the set of the unsolved programs."""
    is_solved = sets[strategies].any(axis=1)
    # The unsolved set has its own colour and hatch, and never loses its place.
    return pd.concat([sets[is_solved].head(_MAX_SETS - 1), sets[~is_solved]])


def _draw_bars(axes: Axes, sets: pd.DataFrame, strategies: list[str]) -> None:
    is_solved = sets[strategies].any(axis=1)
    blue = sns.color_palette()[0]
    colours = [blue if solved else "0.85" for solved in is_solved]
    hatches = ["" if solved else HATCHES[1] for solved in is_solved]
    bars = axes.bar(
        range(len(sets)),
        sets["programs"],
        width=0.65,
        color=colours,
        hatch=hatches,
        edgecolor="black",
        linewidth=0.6,
    )
    axes.bar_label(bars, fontsize=_SMALL_FONT_SIZE, padding=1)
    axes.margins(y=0.15)
    axes.set(ylabel="programs")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(visible=False)
    axes.tick_params(labelbottom=False)
    sns.despine(ax=axes)


def _draw_dots(axes: Axes, sets: pd.DataFrame, labels: list[str]) -> None:
    is_filled = sets.iloc[:, 1 : 1 + len(labels)].to_numpy(dtype=bool)
    for x, column in enumerate(is_filled):
        rows = np.flatnonzero(column)
        # A set without strategies has no filled dots to connect.
        if len(rows):
            axes.plot([x, x], [rows[0], rows[-1]], color="black", linewidth=1, zorder=1)
    for solved, colour in ((False, "0.85"), (True, "black")):
        columns, rows = np.nonzero(is_filled == solved)
        axes.scatter(columns, rows, s=14, color=colour, linewidth=0, zorder=2 + solved)
    axes.set_yticks(range(len(labels)), labels, fontsize=_SMALL_FONT_SIZE)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(labelbottom=False)
    axes.grid(visible=False)
    sns.despine(ax=axes, left=True, bottom=True)


def _draw_points(axes: Axes, points: pd.DataFrame, edge: float, **look: Any) -> None:
    # Programs that neither verifies are only counted in the corner.
    drawn_points = points[points["verified"] | points["tool_verified"]]
    axes.axhline(edge, color=_GREY, linewidth=0.6, zorder=1)
    axes.axvline(edge, color=_GREY, linewidth=0.6, zorder=1)
    axes.scatter(
        drawn_points["x"],
        drawn_points["y"],
        s=14,
        alpha=0.6,
        edgecolor="black",
        linewidth=0.3,
        zorder=2,
        **look,
    )
    method_count = (points["verified"] & ~points["tool_verified"]).sum()
    tool_count = (~points["verified"] & points["tool_verified"]).sum()
    inner_share = 1 / (1 + _EDGE_BAND)
    centre, edge_centre = inner_share / 2, (1 + inner_share) / 2
    text_style: dict[str, Any] = {
        "fontsize": _SMALL_FONT_SIZE,
        "ha": "center",
        "va": "center",
        "transform": axes.transAxes,
        "bbox": {"color": "white", "pad": 0.5},
    }
    axes.text(edge_centre, centre, f"not verified: {method_count}", rotation=90, **text_style)
    axes.text(centre, edge_centre, f"not verified: {tool_count}", **text_style)
    axes.text(edge_centre, edge_centre, str(len(points) - len(drawn_points)), **text_style)
