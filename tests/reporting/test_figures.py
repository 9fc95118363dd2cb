"""Figures: that they show the table, in files that other programs open."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
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


@pytest.mark.parametrize("count", [1, 2, 6])
def test_figure4_has_one_bar_a_model_and_noun_that_shows_the_table(count):
    """The bars of a model are as high as its values, noun by noun, and the legend names it."""
    figure = figures.draw_noun_figure(values(count), ANSWER)
    axes = figure.axes[0]
    assert legend(figure) == models(count)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == NOUNS
    assert axes.get_ylabel() == ANSWER
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    expected = values(count)["value"].to_numpy().reshape(count, len(NOUNS))
    assert np.array_equal(heights, expected)


def centres_of(axes) -> list[float]:
    """The middles of all bars, in the order of the table."""
    bars = [bar for bars in axes.containers for bar in bars]
    return [bar.get_x() + bar.get_width() / 2 for bar in bars]


def lines_of(axes, width: float) -> list:
    """The upright lines of a width, from bottom to top."""
    return sorted(
        line
        for collection in axes.collections
        if width in collection.get_linewidth()
        for line in _segments(collection)
    )


@pytest.mark.parametrize("count", [1, 6])
def test_figure4_shows_three_layers_on_the_bars(count):
    """On the middle of every bar stand a thin line from its lower to its upper bound, a line at
    least three times as thick from low to high, and a dot at the estimate."""
    table = values(count)
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    centres = centres_of(axes)
    for width, ends in ((figures.THIN, ["lower", "upper"]), (figures.THICK, ["low", "high"])):
        pairs = zip(centres, table[ends].to_numpy().tolist(), strict=True)
        expected = [[[x, low], [x, high]] for x, (low, high) in pairs]
        assert np.allclose(lines_of(axes, width), sorted(expected))
    assert figures.THICK >= 3 * figures.THIN
    dots = [line.get_xydata() for line in axes.get_lines() if line.get_marker() == "o"]
    expected = np.column_stack([centres, table["estimate"]])
    assert np.allclose(np.concatenate([d for d in dots if len(d)]), expected)


def test_figure4_says_which_layer_is_certain():
    """The legend names the bounds as certain, and the confidence of the interval."""
    (below,) = figures.draw_noun_figure(values(2), ANSWER).legends
    said = [text.get_text() for text in below.get_texts()]
    assert said == ["certain bounds", "with confidence 0.99", "estimate"]


def test_figure4_without_estimates_has_bounds_alone():
    """Where nothing was estimated there are no intervals and no dots, nor names for them."""
    figure = figures.draw_noun_figure(unestimated(values(2)), ANSWER)
    assert len(lines_of(figure.axes[0], figures.THIN)) == len(values(2))
    assert lines_of(figure.axes[0], figures.THICK) == []
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["certain bounds"]


def test_figure4_shows_the_estimates_that_there_are():
    """A bar without an estimate has its bounds, and its neighbours their own layers."""
    table = values(2)
    table.loc[1, ["estimate", "low", "high", "confidence", "samples"]] = float("nan")
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    drawn = {round(line[0][0], 6) for line in lines_of(axes, figures.THICK)}
    centres = [round(x, 6) for x in centres_of(axes)]
    assert drawn == {*centres} - {centres[1]}


def test_figure4_marks_what_is_unknown():
    """An unknown value has a question mark in the place of its bar, and its bounds."""
    table = values(2)
    table.loc[4, "value"] = float("nan")
    axes = figures.draw_noun_figure(table, ANSWER).axes[0]
    bars = [bar for bars in axes.containers for bar in bars]
    assert [bar.get_height() for bar in bars] == table["value"].fillna(0).tolist()
    (mark,) = axes.texts
    assert mark.get_text() == "?"
    assert mark.xy == (pytest.approx(bars[4].get_x() + bars[4].get_width() / 2), 0)
    assert len(lines_of(axes, figures.THIN)) == len(table)


def test_figure4_without_a_bounded_process_has_no_question_marks():
    """Rows without a bounded process have their three layers, and no mark of an unknown value."""
    table = values(2).assign(value=float("nan"))
    axes = figures.draw_noun_figure(table, ANSWER, is_bounded=False).axes[0]
    assert list(axes.texts) == []
    assert len(lines_of(axes, figures.THIN)) == len(lines_of(axes, figures.THICK)) == len(table)


def _segments(collection) -> list:
    if not isinstance(collection, LineCollection):
        return []
    return [segment.tolist() for segment in collection.get_segments()]


HOSTILE = {
    "half a formula": "$x^$",
    "a formula": "$\\frac{1}{2}$",
    "an underscore first": "_x",
    "control characters": "a\0\x1b[31m\nb",
    "turned writing": "\u202eabc",
    "markup": "<b>&--></b>",
    "nothing": " ",
}


@pytest.mark.few(4)
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
    assert legend(figure) == [escape_unprintable(label), "Model-1"]
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
    containers = draw("figure4", count).axes[0].containers
    hatches = [{bar.get_hatch() for bar in bars} for bars in containers]
    assert all(len(of_model) == 1 for of_model in hatches)
    assert len(set.union(*hatches)) == count


@pytest.mark.few(2)
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
