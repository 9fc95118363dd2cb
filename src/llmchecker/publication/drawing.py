"""A small text tree as a picture, from left to right, in SVG or in Graphviz's DOT language.

Every state shows what it adds to the text before it, its probability given that text, and its
scores. States that decide a query bear a sign and a colour. The layout is the plain one for trees
whose leaves are listed in order: a row for each leaf, and each parent at the mean of its children.
"""

import os.path
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from llmchecker.checking.evidence import COUNTEREXAMPLE, WITNESS
from llmchecker.errors import InvalidBound
from llmchecker.trees.text_tree import Kind, TextTree

MOST_DRAWN = 400
"""As many states as a person can still find the way in."""
SIGNS = {WITNESS: "✓", COUNTEREXAMPLE: "✗"}
MEANINGS = {WITNESS: "satisfies the query", COUNTEREXAMPLE: "violates the query"}
JOINERS = "\u200c\u200d"
"""Characters that print nothing, but without which emoji and some scripts fall apart."""

_LONGEST_LABEL = 40
_ROW, _BOX, _GAP, _MARGIN = 26, 20, 78, 12
_CHARACTER = 7.3  # the width of a character, for a monospaced font of 12 pixels
_STYLE = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1d2530; white-space: pre }
.score, .given { fill: #5b6675 } .given { font-size: 11px }
rect { fill: #fff; stroke: #9aa5b3 } path { fill: none; stroke: #b9c2cd }
.rest rect { stroke-dasharray: 4 3 } .rest text { font-style: italic } .end rect { stroke-width: 3 }
.witness rect { fill: #d3f0df; stroke: #0b7a4b; stroke-width: 2 }
.counterexample rect { fill: #fde0d2; stroke: #b4420b; stroke-width: 2 }
"""
_FILLS = {WITNESS: "#d3f0df", COUNTEREXAMPLE: "#fde0d2"}


@dataclass(frozen=True)
class Drawing:
    """What is to be seen of a tree.

    Attributes:
        tree: the texts.
        scores: (n,) integers by the quantifier's name; in `rest` they mean nothing.
        decisive: of the states that decide a query, by uid, the `kind` of their witness.
    """

    tree: TextTree
    scores: Mapping[str, np.ndarray]
    decisive: Mapping[int, str]

    def added(self, uid: int) -> str:
        """What a state adds to its parent's text; of the root all of it, of `rest` nothing.

        Where decoding rewrote the end of the parent's text, what it rewrote counts as added.
        """
        tree = self.tree
        text = tree.text[uid] or ""
        before = tree.text[tree.parent[uid]] if uid else ""
        return text[len(os.path.commonprefix((before, text))) :]  # noqa: RUF071 - of characters

    def piece(self, uid: int) -> str:
        """What a state adds to its parent's text, as it can be shown on one line."""
        piece = printed(self.added(uid))
        return piece.replace(" ", "␣") if piece.isspace() else piece

    def scored(self, uid: int) -> list[tuple[str, int]]:
        """The scores of a state by their names; none of `rest`, whose text is not known."""
        if self.tree.kind[uid] == Kind.REST:
            return []
        return [(name, int(column[uid])) for name, column in self.scores.items()]

    def children(self, uid: int) -> range:
        """The children of a state, which are adjacent."""
        parents = self.tree.parent
        return range(*np.searchsorted(parents, [uid, uid + 1]).tolist())

    def preorder(self) -> Iterator[int]:
        """Yield every state, each before its children and those before its next sibling."""
        stack = [0]
        while stack:
            uid = stack.pop()
            yield uid
            stack.extend(reversed(self.children(uid)))


def printed(text: str) -> str:
    """A text on one line: characters that print nothing stand as Python writes them."""
    return "".join(c if c.isprintable() or c in JOINERS else repr(c)[1:-1] for c in text)


def require_small(tree: TextTree) -> None:
    """Check that a tree can be drawn.

    Raises:
        InvalidBound: it has more than `MOST_DRAWN` states; says what would surely have fewer.
    """
    if len(tree) <= MOST_DRAWN:
        return
    truncation = tree.truncation
    smaller_k = [k for k in range(1, truncation.k) if _at_most(k, truncation.length) <= MOST_DRAWN]
    smaller_length = [
        n for n in range(1, truncation.length) if _at_most(truncation.k, n) <= MOST_DRAWN
    ]
    remedies = [
        *(f"k={k} with L={truncation.length}" for k in smaller_k[-1:]),
        *(f"L={length} with k={truncation.k}" for length in smaller_length[-1:]),
    ]
    raise InvalidBound(
        f"a tree of {len(tree):,} states ({truncation}) is too large to draw, which ends at "
        f"{MOST_DRAWN}; a smaller k or length is needed"
        + (f": {' or '.join(remedies)} is small enough whatever alpha is" if remedies else "")
    )


def dot(drawing: Drawing) -> str:
    """The tree as a digraph for Graphviz."""
    lines = [
        "digraph tree {",
        '  graph [rankdir=LR, nodesep=0.1, ranksep=0.8, ordering="out"];',
        '  node [shape=box, fontname="monospace", fontsize=10, height=0.3];',
        '  edge [fontname="monospace", fontsize=9, arrowsize=0.6];',
    ]
    tree = drawing.tree
    for uid in range(len(tree)):
        label = "\\n".join(map(_quotable, [_label(drawing, uid), *_scores(drawing, uid)]))
        lines.append(f'  {uid} [label="{label}"{_dot_style(drawing, uid)}];')
    lines += [
        f'  {tree.parent[uid]} -> {uid} [label="{tree.probability[uid]:.4g}"];'
        for uid in range(1, len(tree))
    ]
    return "\n".join([*lines, "}"]) + "\n"


def svg(drawing: Drawing) -> str:
    """The tree as an SVG document of its own, without scripts, fonts or references."""
    left, width = _columns(drawing)
    middle = _middles(drawing)
    legend = _legend(drawing)
    widest = max(left[-1] + width[-1], _MARGIN + _CHARACTER * len(legend))
    size = (widest + _MARGIN, middle.max() + 1.5 * _ROW + _MARGIN)
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
    _element(root, "title", f"What follows {printed(drawing.tree.start)}")
    _element(root, "style", _STYLE)
    _element(root, "rect", width="100%", height="100%", style="fill: #fff; stroke: none")
    step = drawing.tree.step
    for uid in range(1, len(drawing.tree)):
        parent = drawing.tree.parent[uid]
        begin, end = left[step[parent]] + width[step[parent]], left[step[uid]]
        _edge(root, (begin, middle[parent]), (end, middle[uid]), drawing.tree.probability[uid])
    for uid in range(len(drawing.tree)):
        _box(root, drawing, uid, left[step[uid]], middle[uid], width[step[uid]])
    _element(root, "text", legend, x=str(_MARGIN), y=f"{size[1] - _MARGIN:.1f}")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


WRITERS = {"svg": svg, "dot": dot}
"""Functions from a `Drawing` to the text of a file, by format."""


def _at_most(k: int, length: int) -> int:
    """The states of the tree in which every text has k children and a `rest`."""
    return 1 + (k + 1) * sum(k**step for step in range(length))


def _label(drawing: Drawing, uid: int) -> str:
    """A state's sign, if it has one, and what it adds to the text."""
    if drawing.tree.kind[uid] == Kind.REST:
        label = "any other token"
    else:
        text = drawing.piece(uid)
        cut = len(text) > _LONGEST_LABEL
        label = text[: _LONGEST_LABEL - 1] + "…" if cut else text or "(no text)"
    return " ".join(filter(None, [SIGNS.get(drawing.decisive.get(uid)), label]))


def _scores(drawing: Drawing, uid: int) -> list[str]:
    return [f"{name} {score}" for name, score in drawing.scored(uid)]


def _quotable(text: str) -> str:
    """The text as a part of a quoted string of DOT, in which backslashes are escapes of labels."""
    return re.sub(r'[\\"]', r"\\\g<0>", text)


def _dot_style(drawing: Drawing, uid: int) -> str:
    kind, decided = Kind(drawing.tree.kind[uid]), drawing.decisive.get(uid)
    styles = ["dashed"] * (kind == Kind.REST) + ["filled"] * (decided is not None)
    attributes = {
        "style": ",".join(styles),
        "fillcolor": _FILLS.get(decided),
        "peripheries": "2" if kind == Kind.END else "",
    }
    return "".join(f', {name}="{value}"' for name, value in attributes.items() if value)


def _columns(drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """Where the boxes of each step begin, and how wide they are."""
    steps = drawing.tree.step
    width = np.zeros(steps[-1] + 1)
    for uid in range(len(drawing.tree)):
        characters = _cells("  ".join([_label(drawing, uid), *_scores(drawing, uid)]))
        width[steps[uid]] = max(width[steps[uid]], characters * _CHARACTER + 14)
    return _MARGIN + np.concatenate([[0], np.cumsum(width + _GAP)[:-1]]), width


def _cells(text: str) -> int:
    """How many characters' room a text takes, of which some are twice as wide as others."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _middles(drawing: Drawing) -> np.ndarray:
    """(n,) float64: how far down the middle of each state is."""
    tree = drawing.tree
    leaves = np.fromiter((u for u in drawing.preorder() if not tree.internal[u]), np.int64)
    middle = np.zeros(len(tree))
    middle[leaves] = _MARGIN + _ROW * (np.arange(len(leaves)) + 0.5)
    for uid in np.flatnonzero(tree.internal)[::-1]:
        middle[uid] = middle[drawing.children(uid)].mean()
    return middle


def _element(
    parent: ElementTree.Element, name: str, content: str = "", **attributes: str
) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name, attributes)
    element.text = content or None
    return element


def _edge(
    root: ElementTree.Element,
    begin: tuple[float, float],
    end: tuple[float, float],
    probability: float,
) -> None:
    (x, y), (end_x, end_y) = begin, end
    level = x + _GAP / 3
    curve = f"M{x:.1f} {y:.1f} C{level:.1f} {y:.1f} {x:.1f} {end_y:.1f} {level:.1f} {end_y:.1f}"
    _element(root, "path", d=f"{curve} H{end_x:.1f}")
    number = _element(
        root, "text", f"{probability:.2g}", x=f"{end_x - 4:.1f}", y=f"{end_y - 3:.1f}"
    )
    number.set("class", "given")
    number.set("text-anchor", "end")


def _box(
    root: ElementTree.Element, drawing: Drawing, uid: int, x: float, y: float, width: float
) -> None:
    kind = Kind(drawing.tree.kind[uid])
    classes = [kind.name.lower(), *filter(None, [drawing.decisive.get(uid)])]
    group = _element(root, "g")
    group.set("class", " ".join(classes))
    about = drawing.tree.text[uid]
    whole = "texts that go on with any other token" if about is None else printed(about)
    _element(group, "title", f"{whole} — probability {drawing.tree.path_probability[uid]:.4g}")
    box = {"x": f"{x:.1f}", "y": f"{y - _BOX / 2:.1f}", "rx": "4"}
    _element(group, "rect", **box, width=f"{width:.1f}", height=str(_BOX))
    text = _element(group, "text", _label(drawing, uid), x=f"{x + 7:.1f}", y=f"{y + 4:.1f}")
    for score in _scores(drawing, uid):
        span = _element(text, "tspan", f"  {score}")
        span.set("class", "score")


def _legend(drawing: Drawing) -> str:
    """What is on an edge, and what the signs and boxes mean that occur."""
    said = ["number: probability given the text before"]
    kinds = set(drawing.decisive.values())
    said += [f"{SIGNS[kind]} {MEANINGS[kind]}" for kind in SIGNS if kind in kinds]
    if (drawing.tree.kind == Kind.REST).any():
        said.append("dashed: tokens that were not selected")
    if (drawing.tree.kind == Kind.END).any():
        said.append("thick: the text ends")
    return " · ".join(said)
