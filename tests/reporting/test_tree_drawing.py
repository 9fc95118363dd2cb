"""A tree as a picture: everything in it is there, and texts stay texts."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from helpers.trees import by_hand, full, text_trees
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.witnesses import COUNTEREXAMPLE, WITNESS
from llmchecker.reporting import tree_drawing
from llmchecker.reporting.tree_drawing import Drawing
from llmchecker.trees.text_tree import StateKind, TextTree

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = [
    "<script>alert('x')</script>",
    'say "no" \\ \\n',
    "two\nlines\tand\x00",
    "🙂👩‍👩‍👧 選手",
    "שלום \u202e dlrow",
    "]]>&amp;<!--",
]


def with_texts(tree: TextTree, texts: list[str | None]) -> TextTree:
    column = np.empty(len(tree), dtype=object)
    column[:] = texts
    return replace(tree, text=column)


def awkward() -> Drawing:
    """A root, whose children are texts that are easily mistaken for markup, and a `rest`."""
    count = len(AWKWARD)
    states = [(0, 0.125, StateKind.TEXT)] * count + [(0, 1 - 0.125 * count, StateKind.REST)]
    tree = with_texts(by_hand(states), ["w", *("w" + text for text in AWKWARD), None])
    return Drawing(tree, {"gender": np.arange(len(tree))}, {1: WITNESS, 2: COUNTEREXAMPLE})


def boxes(text: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(text).findall(f"{SVG}g")


def words(box: ElementTree.Element) -> str:
    return "".join(box.find(f"{SVG}text").itertext())


def texts(picture: str) -> list[ElementTree.Element]:
    """The texts outside of boxes: numbers of edges, then the lines of the legend."""
    return ElementTree.fromstring(picture).findall(f"{SVG}text")


def labels_in_dot(text: str) -> dict[str, str]:
    """The labels of nodes by name, as Graphviz reads a quoted string and then its escapes."""
    quoted = re.findall(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)"', text, flags=re.MULTILINE)
    lines = {"n": "\n"}
    return {
        node: re.sub(r"\\(.)", lambda escape: lines.get(escape[1], escape[1]), label)
        for node, label in quoted
    }


@given(tree=text_trees())
def test_every_state_and_edge_is_drawn_once(tree):
    """A drawing has a box for every state and an edge with its probability for all but the root."""
    drawn = Drawing(tree, {}, {})
    assert len(boxes(tree_drawing.format_svg(drawn))) == len(tree)
    assert (
        len(ElementTree.fromstring(tree_drawing.format_svg(drawn)).findall(f"{SVG}path"))
        == len(tree) - 1
    )
    edges = re.findall(
        r'^  (\d+) -> (\d+) \[label="(.+)"\];$', tree_drawing.format_dot(drawn), re.MULTILINE
    )
    assert edges == [
        (str(tree.parent[uid]), str(uid), f"{tree.probability[uid]:.4g}")
        for uid in range(1, len(tree))
    ]


@given(tree=text_trees())
def test_boxes_do_not_overlap_and_children_stand_right_of_their_parents(tree):
    """No two boxes of a step touch, and every edge leads to the right."""
    found = [
        box.find(f"{SVG}rect").attrib
        for box in boxes(tree_drawing.format_svg(Drawing(tree, {}, {})))
    ]
    left = [float(box["x"]) for box in found]
    right = [float(box["x"]) + float(box["width"]) for box in found]
    for uid in range(1, len(tree)):
        assert right[tree.parent[uid]] < left[uid]
    for step in range(tree.step[-1] + 1):
        tops = sorted(float(found[uid]["y"]) for uid in np.flatnonzero(tree.step == step))
        heights = [float(found[0]["height"])] * len(tops)
        assert all(y + h < below for y, h, below in zip(tops, heights, tops[1:], strict=False))


@given(tree=text_trees())
def test_the_legend_is_below_the_tree_and_within_the_picture(tree):
    """Each line of the legend is below all boxes, and ends in the picture by its characters."""
    picture = tree_drawing.format_svg(Drawing(tree, {}, {}))
    width, height = (float(ElementTree.fromstring(picture).get(key)) for key in ("width", "height"))
    tops = [float(box.find(f"{SVG}rect").get("y")) for box in boxes(picture)]
    lines = texts(picture)[len(tree) - 1 :]
    assert len(lines) >= 1
    above = max(tops) + 20
    for line in lines:
        assert above + 10 < float(line.get("y")) <= height
        assert float(line.get("x")) + 7 * len(line.text) <= width
        above = float(line.get("y"))


def test_states_stand_in_preorder():
    """Leaves are listed in the order in which a person reads the tree."""
    assert Drawing(full(2, 2), {}, {}).preorder == [0, 1, 4, 5, 6, 2, 7, 8, 9, 3]


def test_texts_are_shown_and_never_obeyed():
    """Markup, quotes, line breaks and invisible characters arrive as text on one line."""
    drawn = awkward()
    shown = [words(box) for box in boxes(tree_drawing.format_svg(drawn))]
    written = labels_in_dot(tree_drawing.format_dot(drawn))
    for uid, text in enumerate(AWKWARD, start=1):
        sign = {1: "✓ ", 2: "✗ "}.get(uid, "")
        printed = sign + tree_drawing.escape_unprintable(text)
        assert shown[uid] == f"{printed}  gender {uid}"
        assert written[str(uid)] == f"{printed}\ngender {uid}"
    assert shown[-1] == written[str(len(AWKWARD) + 1)] == "any other token"
    assert {
        element.tag for element in ElementTree.fromstring(tree_drawing.format_svg(drawn)).iter()
    } == {SVG + name for name in ("svg", "title", "style", "rect", "path", "text", "tspan", "g")}


@given(text=st.text())
def test_a_printed_text_is_one_line_that_says_what_it_does_not_show(text):
    """No character that prints nothing is left, joiners apart, and others stay as they are."""
    printed = tree_drawing.escape_unprintable(text)
    assert all(c.isprintable() or c in "\u200c\u200d" for c in printed)
    assert len(printed.splitlines()) <= 1
    if text.isprintable():
        assert printed == text


def test_deciding_states_bear_a_sign_and_a_legend():
    """What decides is told by sign, class and legend, so that colour repeats what stands there."""
    picture = tree_drawing.format_svg(awkward())
    assert [box.get("class") for box in boxes(picture)[1:3]] == [
        "text witness",
        "text counterexample",
    ]
    legend = "✓ satisfies the query · ✗ violates the query · dashed: tokens that were not selected"
    assert legend in " · ".join(line.text for line in texts(picture))
    assert "satisfies" not in tree_drawing.format_svg(Drawing(full(2, 1), {}, {}))
    assert tree_drawing.format_dot(awkward()).count('style="filled"') == 2


def test_a_text_that_adds_nothing_or_spaces_can_be_seen():
    """Spaces have a sign, and an empty addition is named."""
    tree = by_hand([(0, 0.5, StateKind.TEXT), (0, 0.5, StateKind.END)])
    tree = with_texts(tree, ["w", "w  ", "w"])
    assert [words(box) for box in boxes(tree_drawing.format_svg(Drawing(tree, {}, {})))] == [
        *("w", "␣␣", "(no text)"),
    ]


def test_a_drawing_of_a_large_tree_has_its_most_probable_states():
    """No state outside the drawing is more probable than one in it, and all are counted."""
    tree = full(9, 3)
    drawn = Drawing(tree, {}, {})
    (shown, left_out) = (tree.path_probability[list(drawn.preorder)], set(range(len(tree))))
    left_out -= set(drawn.preorder)
    assert len(left_out) == 911 - 400
    assert shown.min() >= tree.path_probability[list(left_out)].max()
    for text in (tree_drawing.format_svg(drawn), tree_drawing.format_dot(drawn)):
        assert "the 400 most probable of 911 states" in text
    assert len(boxes(tree_drawing.format_svg(drawn))) == 400
    assert len(labels_in_dot(tree_drawing.format_dot(drawn))) == 400


@given(tree=text_trees(), max_states=st.integers(1, 30))
def test_the_parent_of_each_drawn_state_is_drawn(tree, max_states):
    """Each drawn state but the root has one edge, from a drawn state."""
    drawn = Drawing(tree, {}, {}, max_states=max_states)
    edges = re.findall(r"^  (\d+) -> (\d+) ", tree_drawing.format_dot(drawn), re.MULTILINE)
    uids = set(drawn.preorder)
    assert len(uids) == min(max_states, len(tree))
    assert {int(child) for _, child in edges} == uids - {0}
    assert {int(parent) for parent, _ in edges} <= uids
