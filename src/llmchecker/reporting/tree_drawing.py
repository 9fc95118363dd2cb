"""Drawings of text trees, from left to right, as SVG or Graphviz DOT.

Each state shows the text that it adds to its parent's text, its probability given that text, and
its scores. States that decide a query have a sign and a colour. Each leaf has a row in preorder,
and each parent is at the mean height of its children.
"""

import base64
import os.path
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

from llmchecker.checking.witnesses import COUNTEREXAMPLE, WITNESS
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.number_format import format_count, format_number
from llmchecker.utils.printable_text import escape_unprintable

MAX_DRAWN_STATES = 400
"""Maximum number of states of a readable picture."""
MAX_LABEL_LENGTH = 40
"""Maximum number of characters of a label."""
SIGNS = {WITNESS: "✓", COUNTEREXAMPLE: "✗"}
MEANINGS = {WITNESS: "satisfies the query", COUNTEREXAMPLE: "violates the query"}

_ROW, _BOX, _GAP, _MARGIN = 26, 20, 78, 12
_CHARACTER_WIDTH = 7.3  # the width of a character, for a monospaced font of 12 pixels
_LINE = 17  # the distance of the lines of the legend
_MIN_LEGEND = 70  # number of characters of a line of the legend, at least
_STYLE = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1d2530; white-space: pre }
.score, .given, .heading { fill: #5b6675 } .heading { font-weight: bold } .given { font-size: 11px }
rect { fill: #fff; stroke: #9aa5b3 } path { fill: none; stroke: #b9c2cd }
.rest rect { stroke-dasharray: 4 3 } .rest text { font-style: italic } .end rect { stroke-width: 3 }
.witness rect { fill: #d3f0df; stroke: #0b7a4b; stroke-width: 2 }
.counterexample rect { fill: #fde0d2; stroke: #b4420b; stroke-width: 2 }
"""
_FILLS = {WITNESS: "#d3f0df", COUNTEREXAMPLE: "#fde0d2"}


@dataclass(frozen=True)
class Wording:
    """The words of a legend.

    Attributes:
        number: meaning of the number of an edge.
        rest: meaning of a dashed box.
        end: meaning of a thick box.
        other_texts: description of the texts of a `rest`.
    """

    number: str = "probability given the text before"
    rest: str = "tokens that were not selected"
    end: str = "the text ends"
    other_texts: str = "texts that go on with any other token"


@dataclass(frozen=True)
class Drawing:
    """The most probable states of a tree, with the data of their drawing.

    Attributes:
        tree: the tree.
        scores: (n,) integers by the quantifier's name; without meaning for `rest`.
        witness_kinds: the `kind` of the witness of each deciding state, by uid.
        max_states: maximum number of states in the drawing.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    witness_kinds: Mapping[int, str]
    max_states: int = field(default=MAX_DRAWN_STATES, kw_only=True)

    wording: ClassVar[Wording] = Wording()

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the columns; empty without."""
        return ()

    def rest_label(self, uid: int) -> str:
        """Return the label of a `rest`."""
        return "any other token"

    def added_text(self, uid: int) -> str:
        """Return the text that a state adds to its parent's text; "" for `rest`.

        The root adds its whole text. If decoding changed the end of the parent's text, the changed
        part counts as added.
        """
        tree = self.tree
        text = tree.text[uid] or ""
        parent_text = tree.text[tree.parent[uid]] if uid else ""
        return text[len(os.path.commonprefix((parent_text, text))) :]  # noqa: RUF071 - of characters

    def display_text(self, uid: int) -> str:
        """Return the text that a state adds, in printable form on one line."""
        text = escape_unprintable(self.added_text(uid))
        # Only a blank text would be invisible in its box.
        return text.replace(" ", "␣") if text.isspace() else text

    def state_scores(self, uid: int) -> list[tuple[str, int]]:
        """Return the names and scores of a state; [] for `rest`."""
        # The text of `rest` is unknown, so its scores are meaningless.
        if self.tree.kind[uid] == StateKind.REST:
            return []
        return [(name, int(column[uid])) for name, column in self.scores.items()]

    @cached_property
    def children(self) -> Mapping[int, Sequence[int]]:
        """The drawn children of each drawn state, by uid."""
        # A parent is at least as probable as its child and before it in the stable order, so the
        # parent of each drawn state is drawn.
        order = np.argsort(-self.tree.path_probability, kind="stable")[: self.max_states]
        uids: list[int] = np.sort(order).tolist()
        children: dict[int, list[int]] = {uid: [] for uid in uids}
        for uid in uids[1:]:
            children[int(self.tree.parent[uid])].append(uid)
        return children

    @cached_property
    def preorder(self) -> Sequence[int]:
        """The uids of the drawn states in preorder."""
        order, stack = [], [0]
        while stack:
            order.append(stack.pop())
            # A stack instead of recursion, in reverse, so that the first child is next.
            stack.extend(reversed(self.children[order[-1]]))
        return order

    @property
    def size(self) -> str:
        """The number of drawn states and of all states, in words."""
        total = format_count(len(self.tree), "state")
        is_whole = len(self.children) == len(self.tree)
        return total if is_whole else f"the {len(self.children):,} most probable of {total}"

    def write(self, path: str | Path) -> None:
        """Write the drawing to an SVG file."""
        with atomic_write(path) as partial_path:
            partial_path.write_text(format_svg(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the drawing as an HTML image."""
        description = f"{self.tree.model}, {self.tree.truncation}: {self.size}"
        return Markup(
            '<div style="overflow: auto; max-height: 40em">'
            '<img style="max-width: none" alt="{}" src="{}" /></div>'
        ).format(description, encode_svg(self))


def format_dot(drawing: Drawing) -> str:
    """Format a drawing as a digraph in Graphviz's DOT language."""
    lines = [
        "digraph tree {",
        '  graph [rankdir=LR, nodesep=0.1, ranksep=0.8, ordering="out"];',
        '  node [shape=box, fontname="monospace", fontsize=10, height=0.3];',
        '  edge [fontname="monospace", fontsize=9, arrowsize=0.6];',
    ]
    tree = drawing.tree
    if len(drawing.children) < len(tree):
        lines.append(f'  label="{drawing.size}";')
    for uid in drawing.children:
        label = "\\n".join(
            map(_escape_dot, [_format_label(drawing, uid), *_format_scores(drawing, uid)])
        )
        lines.append(f'  {uid} [label="{label}"{_format_dot_style(drawing, uid)}];')
    lines += [
        f'  {tree.parent[uid]} -> {uid} [label="{format_number(tree.probability[uid], 4)}"];'
        for uid in drawing.children
        if uid
    ]
    return "\n".join([*lines, "}"]) + "\n"


def format_svg(drawing: Drawing) -> str:
    """Format a drawing as an SVG document without scripts, fonts or references."""
    left, width = _layout_columns(drawing)
    centres = _layout_rows(drawing)
    tree_width = left[-1] + width[-1]
    # The legend must fit, also below a narrow tree.
    columns = max(_MIN_LEGEND, int((tree_width - _MARGIN) / _CHARACTER_WIDTH))
    legend = _format_legend(drawing, columns)
    legend_width = _MARGIN + _CHARACTER_WIDTH * max(map(len, legend))
    legend_top = max(centres.values()) + 1.5 * _ROW
    size = (
        max(tree_width, legend_width) + _MARGIN,
        legend_top + _LINE * (len(legend) - 1) + _MARGIN,
    )
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {size[0]:g} {size[1]:g}",
            "width": f"{size[0]:g}",
            "height": f"{size[1]:g}",
            "role": "img",
        },
    )
    _add_element(root, "title", f"What follows {escape_unprintable(drawing.tree.start)}")
    _add_element(root, "style", _STYLE)
    _add_element(root, "rect", width="100%", height="100%", style="fill: #fff; stroke: none")
    for x, heading in zip(left, drawing.headings, strict=False):
        text = _add_element(
            root, "text", _cut(heading), x=f"{x:.1f}", y=f"{_MARGIN + _ROW / 2:.1f}"
        )
        text.set("class", "heading")
    step = drawing.tree.step
    for parent, children in drawing.children.items():
        start_x = left[step[parent]] + width[step[parent]]
        for uid in children:
            end = (left[step[uid]], centres[uid])
            _draw_edge(root, (start_x, centres[parent]), end, drawing.tree.probability[uid])
    for uid in drawing.children:
        _draw_box(root, drawing, uid, left[step[uid]], centres[uid], width[step[uid]])
    for number, line in enumerate(legend):
        _add_element(root, "text", line, x=str(_MARGIN), y=f"{legend_top + _LINE * number:.1f}")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def encode_svg(drawing: Drawing) -> str:
    """Format a drawing as the address of an image.

    The styles of an inline SVG would apply to the whole page.
    """
    return f"data:image/svg+xml;base64,{base64.b64encode(format_svg(drawing).encode()).decode()}"


FORMATTERS = {"svg": format_svg, "dot": format_dot}
"""Functions from a `Drawing` to the text of a file, by format."""


def _format_label(drawing: Drawing, uid: int) -> str:
    """Format the label of a state: its sign, if any, and the text that it adds."""
    if drawing.tree.kind[uid] == StateKind.REST:
        label = drawing.rest_label(uid)
    else:
        label = _cut(drawing.display_text(uid)) or "(no text)"
    return " ".join(filter(None, [SIGNS.get(drawing.witness_kinds.get(uid, "")), label]))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def _format_scores(drawing: Drawing, uid: int) -> list[str]:
    return [f"{name} {score}" for name, score in drawing.state_scores(uid)]


def _escape_dot(text: str) -> str:
    """Escape a text for a quoted DOT string, whose labels have backslash escapes."""
    return re.sub(r'[\\"]', r"\\\g<0>", text)


def _format_dot_style(drawing: Drawing, uid: int) -> str:
    kind, witness_kind = StateKind(drawing.tree.kind[uid]), drawing.witness_kinds.get(uid)
    styles = ["dashed"] * (kind == StateKind.REST) + ["filled"] * (witness_kind is not None)
    attributes = {
        "style": ",".join(styles),
        "fillcolor": _FILLS.get(witness_kind or ""),
        "peripheries": "2" if kind in (StateKind.END, StateKind.MAX_TOKENS) else "",
    }
    return "".join(f', {name}="{value}"' for name, value in attributes.items() if value)


def _layout_columns(drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """Compute the left edges and widths of the boxes of each step, in pixels."""
    steps = drawing.tree.step
    width = np.zeros(steps[max(drawing.children)] + 1)
    for uid in drawing.children:
        characters = _text_width(
            "  ".join([_format_label(drawing, uid), *_format_scores(drawing, uid)])
        )
        width[steps[uid]] = max(width[steps[uid]], characters * _CHARACTER_WIDTH + 14)
    for step, heading in enumerate(drawing.headings[: len(width)]):
        width[step] = max(width[step], _text_width(_cut(heading)) * _CHARACTER_WIDTH)
    return _MARGIN + np.concatenate([[0], np.cumsum(width + _GAP)[:-1]]), width


def _text_width(text: str) -> int:
    """Return the width of a text in columns; wide characters count twice."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _layout_rows(drawing: Drawing) -> dict[int, float]:
    """Compute the vertical positions of the drawn states, in pixels."""
    leaves = [uid for uid in drawing.preorder if not drawing.children[uid]]
    first_row = 0.5 + bool(drawing.headings)
    centres = {leaf: _MARGIN + _ROW * (row + first_row) for row, leaf in enumerate(leaves)}
    # In reverse, because a parent needs the positions of its children.
    for uid in reversed(drawing.preorder):
        if children := drawing.children[uid]:
            centres[uid] = float(np.mean([centres[child] for child in children]))
    return centres


def _add_element(
    parent: ElementTree.Element, name: str, content: str = "", **attributes: str
) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name, attributes)
    element.text = content or None
    return element


def _draw_edge(
    root: ElementTree.Element,
    begin: tuple[float, float],
    end: tuple[float, float],
    probability: float,
) -> None:
    (x, y), (end_x, end_y) = begin, end
    level = x + _GAP / 3
    curve = f"M{x:.1f} {y:.1f} C{level:.1f} {y:.1f} {x:.1f} {end_y:.1f} {level:.1f} {end_y:.1f}"
    _add_element(root, "path", d=f"{curve} H{end_x:.1f}")
    number = _add_element(
        root, "text", format_number(probability, 2), x=f"{end_x - 4:.1f}", y=f"{end_y - 3:.1f}"
    )
    # `class` is a word of Python and cannot be a keyword argument.
    number.set("class", "given")
    number.set("text-anchor", "end")


def _draw_box(
    root: ElementTree.Element, drawing: Drawing, uid: int, x: float, y: float, width: float
) -> None:
    kind = StateKind(drawing.tree.kind[uid])
    classes = [kind.name.lower(), *filter(None, [drawing.witness_kinds.get(uid)])]
    group = _add_element(root, "g")
    group.set("class", " ".join(classes))
    # The text in the title is whole; labels are cut.
    text_after = drawing.tree.text[uid]
    full_text = (
        drawing.wording.other_texts if text_after is None else escape_unprintable(text_after)
    )
    _add_element(
        group,
        "title",
        f"{full_text} — probability {format_number(drawing.tree.path_probability[uid], 4)}",
    )
    box = {"x": f"{x:.1f}", "y": f"{y - _BOX / 2:.1f}", "rx": "4"}
    _add_element(group, "rect", **box, width=f"{width:.1f}", height=str(_BOX))
    text = _add_element(
        group, "text", _format_label(drawing, uid), x=f"{x + 7:.1f}", y=f"{y + 4:.1f}"
    )
    for score in _format_scores(drawing, uid):
        span = _add_element(text, "tspan", f"  {score}")
        span.set("class", "score")


def _format_legend(drawing: Drawing, columns: int) -> list[str]:
    """Format the lines of the legend of edges, and of the signs and boxes in the drawing."""
    parts = [f"number: {drawing.wording.number}"]
    kinds = {drawing.witness_kinds.get(uid) for uid in drawing.children}
    parts += [f"{SIGNS[kind]} {MEANINGS[kind]}" for kind in SIGNS if kind in kinds]
    state_kinds = set(drawing.tree.kind[list(drawing.children)].tolist())
    if StateKind.REST in state_kinds:
        parts.append(f"dashed: {drawing.wording.rest}")
    if state_kinds & {StateKind.END, StateKind.MAX_TOKENS}:
        parts.append(f"thick: {drawing.wording.end}")
    if len(drawing.children) < len(drawing.tree):
        parts.append(drawing.size)
    lines = parts[:1]
    for part in parts[1:]:
        joined = f"{lines[-1]} · {part}"
        lines[-1:] = [joined] if len(joined) <= columns else [lines[-1], part]
    return lines
