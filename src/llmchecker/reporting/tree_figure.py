"""Plot of a tree's most probable texts, from left to right."""

import unicodedata
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from llmchecker.errors import InvalidBound
from llmchecker.reporting.answer_figure import CERTAIN_COLOUR
from llmchecker.reporting.tree_drawing import FILLS, MAX_DRAWN_STATES, Drawing, format_label
from llmchecker.trees.text_tree import StateKind
from llmchecker.utils.number_format import format_count, format_number

_FONT_SIZE = 9
_CHARACTER, _ROW, _GAP, _MARGIN = 0.0755, 0.25, 0.75, 0.15
"""Width of a character, height of a row, length of an edge and margin, in inches."""


def draw_tree(drawing: Drawing, max_states: int) -> Axes:
    """Draw the most probable states of a tree, each with the text that it adds.

    The numbers on the edges are probabilities given the text before. A dashed box represents all
    tokens that were not selected, and a thick one ends the text.

    Args:
        drawing: the tree and the states that decide a query.
        max_states: maximum number of states in the plot.

    Returns:
        The axes, whose unit is an inch.

    Raises:
        InvalidBound: `max_states` is not from 1 to `MAX_DRAWN_STATES`.
    """
    if not 1 <= max_states <= MAX_DRAWN_STATES:
        raise InvalidBound(f"max_states: {max_states} is not from 1 to {MAX_DRAWN_STATES}")
    states = _select_most_probable(drawing, max_states)
    labels = {uid: format_label(drawing, uid) for uid in states}
    left, right = _layout_columns(drawing, labels)
    height = _layout_rows(drawing, states)
    steps = drawing.tree.step
    # the width of the title must fit, also above a narrow tree
    title = _format_title(drawing, len(states))
    size = (
        max(right[-1], _MARGIN + _CHARACTER * len(title)) + _MARGIN,
        max(height.values()) + _ROW + _MARGIN,
    )
    figure = plt.figure(figsize=size)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
    axes.set_axis_off()
    style: dict[str, Any] = {"fontsize": _FONT_SIZE, "family": "monospace", "parse_math": False}
    axes.text(_MARGIN, _MARGIN + _ROW / 2, title, va="center", **style)
    for uid in states[1:]:
        parent = drawing.tree.parent[uid]
        begin, end = left[steps[parent]] + _measure(labels[parent]), left[steps[uid]]
        # an edge bends after the widest box of the parent's step, so that it crosses none
        bend = right[steps[parent]]
        axes.plot(
            [begin, bend, bend + _GAP / 4, end],
            [height[parent], height[parent], height[uid], height[uid]],
            color=CERTAIN_COLOUR,
            linewidth=0.8,
            zorder=1,
        )
        number = format_number(drawing.tree.probability[uid], 2)
        axes.text(
            end - 0.06,
            height[uid],
            number,
            fontsize=_FONT_SIZE - 2,
            color="0.35",
            ha="right",
            va="bottom",
        )
    for uid, label in labels.items():
        kind = drawing.tree.kind[uid]
        box: dict[str, Any] = {
            "boxstyle": "round,pad=0.25",
            "facecolor": FILLS.get(drawing.witness_kinds.get(uid, ""), "white"),
            "edgecolor": CERTAIN_COLOUR,
            "linestyle": "--" if kind == StateKind.REST else "-",
            "linewidth": 2 if kind == StateKind.END else 0.8,
        }
        axes.text(left[steps[uid]] + 0.04, height[uid], label, va="center", bbox=box, **style)
    return axes


def _select_most_probable(drawing: Drawing, max_states: int) -> list[int]:
    """Return the most probable states in preorder, with the parents of each."""
    # a parent is at least as probable as its child and has a smaller uid, so it is first
    order = np.argsort(-drawing.tree.path_probability, kind="stable")
    is_selected = np.zeros(len(drawing.tree), dtype=bool)
    is_selected[order[:max_states]] = True
    return [uid for uid in drawing.preorder() if is_selected[uid]]


def _layout_columns(drawing: Drawing, labels: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the left and right ends of the boxes of each step, in inches."""
    width = np.zeros(max(drawing.tree.step[uid] for uid in labels) + 1)
    for uid, label in labels.items():
        step = drawing.tree.step[uid]
        width[step] = max(width[step], _measure(label))
    left = _MARGIN + np.concatenate([[0], np.cumsum(width + _GAP)[:-1]])
    return left, left + width


def _measure(label: str) -> float:
    """Return the width of a box in inches; wide characters take two columns."""
    columns = sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in label)
    return columns * _CHARACTER + 0.1


def _layout_rows(drawing: Drawing, states: list[int]) -> dict[int, float]:
    """Compute the vertical positions of states: leaves in rows, parents between them."""
    children: dict[int, list[int]] = {uid: [] for uid in states}
    for uid in states[1:]:
        children[drawing.tree.parent[uid]].append(uid)
    leaves = [uid for uid in states if not children[uid]]
    height = {uid: _MARGIN + _ROW * (row + 2) for row, uid in enumerate(leaves)}
    # in reverse, because a parent needs the positions of its children
    for uid in reversed(states):
        if children[uid]:
            height[uid] = float(np.mean([height[child] for child in children[uid]]))
    return height


def _format_title(drawing: Drawing, count: int) -> str:
    total = len(drawing.tree)
    shown = format_count(total, "state")
    if count < total:
        shown = f"the {count:,} most probable of {shown}"
    return f"{drawing.tree.model}, {drawing.tree.truncation}: {shown}"
