"""Rows of CSV files, with the lines in which they begin."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from llmchecker.errors import UnusableDataset

_MAX_CELL_CHARACTERS = 10**8
"""Largest number of characters of a cell: a prompt may be a book."""

_REASONS = {
    "unexpected end of data": "a quote is not closed; close it",
    "',' expected after '\"'": "a text follows a closing quote; double the quotes in a value",
}
"""Reasons of the messages of `csv` that do not name the mistake."""

_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Marks that separate columns of other files than CSV."""


@dataclass(frozen=True)
class CsvRow:
    """A row of a CSV file.

    Attributes:
        line: number of the line in which the row begins.
        cells: the values.
    """

    line: int
    cells: tuple[str, ...]


def parse_csv(
    place: str, text: str, *, skips_spaces: bool = False, is_strict: bool = True
) -> list[CsvRow]:
    """Return the rows of a CSV file, the header among them; blank lines are not rows.

    Args:
        place: name of the file, for messages.
        text: content of the file.
        skips_spaces: whether spaces after a comma are no part of the value.
        is_strict: whether quotes inside of a value, and a header that other marks than commas
            separate, are errors.

    Raises:
        UnusableDataset: the text is not CSV; the message has the line.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""), strict=is_strict, skipinitialspace=skips_spaces
    )
    rows: list[CsvRow] = []
    line = 1
    # the limit is one of the whole process
    limit = csv.field_size_limit(_MAX_CELL_CHARACTERS)
    try:
        for cells in reader:
            # before the next rows: with other separators, their quotes are errors
            if cells and not rows and is_strict:
                _check_separator(f"{place}, line {line}", cells)
            if cells:
                rows.append(CsvRow(line, tuple(cells)))
            line = reader.line_num + 1
    except csv.Error as error:
        reason = _REASONS.get(str(error), f"{error}; correct the line")
        raise UnusableDataset(f"{place}, line {line}: not CSV: {reason}") from error
    finally:
        csv.field_size_limit(limit)
    return rows


def _check_separator(place: str, header: Sequence[str]) -> None:
    """Check that commas separate the names of columns."""
    separators = [noun for mark, noun in _OTHER_SEPARATORS.items() if mark in header[0]]
    if len(header) == 1 and separators:
        raise UnusableDataset(
            f"{place}: {separators[0]} separate the columns {header[0].strip()!r}; separate "
            "columns by commas"
        )
