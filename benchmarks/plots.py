"""Plots of `make bench`: cost of checking against states, widths against forward passes."""

import textwrap
from collections.abc import Mapping

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from narrowing import ANYTIME, PAPER, REFINEMENT, SAMPLING
from plain_sampling import FORMULAS

import llmchecker as lc
from llmchecker.reporting.figures import COLUMN_WIDTH, set_log_scales, use_figure_style
from llmchecker.reporting.query_wording import describe_answer

ROUTES = {
    "check": ("explicit chain: files to verdict", "o", "-"),
    "jani": ("JANI: parse and build", "s", "--"),
    "prism": ("PRISM: parse and build", "^", ":"),
}
"""Label, marker and line of each route, by the first word of its figures' names."""
LOOKS = {
    PAPER: {"color": "C7", "marker": "s", "linestyle": ":"},
    REFINEMENT: {"color": "C0", "marker": "", "linestyle": "-"},
    SAMPLING: {"color": "C1", "marker": "^", "linestyle": ""},
    ANYTIME: {"color": "C2", "marker": "o", "linestyle": ""},
}
"""How each way looks. Trees and refinements are certain; others have a point for each seed."""
CERTAIN = "{way}, certain"
LIKELY = "{way}, confidence 0.95"
TITLE_CHARACTERS = 26
"""The longest line of a panel's title."""


def draw_cost(found: Mapping[str, float]) -> Figure:
    """Draw seconds against states, with one line for each route and its exponent in the legend.

    Args:
        found: `{route}.seconds.{states}` and `{route}.exponent`.
    """
    with use_figure_style():
        figure, axes = plt.subplots(figsize=(1.4 * COLUMN_WIDTH, 3.2), layout="constrained")
        for route, (label, marker, line) in ROUTES.items():
            prefix = f"{route}.seconds."
            points = {
                float(name.removeprefix(prefix)): seconds
                for name, seconds in found.items()
                if name.startswith(prefix)
            }
            label = f"{label}, exponent {found[f'{route}.exponent']:.2f}"
            axes.plot(
                list(points), list(points.values()), marker=marker, linestyle=line, label=label
            )
        set_log_scales(axes)
        axes.set(xlabel="states", ylabel="seconds")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False, handlelength=3.5)
        return figure


def draw_width(points: pd.DataFrame, length: int) -> Figure:
    """Draw widths against passes, with a row for each model and a column for each query.

    Args:
        points: rows of `narrowing.Point`, with the width.
        length: the horizon in tokens.
    """
    quantifiers = {"gender": lc.Gender()}
    models = list(dict.fromkeys(points["model"]))
    with use_figure_style():
        figure, panels = plt.subplots(
            len(models),
            len(FORMULAS),
            figsize=(7.2, 0.9 + 1.7 * len(models)),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for row, model in zip(panels, models, strict=True):
            for panel, (name, formula) in zip(row, FORMULAS.items(), strict=True):
                here = points[(points["model"] == model) & (points["query"] == name)]
                for way, look in LOOKS.items():
                    line = here[here["way"] == way].sort_values("passes")
                    label = (LIKELY if way in (SAMPLING, ANYTIME) else CERTAIN).format(way=way)
                    panel.plot(
                        line["passes"],
                        line["width"],
                        label=label,
                        markersize=3,
                        linewidth=1.1,
                        **look,
                    )
                set_log_scales(panel)
                panel.grid(visible=True, which="major", linewidth=0.4)
                if model == models[0]:
                    words = describe_answer(lc.parse(formula.query), quantifiers, length)
                    event = words.removeprefix("probability of ")
                    title = textwrap.fill(event[0].upper() + event[1:], TITLE_CHARACTERS)
                    panel.set_title(title, fontsize=7)
            row[0].set_ylabel(f"{model}\nwidth of the interval")
        for panel in panels[-1]:
            panel.set_xlabel("forward passes")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
        return figure
