"""Rows of CSV files, with the lines in which they begin."""

import csv
import io
from dataclasses import dataclass

from llmchecker.errors import UnusableDataset

_MAX_CELL_CHARACTERS = 10**8
"""Largest number of characters of a cell: a prompt may be a book."""

_REASONS = {
    "unexpected end of data": "a quote is not closed; close it",
    "',' expected after '\"'": "a text follows a closing quote; double the quotes in a value",
}
"""Reasons of the messages of `csv` that do not name the mistake."""


@dataclass(frozen=True)
class CsvRow:
    """A row of a CSV file.

    Attributes:
        line: number of the line in which the row begins.
        cells: the values.
    """

    line: int
    cells: tuple[str, ...]


def parse_csv(place: str, text: str, *, skips_spaces: bool = False) -> list[CsvRow]:
    """Return the rows of a CSV file, the header among them; blank lines are not rows.

    Args:
        place: name of the file, for messages.
        text: content of the file.
        skips_spaces: whether spaces after a comma are no part of the value.

    Raises:
        UnusableDataset: the text is not CSV; the message has the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=skips_spaces)
    rows, line = [], 1
    # the limit is one of the whole process
    limit = csv.field_size_limit(_MAX_CELL_CHARACTERS)
    try:
        for cells in reader:
            if cells:
                rows.append(CsvRow(line, tuple(cells)))
            line = reader.line_num + 1
    except csv.Error as error:
        reason = _REASONS.get(str(error), f"{error}; correct the line")
        raise UnusableDataset(f"{place}, line {line}: not CSV: {reason}") from error
    finally:
        csv.field_size_limit(limit)
    return rows
