"""Rows of figures are values, which every output formats alike."""

from llmchecker.checking.answer import Answer, Costs, Sampled
from llmchecker.checking.figures import Bar, Figure, format_row
from llmchecker.checking.formatting import build_figures
from llmchecker.properties.logic.parser import parse
from llmchecker.utils.interval import Interval


def test_a_row_has_the_interval_of_its_text():
    """The bar of a figure is the exact interval, whose text is rounded outwards."""
    certain, interval = Interval(0.12345678, 0.75), Interval(0.25, 0.5)
    answer = Answer(
        parse("P=? [ F g > 0 ]"),
        3,
        certain,
        Sampled(interval, 0.3, 0.99, 20),
        costs=Costs(states=9, transitions=12, passes=4),
    )
    rows = build_figures(answer)
    assert rows["certain"] == (Figure("[0.123456, 0.75]", bar=Bar(certain)),)
    detail = " with confidence 0.99, point estimate 0.3, from 20 samples"
    assert rows["estimate"] == (Figure("[0.25, 0.5]", detail, Bar(interval)),)
    assert format_row(rows["estimate"]) == f"[0.25, 0.5]{detail}"
