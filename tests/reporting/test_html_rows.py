"""Rows of figures as HTML: every text is escaped, and a bar has the ends of its interval."""

from xml.etree import ElementTree

from llmchecker.checking.figures import Bar, Display, Figure, TextList
from llmchecker.checking.interval import DIFFERENCES, Interval
from llmchecker.reporting.html_rows import render_display, render_row


def test_all_texts_are_inert():
    """Names, figures, notes, headings and texts are escaped; figures of a row are one cell."""
    row = (Figure("<b>", "; ]"), Figure("x"))
    page = render_display(Display({"<i>": row}, ("<u>",), (TextList("<s>", (("0.5", "<q>{0}"),)),)))
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
