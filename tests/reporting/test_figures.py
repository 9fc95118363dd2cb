"""Figures: that they show the table, in files that other programs open."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.markers import CARETRIGHT
from PIL import Image

from llmchecker.reporting import figures
from llmchecker.reporting.tree_drawing import escape_unprintable

NOUNS = ["player", "athlete", "champ"]
ANSWER = "probability of words"
DPI = 300


def models(count: int) -> list[str]:
    return [f"Model-{number}" for number in range(count)]


def masses(count: int) -> pd.DataFrame:
    """Made-up masses that differ by model and k."""
    rows = [(m, k, 1 - 1 / (k + 1 + i)) for i, m in enumerate(models(count)) for k in range(1, 31)]
    table = pd.DataFrame(rows, columns=["model", "k", "mass"])
    return table.assign(
        lower_quartile=table["mass"] * 0.8, upper_quartile=1 - 0.7 * (1 - table["mass"])
    )


def values(count: int) -> pd.DataFrame:
    """Made-up values, bounds and estimates that differ by model and noun."""
    rows = []
    for i, model in enumerate(models(count)):
        for j, noun in enumerate(NOUNS):
            value = (3 * i + j) / 20
            bounds, interval = (value / 2, value + 0.05), (value * 0.9, value + 0.03)
            rows.append((model, noun, value, *bounds, value + 0.01, *interval))
    columns = ["model", "noun", "value", "lower", "upper", "estimate", "low", "high"]
    return pd.DataFrame(rows, columns=columns).assign(confidence=0.99, samples=200)


def unestimated(table: pd.DataFrame) -> pd.DataFrame:
    """The table of a run that estimates nothing."""
    return table.assign(**dict.fromkeys(table.columns[-5:], float("nan")))


def draw(name: str, count: int = 2) -> plt.Figure:
    if name == "figure3":
        return figures.draw_mass_figure(masses(count))
    return figures.draw_noun_figure(values(count), ANSWER)


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
    figure = figures.draw_mass_figure(masses(count))
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    assert legend(figure) == models(count)
    assert len(lines) == count
    for line, (_, table) in zip(lines, masses(count).groupby("model"), strict=True):
        assert np.array_equal(line.get_xydata(), table[["k", "mass"]].to_numpy(dtype=float))


@pytest.mark.parametrize("count", [1, 3])
def test_figure3_has_a_band_between_the_quartiles_of_each_model(count):
    """The band of a model has the quartiles of every k as edges, in the colour of its line."""
    table = masses(count)
    axes = figures.draw_mass_figure(table).axes[0]
    lines = [line for line in axes.get_lines() if len(line.get_xdata())]
    bands = [collection for collection in axes.collections if len(collection.get_paths())]
    groups = [rows for _, rows in table.groupby("model")]
    for band, line, rows in zip(bands, lines, groups, strict=True):
        edges = {tuple(vertex) for vertex in band.get_paths()[0].vertices}
        for name in ("lower_quartile", "upper_quartile"):
            assert edges >= set(rows[["k", name]].itertuples(index=False, name=None))
        assert to_rgb(band.get_edgecolor()[0]) == to_rgb(line.get_color())


def test_a_long_description_of_the_answer_has_several_lines():
    """The label of the y axis has all words of the description, in lines that fit the figure."""
    answer = "probability of more male than female words within 3 tokens"
    lines = figures.draw_noun_figure(values(1), answer).axes[0].get_ylabel().split("\n")
    assert " ".join(lines) == answer
    assert max(map(len, lines)) <= figures._AXIS_CHARACTERS


def legend_of_figure4(figure: plt.Figure) -> list[str]:
    """The entries of its one legend."""
    (below,) = figure.legends
    assert figure.axes[0].get_legend() is None
    return [text.get_text() for text in below.get_texts()]


def bars_of(axes) -> list:
    """The bars, in the order of the table."""
    containers = [found for found in axes.containers if isinstance(found, BarContainer)]
    return [bar for bars in containers for bar in bars]


def intervals_of(axes) -> list[list[float]]:
    """Position, lower and upper end of each error bar, in the order of the table."""
    return [
        [segment[0][0], segment[0][1], segment[1][1]]
        for collection in axes.collections
        if isinstance(collection, LineCollection)
        for segment in collection.get_segments()
        if len(segment) and np.isfinite(segment).all()
    ]


def points_of(axes, marker) -> list[list[float]]:
    """The points of a marker, in the order of the table."""
    lines = [line for line in axes.get_lines() if line.get_marker() == marker]
    points = [point for line in lines for point in line.get_xydata().tolist()]
    return [point for point in points if np.isfinite(point).all()]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_figure4_shows_the_table(count):
    """Each row has a bar between its bounds, an error bar between the ends of its interval, a dot
    at its estimate and the tip of a triangle at its value, noun by noun."""
    table = values(count)
    figure = figures.draw_noun_figure(table, ANSWER)
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == NOUNS
    assert axes.get_ylabel() == ANSWER
    bars = bars_of(axes)
    ends = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in bars]
    assert np.allclose(ends, table[["lower", "upper"]])
    assert np.allclose([ends for _, *ends in intervals_of(axes)], table[["low", "high"]])
    assert np.allclose([y for _, y in points_of(axes, "o")], table["estimate"])
    triangles = points_of(axes, CARETRIGHT)
    assert np.allclose(
        triangles, [(b.get_x(), v) for b, v in zip(bars, table["value"], strict=True)]
    )


@pytest.mark.parametrize("count", [1, 2, 6])
def test_figure4_hides_no_interval(count):
    """Intervals are right of their bars, left of the next bar, and wider than their dots."""
    figure = figures.draw_noun_figure(values(count), ANSWER)
    axes = figure.axes[0]
    lefts = sorted(bar.get_x() for bar in bars_of(axes))
    rights = sorted(bar.get_x() + bar.get_width() for bar in bars_of(axes))
    centres = sorted(x for x, *_ in intervals_of(axes))
    assert all(right < x for right, x in zip(rights, centres, strict=True))
    assert all(x < left for x, left in zip(centres, lefts[1:], strict=False))
    caps = [line.get_markersize() for line in axes.get_lines() if line.get_marker() == "_"]
    assert caps
    if count <= 2:
        assert min(caps) > 2 * figures._ESTIMATE["markersize"]


def test_figure4_clips_nothing_at_the_ends_of_its_axis():
    """A figure of 0 is on the axis, and no part of its marks is cut off there."""
    table = values(1).assign(value=0.0, lower=0.0, estimate=0.0, low=0.0)
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    assert axes.get_ylim()[0] == 0
    assert points_of(axes, "o")
    marks = [line for line in axes.get_lines() if len(line.get_xdata())]
    assert not any(artist.get_clip_on() for artist in [*marks, *bars_of(axes)])


def test_figure4_names_all_that_it_shows_in_one_legend():
    """The legend has the bounds, the confidence, the bounded process and each model."""
    figure = figures.draw_noun_figure(values(2), ANSWER)
    layers = ["certain bounds", "estimate, confidence 0.99", "bounded process"]
    assert legend_of_figure4(figure) == [*layers, *models(2)]


def test_figure4_without_estimates_has_no_intervals():
    """Where nothing was estimated there are no error bars and no dots, nor names for them."""
    figure = figures.draw_noun_figure(unestimated(values(2)), ANSWER)
    axes = figure.axes[0]
    assert len(bars_of(axes)) == len(values(2))
    assert intervals_of(axes) == points_of(axes, "o") == []
    assert legend_of_figure4(figure) == ["certain bounds", "bounded process", *models(2)]


def test_figure4_shows_the_estimates_that_there_are():
    """A row without an estimate has its bar alone, and its neighbours their own intervals."""
    table = values(2)
    table.loc[1, ["estimate", "low", "high", "confidence", "samples"]] = float("nan")
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    assert len(bars_of(axes)) == len(table)
    expected = table.drop(index=1)[["low", "high"]]
    assert np.allclose([ends for _, *ends in intervals_of(axes)], expected)


def test_figure4_marks_what_is_unknown():
    """An unknown value has a question mark in the place of its triangle, and its bounds."""
    table = values(2)
    table.loc[4, "value"] = float("nan")
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    bars = bars_of(axes)
    assert len(points_of(axes, CARETRIGHT)) == len(table) - 1
    (mark,) = axes.texts
    assert mark.get_text() == "?"
    assert mark.xy == (pytest.approx(bars[4].get_x()), 0)
    assert len(bars) == len(table)


def test_figure4_of_answers_alone_has_no_bounded_process():
    """Rows without a bounded process have bars and intervals, and no triangle or question mark."""
    table = values(2).assign(value=float("nan"))
    figure = figures.draw_noun_figure(table, ANSWER, is_bounded=False)
    axes = figure.axes[0]
    assert list(axes.texts) == points_of(axes, CARETRIGHT) == []
    assert len(bars_of(axes)) == len(intervals_of(axes)) == len(table)
    assert legend_of_figure4(figure) == ["certain bounds", "estimate, confidence 0.99", *models(2)]


def test_figure4_draws_bounds_without_a_limit_to_the_ends_of_the_axis():
    """An expected score without a certain bound on a side has a bar that reaches the frame."""
    infinite = values(1).assign(lower=-np.inf, upper=np.inf)
    axes = figures.draw_noun_figure(infinite, ANSWER).axes[0]
    for bar in bars_of(axes):
        assert (bar.get_y(), bar.get_y() + bar.get_height()) == pytest.approx(axes.get_ylim())
    assert np.isfinite(axes.get_ylim()).all()


def test_figure4_draws_truth_values_as_numbers():
    """True is 1, false is 0, and an undecided answer has the bounds 0 and 1 and no dot."""
    table = values(1).astype(object)
    table["value"] = [True, False, None]
    table["lower"], table["upper"] = [True, False, False], [True, False, True]
    table["estimate"] = [True, False, "unknown"]
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    assert [bar.get_height() for bar in bars_of(axes)] == [0, 0, 1]
    assert [y for _, y in points_of(axes, CARETRIGHT)] == [1, 0]
    assert [y for _, y in points_of(axes, "o")] == [1, 0]


HOSTILE = {
    "half a formula": "$x^$",
    "a formula": "$\\frac{1}{2}$",
    "an underscore first": "_x",
    "control characters": "a\0\x1b[31m\nb",
    "turned writing": "\u202eabc",
    "markup": "<b>&--></b>",
    "nothing": " ",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("label", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["figure3", "figure4"])
def test_labels_are_texts(name, label, tmp_path):
    """Whatever the label of a model is, the legend shows it as written, and files are valid."""
    table = masses(2) if name == "figure3" else values(2)
    table["model"] = table["model"].replace("Model-0", label)
    draw = (
        figures.draw_mass_figure
        if name == "figure3"
        else lambda t: figures.draw_noun_figure(t, "$x^$")
    )
    figure = draw(table)
    names = legend(figure) if name == "figure3" else legend_of_figure4(figure)[-2:]
    assert names == [escape_unprintable(label), "Model-1"]
    paths = [tmp_path / f"x.{suffix}" for suffix in ("pdf", "svg", "png")]
    figures.write_figure(figure, paths, f"made by {label}")
    ElementTree.parse(tmp_path / "x.svg")


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
    bars = bars_of(draw("figure4", count).axes[0])
    hatches = [{bar.get_hatch() for bar in bars[i * 3 : i * 3 + 3]} for i in range(count)]
    assert all(len(of_model) == 1 for of_model in hatches)
    assert len(set.union(*hatches)) == count


@pytest.mark.few(1)
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


@pytest.mark.few(1)
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
