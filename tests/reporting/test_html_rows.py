"""Rows of figures as HTML: every text is escaped, and a bar has the ends of its interval."""

from xml.etree import ElementTree

import pytest

from llmchecker.checking.figures import Bar, Figure, ForestPlot, Plot, Rows, TextList
from llmchecker.reporting.html_rows import render_forest, render_plot, render_row, render_rows
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval


def test_all_texts_are_inert():
    """Names, figures, notes, headings and texts are escaped; figures of a row are one cell."""
    row = (Figure("<b>", "; ]"), Figure("x"))
    page = render_rows(Rows({"<i>": row}, ("<u>",), (TextList("<s>", (("0.5", "<q>{0}"),)),)))
    tags = {element.tag for element in ElementTree.fromstring(f"<div>{page}</div>").iter()}
    assert tags == {"div", "table", "tr", "th", "td", "p"}
    assert "&lt;b&gt;; ]; x</td>" in page
    assert "<p>&lt;u&gt;</p>" in page
    assert "<p>&lt;s&gt;</p>" in page
    assert "&lt;q&gt;{0}</td>" in page


def test_a_bar_has_the_place_of_its_interval_on_the_axis():
    """The ends of a difference from -0.5 to 0.25 are at 25 % and 62.5 % of the axis."""
    bar = Bar(Interval(-0.5, 0.25), DIFFERENCES)
    cell = ElementTree.fromstring(f"<td>{render_row((Figure('[-0.5, 0.25]', bar=bar),))}</td>")
    assert "".join(cell.itertext()) == "[-0.5, 0.25]"
    drawing = cell.find("svg")
    assert drawing.get("aria-label") == "from -0.5 to 0.25 on an axis from -1 to 1"
    _, drawn = drawing.findall("line")
    assert (drawn.get("x1"), drawn.get("x2")) == ("25%", "62.5%")


@pytest.mark.parametrize("axis", [DIFFERENCES, PROBABILITIES])
@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.125, 1.0, None])
def test_a_bar_has_a_mark_at_the_threshold(axis, threshold):
    """The mark is at the threshold's place on the axis, and a screen reader reads the number; a
    threshold outside of the axis is only read."""
    row = (Figure("x", bar=Bar(Interval(0.25, 0.5), axis, threshold)),)
    drawing = ElementTree.fromstring(f"<td>{render_row(row)}</td>").find("svg")
    marks = drawing.findall("line")[2:]
    is_on_axis = threshold is not None and axis.lower <= threshold <= axis.upper
    assert len(marks) == is_on_axis
    for mark in marks:
        share = float(mark.get("x1").removesuffix("%")) / 100
        assert axis.lower + share * (axis.upper - axis.lower) == threshold
        assert mark.get("x1") == mark.get("x2")
    label = drawing.get("aria-label")
    assert label.partition("; threshold ")[2] == ("" if threshold is None else f"{threshold:g}")


@pytest.mark.parametrize("threshold", [0.5, 1.5, None])
def test_a_plot_has_the_places_of_all_rows_and_of_their_average(threshold):
    """Rows from -1 to 1 are at their places from the top; an exact one is thin but visible."""
    rows = (Interval(-1.0, -0.5), Interval(0.5, 0.5))
    plot = Plot(rows, Bar(Interval(-0.5, 0.0), DIFFERENCES, threshold), "mean", 9)
    drawing = ElementTree.fromstring(render_plot(plot))
    assert drawing.get("aria-label").startswith(
        "2 of 9 rows in rising order, from -1 to 1; their mean is from -0.5 to 0"
    )
    band = drawing.find("rect")
    assert (float(band.get("y")), float(band.get("height"))) == (50, 25)
    _, segments, *limits = (path.get("d") for path in drawing.findall("path"))
    assert segments == "M0.5 75v25M1.5 24.25v1.5"
    assert limits == (["M0 25H2"] if threshold == 0.5 else [])
    assert ("threshold" in drawing.get("aria-label")) is (threshold is not None)


def test_a_forest_plot_has_one_axis_with_zero_in_the_middle():
    """Each difference is at its place on the common axis; names are escaped."""
    rows = (
        ("<b>", Bar(Interval(-0.1, 0.05), DIFFERENCES, -0.15)),
        ("c", Bar(Interval(0.1, 0.2), DIFFERENCES)),
    )
    table = ElementTree.fromstring(render_forest(ForestPlot(rows, Interval(-0.2, 0.2), 9)))
    assert [name.text for name in table.iter("bdi")] == ["<b>", "c"]
    places = [
        [(line.get("x1"), line.get("x2")) for line in drawing.findall("line")]
        for drawing in table.iter("svg")
    ]
    axis = [("0%", "100%"), ("50%", "50%")]
    assert places == [[*axis, ("25%", "62.5%"), ("12.5%", "12.5%")], [*axis, ("75%", "100%")]]
    assert [span.text for span in table.iter("span")] == ["-0.2", "0", "0.2"]
