"""Figures of the experiments on programs: that they show their tables."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from PIL import Image

from llmchecker.errors import InvalidTable
from llmchecker.reporting import figures as writers
from loop_invariants.reporting import figures

SUFFIXES = ("pdf", "svg", "png")


@pytest.fixture(autouse=True)
def closed():
    """Close what a test drew and did not write."""
    yield
    plt.close("all")


def sets(rows: list[tuple], ways: tuple[str, ...] = ("x", "y")) -> pd.DataFrame:
    return pd.DataFrame(
        [(*row, "names") for row in rows], columns=["semantics", *ways, "programs", "names"]
    )


SETS = sets(
    [
        ("integers", True, True, 7),
        ("integers", True, False, 2),
        ("integers", False, False, 9),
        ("int32", False, True, 3),
    ]
)
SECONDS = pd.DataFrame(
    [
        ("a", "integers", "bmc", "verified", 2.0, "verified", 0.5),
        ("b", "integers", "bmc", "esbmc timeout", 60.0, "verified", 8.0),
        ("c", "integers", "bmc", "verified", 1.0, "prover timeout", 60.0),
        ("d", "integers", "bmc", "false", 1.0, "false", 0.1),
        ("a", "integers", "k", "verified", 4.0, "verified", 0.5),
        ("a", "int32", "bmc", "verified", 1.0, "not proven", 7.0),
    ],
    columns="program semantics tool tool_outcome tool_seconds outcome seconds".split(),
)
EDGE = 16.0
"""Twice the 8 seconds of what took longest among what is verified."""


def heights(axes) -> list[float]:
    return [bar.get_height() for bar in axes.containers[0]]


def filled(axes) -> set[tuple[int, int]]:
    """Bar and way of every black dot."""
    black = [c for c in axes.collections if np.allclose(c.get_facecolor()[0][:3], 0)]
    return {tuple(map(int, dot)) for c in black for dot in c.get_offsets()}


def labels(axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def points(axes) -> list[list[float]]:
    return sorted(c.tolist() for c in axes.collections[0].get_offsets().data)


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_bars_and_dots_show_the_sets():
    """Bars are as high as the sets of their semantics, and the dots below say whose they are."""
    bars, dots, bars32, dots32 = figures.draw_solved_sets(SETS).axes
    assert (bars.get_title(loc="left"), bars32.get_title(loc="left")) == ("integers", "int32")
    assert heights(bars) == [7, 2, 9]
    assert texts(bars) == ["7", "2", "9"]
    assert filled(dots) == {(0, 0), (0, 1), (1, 0)}
    everywhere = {tuple(map(int, dot)) for c in dots.collections for dot in c.get_offsets()}
    assert everywhere == {(bar, way) for bar in range(3) for way in range(2)}
    assert labels(dots) == ["x  9", "y  7"]
    assert heights(bars32) == [3]
    assert filled(dots32) == {(0, 1)}
    assert labels(dots32) == ["x  0", "y  3"]


def test_programs_that_none_solves_look_different_without_colour():
    """The bar of what is solved by no way is hatched, and only that."""
    bars = figures.draw_solved_sets(SETS).axes[0].containers[0]
    assert [bool(bar.get_hatch()) for bar in bars] == [False, False, True]


def test_sets_that_are_not_drawn_are_counted():
    """Where there is no room for all sets the smallest are left out and told; none's stays."""
    ways = tuple("abcdefgh")
    rows = [("integers", *(bool(n >> b & 1) for b in range(8)), 40 - n) for n in range(1, 31)]
    table = sets([*rows, ("integers", *[False] * 8, 1)], ways)
    bars, dots = figures.draw_solved_sets(table).axes
    assert heights(bars) == [*range(39, 39 - figures._MAX_SETS + 1, -1), 1]
    left = range(40 - 30, 40 - figures._MAX_SETS + 1)
    assert dots.get_xlabel() == f"smaller sets not drawn: {len(left)}, programs: {sum(left)}"


def test_a_diagram_of_nothing_solved_has_one_bar():
    """Where no way solves any program the diagram shows how many there are."""
    bars, dots = figures.draw_solved_sets(sets([("integers", False, False, 1)])).axes
    assert heights(bars) == [1]
    assert labels(dots) == ["x  0", "y  0"]


def test_points_show_the_seconds_and_edges_what_is_not_verified():
    """A verified program lies at its seconds, at the edge for who does not verify it."""
    bmc, bmc32, k, k32 = figures.draw_seconds(SECONDS, "ours").axes
    assert points(bmc) == [[1.0, EDGE], [2.0, 0.5], [EDGE, 8.0]]
    assert texts(bmc) == ["not verified: 1", "not verified: 1", "1"]
    assert points(bmc32) == [[1.0, EDGE]]
    assert texts(bmc32) == ["not verified: 0", "not verified: 1", "0"]
    assert points(k) == [[4.0, 0.5]]
    assert points(k32) == []
    assert (bmc.get_xlabel(), bmc.get_ylabel()) == ("bmc (s)", "ours (s)")
    assert [bmc.get_title(), bmc32.get_title()] == ["integers", "int32"]
    for axes in (bmc, bmc32, k, k32):
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_xlim()[0] < 0.5
        assert axes.get_xlim()[1] > EDGE
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_ticks_are_numbers_that_a_person_reads():
    """No tick of a logarithmic axis shows how its number is set in type."""
    figure = figures.draw_seconds(SECONDS, "ours")
    figure.canvas.draw()
    labels = [
        label.get_text()
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in axis.get_ticklabels(which="both")
    ]
    assert "10" in labels
    assert not any("$" in label or "{" in label for label in labels)


def test_nothing_verified_leaves_the_scatter_empty():
    """Where nobody verifies anything there are axes and the number of programs, no point."""
    (axes,) = figures.draw_seconds(SECONDS[SECONDS["program"] == "d"], "ours").axes
    assert points(axes) == []
    assert texts(axes)[-1] == "1"


def test_tools_differ_without_colour():
    """In black and white the tools of the scatter differ by their markers."""
    axes = figures.draw_seconds(SECONDS, "ours").axes
    shapes = [len(panel.collections[0].get_paths()[0].vertices) for panel in (axes[0], axes[2])]
    assert shapes[0] != shapes[1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda t: figures.draw_solved_sets(t),
        lambda t: figures.draw_seconds(t, "ours"),
    ],
)
def test_a_table_without_rows_is_refused(draw):
    """An empty table is an error that says so, not an empty picture."""
    with pytest.raises(InvalidTable, match="no rows"):
        draw(pd.DataFrame(columns=[*SETS, *SECONDS]))


@pytest.mark.long
@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.draw_solved_sets(SETS),
        lambda: figures.draw_seconds(SECONDS, "ours"),
    ],
)
def test_files_are_a_column_wide_and_the_same_each_time(draw, tmp_path):
    """A figure is written in every format, as wide as a column, with the same bytes twice."""
    once, again = ([tmp_path / f"{n}.{suffix}" for suffix in SUFFIXES] for n in ("one", "two"))
    writers.write_figure(draw(), once)
    writers.write_figure(draw(), again)
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
    with Image.open(tmp_path / "one.png") as image:
        image.load()
        assert image.width == round(writers.COLUMN_WIDTH * 300)
    assert plt.get_fignums() == []
