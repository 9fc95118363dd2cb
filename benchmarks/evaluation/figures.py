"""Figures of the evaluation, one function a table."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from evaluation.growth import find_slope
from llmchecker.reporting.figures import set_log_scales, use_figure_style

WIDTH = 7.2
LEAST_WIDTH = 1e-4
"""The smallest width that is drawn: exact answers have the width 0."""
LOOKS = {
    "certain": {"color": "C0", "marker": "", "linestyle": "-"},
    "interval": {"color": "C2", "marker": "o", "linestyle": "-"},
    "plain": {"color": "C1", "marker": "^", "linestyle": ":"},
}
LABELS = {
    "certain": "certain bounds",
    "interval": "interval, valid at any stop",
    "plain": "plain samples, Clopper and Pearson",
}


def draw_reach(table: pd.DataFrame) -> Figure:
    """Draw widths against the horizon at the largest budget: a row a decoding, a column a query."""
    table = table[table["passes"] == table["passes"].max()]
    models, queries = table["model"].unique(), table["query"].unique()
    rows = [(model, each) for model in models for each in table["decoding"].unique()]
    with use_figure_style():
        figure, panels = plt.subplots(
            len(rows),
            len(queries),
            figsize=(1.3 * WIDTH, 0.9 + 1.3 * len(rows)),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for line, (model, decoding) in zip(panels, rows, strict=True):
            for panel, query in zip(line, queries, strict=True):
                here = table[
                    (table["model"] == model)
                    & (table["decoding"] == decoding)
                    & (table["query"] == query)
                ]
                for key, look in LOOKS.items():
                    widths = here[key].clip(lower=LEAST_WIDTH)
                    panel.plot(here["horizon"], widths, label=LABELS[key], markersize=3, **look)
                set_log_scales(panel)
                panel.set_ylim(LEAST_WIDTH * 0.7, 1.4)
            line[0].set_ylabel(f"{decoding}\nwidth", fontsize=7)
        for panel, query in zip(panels[0], queries, strict=True):
            panel.set_title(query, fontsize=8)
        for panel in panels[-1]:
            panel.set_xlabel("horizon in tokens")
        _add_legend(figure, panels[0][0])
        return figure


def draw_worth(table: pd.DataFrame) -> Figure:
    """Draw the width of each other interval over that of the package, by query and horizon."""
    budgets = [budget for budget in ("passes", "seconds") if (table["budget"] == budget).any()]
    keys = ["model", "decoding", "query", "horizon"]
    with use_figure_style():
        figure, panels = plt.subplots(
            1, len(budgets), figsize=(WIDTH, 3.6), sharey=True, squeeze=False, layout="constrained"
        )
        for panel, budget in zip(panels[0], budgets, strict=True):
            here = table[table["budget"] == budget]
            widths = here.pivot_table(index=keys, columns="method", values="width", sort=False)
            places = np.arange(len(widths))
            for index, method in enumerate(("Clopper-Pearson", "Okamoto", "betting")):
                # an exact answer has no ratio
                ratios = widths["LLMChecker"].clip(lower=LEAST_WIDTH) / widths[method]
                panel.plot(ratios, places, linestyle="", marker="o^s"[index], label=method)
            panel.axvline(1, color="black", linewidth=0.8)
            panel.set_xlim(left=0)
            panel.set_title(f"equal {budget}", fontsize=8)
            panel.set_xlabel("width, LLMChecker over method")
            names = [f"{each[1]}, {each[2]}, {each[3]}" for each in widths.index]
            panel.set_yticks(places, names, fontsize=6)
        _add_legend(figure, panels[0][0])
        return figure


def draw_coverage(table: pd.DataFrame) -> Figure:
    """Draw the share of runs that ever miss the truth over the nominal share."""
    keys = ["access", "method", "confidence"]
    sums = table.groupby(keys, sort=False)[["misses", "runs"]].sum().reset_index()
    sums["ratio"] = sums["misses"] / sums["runs"] / (1 - sums["confidence"])
    with use_figure_style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.8), layout="constrained")
        names = [f"{row.access}: {row.method}" for row in sums.itertuples()]
        order = list(dict.fromkeys(names))
        for index, (confidence, here) in enumerate(sums.groupby("confidence")):
            places = [order.index(f"{row.access}: {row.method}") for row in here.itertuples()]
            axes.plot(
                here["ratio"],
                places,
                linestyle="",
                marker="o^"[index],
                label=f"confidence {confidence:g}",
            )
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_yticks(range(len(order)), order, fontsize=7)
        axes.set_xlabel("share of runs that miss the truth, over 1 - confidence")
        axes.legend(frameon=False)
        return figure


def draw_growth(table: pd.DataFrame) -> Figure:
    """Draw seconds against each size, with the exponent of the larger half in the title."""
    axes_names = list(table["axis"].unique())
    with use_figure_style():
        figure, panels = plt.subplots(
            1, len(axes_names), figsize=(WIDTH, 2.2), squeeze=False, layout="constrained"
        )
        for panel, name in zip(panels[0], axes_names, strict=True):
            here = table[table["axis"] == name]
            panel.plot(here["size"], here["seconds"], marker="o")
            set_log_scales(panel)
            # whole decades, so that each panel has ticks
            decades = np.log10(here["seconds"])
            panel.set_ylim(10 ** np.floor(decades.min()), 10 ** np.ceil(decades.max()))
            slope = find_slope(here["size"].tolist(), here["seconds"].tolist())
            panel.set_title(f"exponent {slope:z.2f}", fontsize=8)
            panel.set_xlabel(name)
            # labels of six digits would touch: 100k
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panels[0][0].set_ylabel("processor seconds")
        return figure


def draw_closest(table: pd.DataFrame) -> Figure:
    """Draw the widths of both certain bounds for each constraint."""
    groups = list(table.groupby(["model", "constraint"], sort=False))
    with use_figure_style():
        figure, panels = plt.subplots(
            1, len(groups), figsize=(WIDTH, 2.4), sharey=True, squeeze=False, layout="constrained"
        )
        for panel, ((_, constraint), here) in zip(panels[0], groups, strict=True):
            panel.plot(here["passes"], here["width"], marker="o", label="LLMChecker")
            panel.plot(
                here["passes"], here["beaver_width"], marker="^", linestyle=":", label="BEAVER"
            )
            panel.set_title(constraint, fontsize=8)
            panel.set_xlabel("passes")
            panel.set_xticks(here["passes"])
        panels[0][0].set_ylabel("width of certain bounds")
        _add_legend(figure, panels[0][0])
        return figure


def _add_legend(figure: Figure, axes: plt.Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)


FIGURES: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "reach": draw_reach,
    "worth": draw_worth,
    "coverage": draw_coverage,
    "growth": draw_growth,
    "closest": draw_closest,
}
"""The figure of each table."""
