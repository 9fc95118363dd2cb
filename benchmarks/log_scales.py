"""Logarithmic axes with ticks in plain numbers, since no text of a figure is read as mathtext."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter


def set_log_scales(axes: Axes) -> None:
    """Make both axes of a plot logarithmic; powers of ten are told as 0.01, 100 or 1e7."""
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-")
