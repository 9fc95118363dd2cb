"""Widths of intervals against forward passes, one panel for each query and model."""

import textwrap

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from narrowing import ANYTIME, PAPER, QUERIES, REFINEMENT, SAMPLING

from llmchecker.properties.logic.parser import parse
from llmchecker.properties.registry import create_quantifier
from llmchecker.reporting.figures import set_log_scales, use_figure_style
from llmchecker.reporting.query_wording import describe_answer

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


def width(points: pd.DataFrame, length: int) -> Figure:
    """Width against passes with logarithmic axes: a row for each model, a column for each query.

    Args:
        points: rows of `narrowing.Point`, with the width.
        length: the horizon in tokens.
    """
    quantifiers = {"gender": create_quantifier("gender")}
    models = list(dict.fromkeys(points["model"]))
    with use_figure_style():
        figure, panels = plt.subplots(
            len(models),
            len(QUERIES),
            figsize=(7.2, 0.9 + 1.7 * len(models)),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for row, model in zip(panels, models, strict=True):
            for panel, (name, query) in zip(row, QUERIES.items(), strict=True):
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
                    words = describe_answer(parse(query), quantifiers, length)
                    event = words.removeprefix("probability of ")
                    title = textwrap.fill(event[0].upper() + event[1:], TITLE_CHARACTERS)
                    panel.set_title(title, fontsize=7)
            row[0].set_ylabel(f"{model}\nwidth of the interval")
        for panel in panels[-1]:
            panel.set_xlabel("forward passes")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
        return figure
