"""The figure of an anytime answer: both intervals against the passes."""

from collections.abc import Sequence
from typing import Protocol

from matplotlib.figure import Figure

_SIZE = (5.0, 3.0)
"""Width and height of the figure in inches."""
_CERTAIN_COLOUR, _INTERVAL_COLOUR = "#949494", "#0173b2"
"""Grey and blue of seaborn's colour-blind palette."""


class Progress(Protocol):
    """The intervals of a check at one time, as of `AnytimeProgress`."""

    passes: int
    lower: float
    upper: float
    low: float | None
    high: float | None


def draw_history(
    history: Sequence[Progress], confidence: float | None, threshold: float | None
) -> Figure:
    """Draw certain bounds and the interval of the samples after each round.

    Args:
        history: the intervals after each round.
        confidence: the confidence of the interval; None without samples.
        threshold: the threshold of the query, drawn as a line; None without one.
    """
    # a figure of its own, without pyplot, changes no backend of the caller
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    # a logarithmic axis has no 0
    rounds = [progress for progress in history if progress.passes > 0]
    axes.fill_between(
        [progress.passes for progress in rounds],
        [progress.lower for progress in rounds],
        [progress.upper for progress in rounds],
        color=_CERTAIN_COLOUR,
        alpha=0.3,
        label="certain",
    )
    sampled = [progress for progress in rounds if progress.low is not None]
    if sampled and confidence is not None:
        axes.fill_between(
            [progress.passes for progress in sampled],
            [progress.low for progress in sampled],
            [progress.high for progress in sampled],
            color=_INTERVAL_COLOUR,
            alpha=0.6,
            label=f"confidence {confidence:g}",
        )
    if threshold is not None:
        axes.axhline(threshold, color="black", linestyle="--", linewidth=0.8, label="threshold")
    if rounds:
        axes.set_xscale("log")
    axes.set_xlabel("passes")
    axes.set_ylabel("answer")
    axes.legend()
    return figure
