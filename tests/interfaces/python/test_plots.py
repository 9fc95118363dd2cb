"""Plots of verdicts: that they show the figures, and change nothing else."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.trees import by_hand
from matplotlib import pyplot as plt

import llmchecker as lc
from llmchecker.errors import InvalidQuery
from llmchecker.interfaces.python.tree import Tree
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
SMALL = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]


@pytest.fixture(autouse=True)
def closed():
    """Close all plots of a test, which need no window."""
    plt.switch_backend("agg")
    yield
    plt.close("all")


def letters(start: str, continuation: str) -> int:
    """Count the letters of a continuation."""
    return len(continuation)


def check(query: str):
    return lc.check(query, Tree.from_text_tree(by_hand(SMALL)), letters=letters)


def row_labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def lines(axes) -> dict[str, list]:
    """The x and y data of each line, by its label."""
    return {line.get_label(): np.array(line.get_data()).tolist() for line in axes.get_lines()}


def test_a_plot_of_a_probability_has_its_value_and_its_bounds():
    """A line reaches from the lower to the upper bound, and a mark has the value."""
    axes = check("P=? [ F letters >= 2 ]").plot()
    assert lines(axes)["bounded"] == [[0.375], [0]]
    ends, rows = lines(axes)["certain"]
    assert ends == [pytest.approx(0.375), pytest.approx(0.75)]
    assert rows == [0, 0]
    assert (axes.get_xlabel(), axes.get_title(loc="left")) == (
        "probability",
        "P=? [ F letters >= 2 ]",
    )
    assert row_labels(axes) == ["w"]


def test_a_verdict_adds_a_row_to_the_axes_of_another():
    """The second verdict has the second row, and the legend names each kind of figure once."""
    verdict = check("P=? [ F letters >= 2 ]")
    axes = verdict.plot("first $x^$")
    assert check("P=? [ F letters >= 1 ]").plot("second", axes=axes) is axes
    assert row_labels(axes) == ["first $x^$", "second"]
    assert [line.get_ydata()[0] for line in axes.get_lines()] == [0, 0, 1, 1]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["certain", "bounded"]
    axes.figure.canvas.draw()


def test_axes_of_a_caller_keep_the_size_of_their_figure():
    """A plot in a figure with other axes begins with its first row and resizes nothing."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 5))
    check("P=? [ F letters >= 2 ]").plot(axes=left)
    check("P>=0.2 [ F letters >= 2 ]").plot(axes=right)
    assert row_labels(left) == ["w"]
    assert figure.get_size_inches().tolist() == [7, 5]


@pytest.mark.parametrize("query", ["P>=0.2 [ F letters >= 2 ]", "P<=0.2 [ F letters >= 2 ]"])
def test_a_plot_of_a_threshold_adds_the_texts_that_decide_it(query):
    """Bars of the deciding texts adjoin and reach the mass that decides the query."""
    verdict = check(query)
    axes = verdict.plot()
    (bar,) = axes.patches
    assert (bar.get_x(), bar.get_width()) == (0, 0.375)
    assert axes.get_lines()[0].get_xdata() == [0.2, 0.2]
    assert row_labels(axes) == ["be"]
    assert verdict.decision.outcome in axes.get_title(loc="left")


REACHED = "added probability of texts that satisfy F letters >= 2\ndashed: {} decides"
MISSED = "added probability of texts that do not satisfy F letters >= 3\ndashed: {} decides"


@pytest.mark.parametrize(
    ("query", "verdict", "label"),
    [
        ("P>=0.2 [ F letters >= 2 ]", "HOLDS", REACHED.format("at least 0.2")),
        ("P<=0.2 [ F letters >= 2 ]", "VIOLATED", REACHED.format("more than 0.2")),
        ("P>0.2 [ F letters >= 2 ]", "HOLDS", REACHED.format("more than 0.2")),
        ("P<=0.6 [ F letters >= 3 ]", "HOLDS", MISSED.format("at least 0.4")),
        ("P>=0.7 [ F letters >= 3 ]", "VIOLATED", MISSED.format("more than 0.3")),
    ],
)
def test_a_plot_of_a_threshold_says_what_holds(query, verdict, label):
    """Above the bars are the requirement in words and its verdict, below them what they show: a
    text without the event counts for a requirement of at most p, and against one of at least p."""
    tree = Tree.from_text_tree(by_hand([(0, 0.5, END), (0, 0.5, TEXT), (2, 1.0, END)]))
    axes = lc.check(query, tree, letters=letters).plot()
    title = axes.get_title(loc="left").split("\n")
    assert title[0] == query
    comparison = {"<=": "at most", ">=": "at least", ">0": "above"}[query.lstrip("P")[:2]]
    assert comparison in " ".join(title[1:-1])
    assert title[-1] == f"{verdict}, certain"
    assert axes.get_xlabel() == label
    axes.figure.canvas.draw()


def test_a_plot_of_an_unknown_requirement_has_no_mass_that_decides():
    """Texts that leave a requirement open have bars, and no line that they could reach."""
    axes = check("P>=0.5 [ F letters >= 2 ]").plot()
    assert axes.get_title(loc="left").endswith("UNKNOWN")
    assert len(axes.patches) > 0
    assert len(axes.get_lines()) == 0
    assert "decides" not in axes.get_xlabel()


def test_a_verdict_without_numbers_and_texts_has_no_plot():
    """A nested query is refused with the reason, and leaves no figure."""
    with pytest.raises(InvalidQuery, match="no single texts decide it"):
        check("A [ F P>=0.5 [ X letters >= 2 ] ]").plot()
    assert plt.get_fignums() == []


def test_an_expected_score_has_its_name_on_the_axis():
    """The axis names the quantifier; a side without a limit has no end."""
    axes = check('R{"letters"}=? [ I=1 ]').plot()
    assert axes.get_xlabel() == "expected letters"
    assert lines(axes)["certain"] == [[], []]


def test_a_plot_changes_no_setting_of_matplotlib():
    """The settings of matplotlib are the same after all plots."""
    before = dict(plt.rcParams)
    check("P=? [ F letters >= 2 ]").plot()
    check("P>=0.2 [ F letters >= 2 ]").plot()
    assert dict(plt.rcParams) == before


@pytest.mark.long
def test_only_a_plot_imports_matplotlib():
    """A verdict and a tree exist without matplotlib."""
    code = (
        "import sys, llmchecker as lc\n"
        "model = lc.TableModel(['w', 'a', 'b'], lambda tokens: [0, 0.5, 0.5])\n"
        "tree = lc.grow(model, 'w', alpha=1, k=2, length=1)\n"
        "str(lc.check('P=? [ F step = 1 ]', tree)), tree._repr_html_()\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
