"""Printed numbers never promise more than the numbers themselves."""

import random
from decimal import Decimal
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.answer import Answer, Costs, Sampled
from llmchecker.checking.figures import format_rows
from llmchecker.checking.formatting import build_rows
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.html_rows import render_rows
from llmchecker.reporting.table_io import _write_latex, _write_markdown, format_cell
from llmchecker.utils.interval import Interval
from llmchecker.utils.number_format import format_count, format_lower, format_number, format_upper

numbers = st.floats(allow_nan=False, allow_infinity=False)
probabilities = st.floats(0, 1) | st.floats(0, 1e-9).map(lambda small: 1 - small)


@given(number=numbers | probabilities, digits=st.sampled_from([2, 4, 6]))
def test_printed_bounds_hold_the_exact_number(number, digits):
    """A printed lower bound is at most the exact number, and a printed upper one at least."""
    lower, upper = (Decimal(f(number, digits)) for f in (format_lower, format_upper))
    assert lower <= Decimal(number) <= upper


@given(number=probabilities, digits=st.sampled_from([2, 4, 6]))
def test_only_an_exact_0_or_1_prints_as_one(number, digits):
    """A number prints as 0 or 1 only if it is exactly that."""
    for form in (format_lower, format_number, format_upper):
        assert (Decimal(form(number, digits)) in (0, 1)) == (number in (0, 1))


@pytest.mark.parametrize("render", [format_rows, render_rows])
def test_a_verdict_prints_its_bounds_outwards(render):
    """Certain bounds and the interval of an estimate are rounded outwards in text and HTML."""
    answer = Answer(
        query=parse("P=? [ F g > 0 ]"),
        horizon=1,
        certain=Interval(0.9999997, 0.99999998),
        sampled=Sampled(Interval(0.12345678, 0.12345612), 0.9999997, 0.99, 10),
        bounded=0.9999997,
        costs=Costs(states=1, transitions=1),
    )
    text = render(build_rows(answer))
    assert "[0.999999, 0.99999999]" in text
    assert "[0.123456, 0.123457]" in text
    assert "0.9999997" in text


def test_a_table_prints_bounds_outwards():
    """The cells of a table are rounded outwards in the columns of bounds."""
    shown = [format_cell(0.99999998, name) for name in ("lower", "low", "upper", "high")]
    assert shown == ["0.9999", "0.9999", *["0.99999999"] * 2]


@pytest.mark.parametrize("write", [_write_markdown, _write_latex])
def test_written_tables_print_bounds_outwards(write, tmp_path):
    """Bounds of 0.9999997 are printed as [1, 1] neither in Markdown nor in LaTeX."""
    table = pd.DataFrame({"lower": [0.9999997], "upper": [0.9999997]})
    write(table, tmp_path / "table", "caption")
    text = (tmp_path / "table").read_text()
    assert "0.9999" in text
    assert "0.9999998" in text


def test_ten_thousand_numbers_are_printed_outwards():
    """Random floats of all sizes, and floats next to 0 and 1, lie between their printed bounds."""
    chance = random.Random(0)
    sizes = [chance.random() * 10.0 ** chance.randint(-300, 300) for _ in range(4000)]
    shares = [chance.random() for _ in range(3000)]
    close = [end + sign * 10.0 ** -chance.uniform(1, 17) for end in (0, 1) for sign in (-1, 1)
             for _ in range(750)]  # fmt: skip
    for number in sizes + shares + close:
        for digits in (2, 4, 6):
            lower, upper = format_lower(number, digits), format_upper(number, digits)
            assert Fraction(lower) <= Fraction(number) <= Fraction(upper)
            for shown in (lower, upper):
                assert Fraction(shown) not in (0, 1) or Fraction(shown) == number


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [
        (1, "text", "1 text"),
        (0, "text", "0 texts"),
        (2000, "text", "2,000 texts"),
        (1, "pass", "1 pass"),
        (2, "pass", "2 passes"),
        (2, "query", "2 queries"),
        (2, "key", "2 keys"),
    ],
)
def test_a_count_has_the_plural_of_its_number(number: int, noun: str, shown: str) -> None:
    """One thing is singular, and any other number of things is plural."""
    assert format_count(number, noun) == shown
