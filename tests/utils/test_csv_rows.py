"""Rows of CSV files."""

import csv

import pytest

from llmchecker.errors import UnusableDataset
from llmchecker.utils.csv_rows import CsvRow, parse_csv


def test_a_row_has_the_line_where_it_begins():
    """Blank lines are no rows, and a value with line breaks takes several lines."""
    text = 'act,prompt\r\n\r\na,"one\ntwo"\nb,"say ""c"""\n'
    assert parse_csv("a.csv", text) == [
        CsvRow(1, ("act", "prompt")),
        CsvRow(3, ("a", "one\ntwo")),
        CsvRow(5, ("b", 'say "c"')),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a,b\n1,"2\n3,4\n', "line 2: not CSV: a quote is not closed"),
        ('a,b\n1,"2"3\n', "line 2: not CSV: a text follows a closing quote"),
        # before the rows, whose quotes are errors with this separator
        ('\na;b\n"1; 2";3\n', "line 2: semicolons separate the columns 'a;b'"),
    ],
)
def test_a_text_that_is_not_csv_is_refused_by_its_line(text, told):
    """A message names the file, the line where the row begins, and the mistake."""
    with pytest.raises(UnusableDataset, match=f"^a.csv, {told}"):
        parse_csv("a.csv", text)


def test_a_long_value_is_read_and_no_limit_stays_changed():
    """A value may be longer than the default limit of `csv`, which other readers keep."""
    limit = csv.field_size_limit()
    value = "x" * (limit + 1)
    assert parse_csv("a.csv", f"a\n{value}\n")[1].cells == (value,)
    assert csv.field_size_limit() == limit


def test_spaces_after_commas_may_be_left_out():
    """With `skips_spaces` a quote may follow a comma and a space."""
    (row,) = parse_csv("a.csv", 'a, "b, c"\n', skips_spaces=True)
    assert row.cells == ("a", "b, c")


def test_quotes_inside_of_a_value_may_be_accepted():
    """Without `is_strict` a text may follow a quote, and a single column has any name."""
    rows = parse_csv("a.csv", 'a;b\n"one" two\n', is_strict=False)
    assert [row.cells for row in rows] == [("a;b",), ("one two",)]
