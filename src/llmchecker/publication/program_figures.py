"""The figures of the experiments on programs, drawn from the tables behind them only.

Panels stand for semantics. As in the project's other figures, shape or hatch repeats what colour
says.
"""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from llmchecker.errors import InvalidTable
from llmchecker.proving.outcomes import Outcome
from llmchecker.publication.drawing import printed
from llmchecker.publication.figures import COLUMN_WIDTH, HATCHES, figure_style, set_log_scales

MOST_SETS = 14
"""Bars of a panel that leave room for numbers; what is left over is told below them."""
FEWEST_COLUMNS = 4
"""Room for so many bars is left where there are fewer, so that they do not grow fat."""
GREY = "0.55"
MARKERS = "oX^Ds"
BAND = 0.2
"""The part of an axis, on its logarithmic scale, that lies beyond the edge."""
SMALL = 7
"""Points: numbers within a figure."""


def draw_solved_sets(table: pd.DataFrame) -> Figure:
    """Which ways solve the same programs, one panel a semantics: bars over a matrix of dots.

    A bar counts the programs that exactly the ways with a filled dot below it solve. The grey one
    counts those that none solves. Behind the name of a way stands how many it solves in all.

    Args:
        table: what `solved_sets_table` returns; only the largest sets of a panel are drawn.

    Raises:
        InvalidTable: the table has no rows.
    """
    _demand_rows(table)
    ways = list(table.columns.drop(["semantics", "programs", "names"]))
    panels = list(table.groupby("semantics", sort=False))
    bars_inches, dots_inches = 0.9, 0.14 * len(ways) + 0.1
    with figure_style():
        size = (COLUMN_WIDTH, len(panels) * (bars_inches + dots_inches + 0.3))
        figure = plt.figure(figsize=size, layout="constrained")
        figure.get_layout_engine().set(h_pad=0.03, hspace=0)
        ratios = [bars_inches, dots_inches] * len(panels)
        grid = figure.add_gridspec(len(ratios), 1, height_ratios=ratios)
        shared = None
        for number, (semantics, sets) in enumerate(panels):
            bars = shared = figure.add_subplot(grid[2 * number], sharex=shared)
            dots = figure.add_subplot(grid[2 * number + 1], sharex=shared)
            drawn = _largest(sets, ways)
            _draw_bars(bars, drawn, ways)
            solved = [sets.loc[sets[way], "programs"].sum() for way in ways]
            labels = [f"{printed(way)}  {count}" for way, count in zip(ways, solved, strict=True)]
            _draw_dots(dots, drawn, labels)
            bars.set_title(semantics, fontsize=9, loc="left")
            left = sets.drop(drawn.index)
            if len(left):
                told = f"smaller sets not drawn: {len(left)}, programs: {left['programs'].sum()}"
                dots.set_xlabel(told, fontsize=SMALL)
        widest = max([FEWEST_COLUMNS, *(len(_largest(sets, ways)) for _, sets in panels)])
        shared.set_xlim(-0.6, widest - 0.4)
        return figure


def draw_seconds(table: pd.DataFrame, method: str) -> Figure:
    """Seconds of a method against those of each tool: a row a tool, a column a semantics.

    A point is a program that either verifies. One that the other does not verify lies on the edge,
    which has the number of such programs, and its corner that of those which neither verifies.

    Args:
        table: what `seconds_table` returns.
        method: what to call the method.

    Raises:
        InvalidTable: the table has no rows.
    """
    _demand_rows(table)
    verified = table["outcome"] == Outcome.VERIFIED
    tool_verified = table["tool_outcome"] == Outcome.VERIFIED
    known = pd.concat([table["seconds"][verified], table["tool_seconds"][tool_verified]])
    low, edge = (known.min() / 2, 2 * known.max()) if len(known) else (0.1, 10.0)
    limits = (low, edge * (edge / low) ** BAND)
    points = table.assign(
        x=table["tool_seconds"].where(tool_verified, edge),
        y=table["seconds"].where(verified, edge),
        tool_verified=tool_verified,
        verified=verified,
    )
    tools, semantics = points["tool"].unique(), points["semantics"].unique()
    with figure_style():
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
            look = {"color": colours[row], "marker": MARKERS[row % len(MARKERS)]}
            for column, name in enumerate(semantics):
                panel = axes[row, column]
                here = points[(points["tool"] == tool) & (points["semantics"] == name)]
                _draw_points(panel, here, edge, **look)
                set_log_scales(panel)
                panel.set(xlim=limits, ylim=limits, aspect="equal")
                panel.plot([low, edge], [low, edge], color=GREY, linewidth=0.8, ls="--", zorder=1)
                panel.set_xlabel(f"{tool} (s)")
                panel.set_title(name if row == 0 else None, fontsize=9)
            axes[row, 0].set_ylabel(f"{method} (s)")
        return figure


