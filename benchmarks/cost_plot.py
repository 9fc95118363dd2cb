"""Cost of checking against the states of the tree, for every route."""

from collections.abc import Mapping

import matplotlib as mpl
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from llmchecker.reporting.figures import COLUMN_WIDTH, STYLE, set_log_scales

ROUTES = {
    "check": ("explicit chain: files to verdict", "o", "-"),
    "jani": ("JANI: parse and build", "s", "--"),
    "prism": ("PRISM: parse and build", "^", ":"),
}
"""Label, marker and line of each route, by the first word of its figures' names."""


def cost(found: Mapping[str, float]) -> Figure:
    """Seconds against states with logarithmic axes, one line a route, its exponent in the legend.

    Args:
        found: `{route}.seconds.{states}` and `{route}.exponent`.
    """
    with sns.axes_style("whitegrid"), sns.color_palette("colorblind"), mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(1.4 * COLUMN_WIDTH, 3.2), layout="constrained")
        for route, (label, marker, line) in ROUTES.items():
            prefix = f"{route}.seconds."
            points = {
                float(name.removeprefix(prefix)): seconds
                for name, seconds in found.items()
                if name.startswith(prefix)
            }
            label = f"{label}, exponent {found[f'{route}.exponent']:.2f}"
            axes.plot(points.keys(), points.values(), marker=marker, linestyle=line, label=label)
        set_log_scales(axes)
        axes.set(xlabel="states", ylabel="seconds")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False, handlelength=3.5)
        return figure
