"""Figures: that they show the table, in files that other programs open."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from PIL import Image

from llmchecker.publication import figures

NOUNS = ["player", "athlete", "champ"]
QUERY = "P=? [ F gender > 0 ]"
DPI = 300


def models(count: int) -> list[str]:
    return [f"Model-{number}" for number in range(count)]


def masses(count: int) -> pd.DataFrame:
    """Made-up masses that differ by model and k."""
    rows = [(m, k, 1 - 1 / (k + 1 + i)) for i, m in enumerate(models(count)) for k in range(1, 31)]
    return pd.DataFrame(rows, columns=["model", "k", "mass"])


def values(count: int) -> pd.DataFrame:
    """Made-up values and bounds that differ by model and noun."""
    rows = [
        (m, n, (3 * i + j) / 20, (3 * i + j) / 40, (3 * i + j + 1) / 20)
        for i, m in enumerate(models(count))
        for j, n in enumerate(NOUNS)
    ]
    return pd.DataFrame(rows, columns=["model", "noun", "value", "lower", "upper"])


def draw(name: str, count: int = 2) -> plt.Figure:
    if name == "figure3":
        return figures.mass_figure(masses(count))
    return figures.noun_figure(values(count), QUERY)


def written(name: str, directory, count: int = 2) -> dict[str, bytes]:
    """The contents of the files of a figure, by suffix."""
    paths = [directory / f"{name}.{suffix}" for suffix in ("pdf", "svg", "png")]
    figures.write_figure(draw(name, count), paths)
    return {path.suffix: path.read_bytes() for path in paths}


@pytest.fixture(autouse=True)
def closed():
    """Close what a test drew and did not write."""
    yield
    plt.close("all")


def legend(figure: plt.Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_figure3_has_one_line_a_model_that_shows_the_table(count):
    """There is one line a model, its points are those of the table, and the legend names it."""
    figure = figures.mass_figure(masses(count))
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    assert legend(figure) == models(count)
    assert len(lines) == count
    for line, (_, table) in zip(lines, masses(count).groupby("model"), strict=True):
        assert np.array_equal(line.get_xydata(), table[["k", "mass"]].to_numpy(dtype=float))


@pytest.mark.parametrize("count", [1, 2, 6])
def test_figure4_has_one_bar_a_model_and_noun_that_shows_the_table(count):
    """The bars of a model are as high as its values, noun by noun, and the legend names it."""
    figure = figures.noun_figure(values(count), QUERY)
    axes = figure.axes[0]
    assert legend(figure) == models(count)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == NOUNS
    assert axes.get_ylabel() == QUERY
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    expected = values(count)["value"].to_numpy().reshape(count, len(NOUNS))
    assert np.array_equal(heights, expected)


@pytest.mark.parametrize("count", [1, 6])
def test_figure4_shows_the_bounds_as_lines_on_the_bars(count):
    """On the middle of every bar stands a line from its lower to its upper bound."""
    axes = figures.noun_figure(values(count), QUERY).axes[0]
    lines = [line for collection in axes.collections for line in _segments(collection)]
    bars = [bar for bars in axes.containers for bar in bars]
    centres = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    bounds = values(count)[["lower", "upper"]].to_numpy().tolist()
    expected = [[[x, low], [x, high]] for x, (low, high) in zip(centres, bounds, strict=True)]
    assert np.allclose(sorted(lines), sorted(expected))


def test_figure4_marks_what_is_unknown():
    """An unknown value has a question mark in the place of its bar, and its bounds."""
    table = values(2)
    table.loc[4, "value"] = float("nan")
    axes = figures.noun_figure(table, QUERY).axes[0]
    bars = [bar for bars in axes.containers for bar in bars]
    assert [bar.get_height() for bar in bars] == table["value"].fillna(0).tolist()
    (mark,) = axes.texts
    assert mark.get_text() == "?"
    assert mark.xy == (pytest.approx(bars[4].get_x() + bars[4].get_width() / 2), 0)
    lines = [line for collection in axes.collections for line in _segments(collection)]
    assert len(lines) == len(table)


def _segments(collection) -> list:
    if not isinstance(collection, LineCollection):
        return []
    return [segment.tolist() for segment in collection.get_segments()]


@pytest.mark.parametrize("count", [2, 6])
def test_lines_differ_without_colour(count):
    """In black and white the lines of figure 3 differ in dashes or markers."""
    lines = [line for line in draw("figure3", count).axes[0].get_lines() if len(line.get_xdata())]
    looks = {(str(line._dash_pattern), str(line.get_marker())) for line in lines}
    assert len(looks) == count
    assert len({line.get_color() for line in lines}) == count


@pytest.mark.parametrize("count", [2, 6])
def test_bars_differ_without_colour(count):
    """In black and white the bars of figure 4 differ in their hatches."""
    containers = draw("figure4", count).axes[0].containers
    hatches = [{bar.get_hatch() for bar in bars} for bars in containers]
    assert all(len(of_model) == 1 for of_model in hatches)
    assert len(set.union(*hatches)) == count


@pytest.mark.parametrize("name", ["figure3", "figure4"])
@pytest.mark.parametrize("count", [1, 6])
def test_files_are_valid(name, count, tmp_path):
    """A PNG decodes and is a column wide, an SVG is XML and names the models, a PDF is whole."""
    files = written(name, tmp_path, count)
    suffixes = ("pdf", "png", "svg", "svg.sha256")
    assert sorted(tmp_path.iterdir()) == [tmp_path / f"{name}.{suffix}" for suffix in suffixes]
    with Image.open(tmp_path / f"{name}.png") as image:
        image.load()
        assert image.width == round(figures.COLUMN_WIDTH * DPI)
        assert 600 <= image.height <= image.width
        assert len(image.convert("RGB").getcolors(image.width * image.height)) > 2
    root = ElementTree.fromstring(files[".svg"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for model in models(count):
        assert model in files[".svg"].decode("utf-8")
    assert files[".pdf"].startswith(b"%PDF-")
    assert files[".pdf"].rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("name", ["figure3", "figure4"])
def test_the_same_table_gives_the_same_bytes(name, tmp_path):
    """A figure drawn again is the same file, in every format."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert written(name, tmp_path / "one") == written(name, tmp_path / "two")


def test_a_written_figure_is_closed(tmp_path):
    """A written figure is not kept in memory."""
    figures.write_figure(draw("figure3"), [tmp_path / "figure3.svg"])
    assert plt.get_fignums() == []


def test_drawing_leaves_the_style_of_others():
    """Drawing changes no setting of matplotlib for anybody else."""
    before = dict(plt.rcParams)
    draw("figure3")
    draw("figure4")
    assert dict(plt.rcParams) == before