def _demand_rows(table: pd.DataFrame) -> None:
    if table.empty:
        raise InvalidTable("the table has no rows; a figure shows at least one program")


def _largest(sets: pd.DataFrame, ways: list[str]) -> pd.DataFrame:
    """The largest sets, and always that of the programs which none solves."""
    by_any = sets[ways].any(axis=1)
    return pd.concat([sets[by_any].head(MOST_SETS - 1), sets[~by_any]])


def _draw_bars(axes: Axes, sets: pd.DataFrame, ways: list[str]) -> None:
    by_any = sets[ways].any(axis=1)
    blue = sns.color_palette()[0]
    colours = [blue if solved else "0.85" for solved in by_any]
    hatches = ["" if solved else HATCHES[1] for solved in by_any]
    look = {"color": colours, "hatch": hatches, "edgecolor": "black", "linewidth": 0.6}
    bars = axes.bar(range(len(sets)), sets["programs"], width=0.65, **look)
    axes.bar_label(bars, fontsize=SMALL, padding=1)
    axes.margins(y=0.15)
    axes.set(ylabel="programs")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(visible=False)
    axes.tick_params(labelbottom=False)
    sns.despine(ax=axes)


def _draw_dots(axes: Axes, sets: pd.DataFrame, labels: list[str]) -> None:
    filled = sets.iloc[:, 1 : 1 + len(labels)].to_numpy(dtype=bool)
    for x, column in enumerate(filled):
        rows = np.flatnonzero(column)
        if len(rows):
            axes.plot([x, x], [rows[0], rows[-1]], color="black", linewidth=1, zorder=1)
    for solved, colour in ((False, "0.85"), (True, "black")):
        x, y = np.nonzero(filled == solved)
        axes.scatter(x, y, s=14, color=colour, linewidth=0, zorder=2 + solved)
    axes.set_yticks(range(len(labels)), labels, fontsize=SMALL)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(labelbottom=False)
    axes.grid(visible=False)
    sns.despine(ax=axes, left=True, bottom=True)


def _draw_points(axes: Axes, points: pd.DataFrame, edge: float, **look) -> None:
    shown = points[points["verified"] | points["tool_verified"]]
    axes.axhline(edge, color=GREY, linewidth=0.6, zorder=1)
    axes.axvline(edge, color=GREY, linewidth=0.6, zorder=1)
    axes.scatter(
        shown["x"], shown["y"], s=14, alpha=0.6, edgecolor="black", linewidth=0.3, zorder=2, **look
    )
    only_method = (points["verified"] & ~points["tool_verified"]).sum()
    only_tool = (~points["verified"] & points["tool_verified"]).sum()
    within = 1 / (1 + BAND)
    middle, beyond = within / 2, (1 + within) / 2
    around = {"fontsize": SMALL, "ha": "center", "va": "center", "transform": axes.transAxes}
    around["bbox"] = {"color": "white", "pad": 0.5}
    axes.text(beyond, middle, f"not verified: {only_method}", rotation=90, **around)
    axes.text(middle, beyond, f"not verified: {only_tool}", **around)
    axes.text(beyond, beyond, len(points) - len(shown), **around)
