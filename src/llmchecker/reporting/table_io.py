"""Table files: output as CSV, Markdown and LaTeX, and input for display.

A CSV file that was cut after a row looks like a shorter table. Therefore each CSV file has a
checksum in a file next to it, which is verified before every use.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from llmchecker.checking.formatting import FEW_DIGITS
from llmchecker.utils import markdown_text
from llmchecker.utils.atomic_files import (
    atomic_write,
    atomic_write_with_checksum,
    read_with_checksum,
)
from llmchecker.utils.number_format import format_lower, format_number, format_upper
from llmchecker.utils.printable_text import escape_unprintable

_COLUMN_FORMATS = {
    "encode_seconds": "{:.2f}",
    "check_seconds": "{:.3f}",
    "mean_seconds_of_solved": "{:.2f}",
}
"""Formats of columns for readers; others have four significant digits."""
_HEADINGS = {
    "lower": "certain from",
    "upper": "certain to",
    "low": "estimate from",
    "high": "estimate to",
    "confidence": "with confidence",
    "value": "probability (bounded)",
    "value_difference": "difference of probabilities",
}
"""Headings of columns whose names in CSV files are not words for readers."""
_TEXT_COLUMNS = frozenset(["name", "start_string", "label", "interest", "model", "query"])
"""Columns of texts, even if their cells look like numbers."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")
"""First characters of cells that a spreadsheet would change."""

_NUMBER = re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf)|True|False|unknown")


@dataclass(frozen=True)
class CellView:
    """A displayed cell of a table, and for a number its exact text in the CSV."""

    text: str
    exact: str | None = None


@dataclass(frozen=True)
class TableView:
    """A displayed table; `numeric` contains the positions of columns of numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[CellView, ...], ...]
    numeric: frozenset[int]


def write_table(
    table: pd.DataFrame,
    paths: Iterable[str | Path],
    footer: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Write a table to files in the formats of their suffixes: csv, md or tex.

    Args:
        table: the table.
        paths: files with the suffix csv, md or tex.
        footer: plain text below the table; omitted in CSV, because programs would read it as a row.
        notes: paragraphs of plain text between the table and the footer.
    """
    for path in map(Path, paths):
        match path.suffix:
            case ".csv":
                write_csv(table, path)
            case ".md":
                _write_markdown(table, path, footer, notes)
            case ".tex":
                _write_latex(table, path, footer, notes)
            case suffix:
                raise ValueError(f"{path}: suffix {suffix!r} is unknown; use .csv, .md or .tex")


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV with all digits, for an exact round trip.

    A text that begins like a formula gets an apostrophe as prefix, so that spreadsheets treat it as
    text. `_unguard` removes the apostrophe.
    """
    table = table.map(_guard)
    # The CSV writer quotes cells with "\n", which ends lines here, but not cells with "\r".
    has_returns = table.map(lambda cell: "\r" in str(cell)).any(axis=None)
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL
    with atomic_write_with_checksum(path) as partial:
        table.to_csv(partial, index=False, lineterminator="\n", quoting=quoting)


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a CSV file of `write_csv`.

    Raises:
        DamagedFile: the file does not match its checksum.
    """
    table = pd.read_csv(io.BytesIO(read_with_checksum(path)))
    return table.map(lambda cell: _unguard(cell) if isinstance(cell, str) else cell)


def _unguard(cell: str) -> str:
    """Remove the apostrophe that `_guard` added to a text."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA_STARTS) else cell


def _guard(cell: object) -> object:
    # A number such as -1 is not a formula.
    if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def _write_markdown(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a table as Markdown, with notes and a footer as paragraphs below it."""
    alignments = ["right" if _has_numbers(table[column]) else "left" for column in table]
    cells = _format_cells(table).map(markdown_text.format_cell).rename(columns=format_heading)
    text = cells.to_markdown(index=False, disable_numparse=True, colalign=alignments)
    with atomic_write(path) as partial:
        paragraphs = "".join(map(format_paragraph, (*notes, footer)))
        partial.write_text(text + "\n" + paragraphs, encoding="utf-8")


def _write_latex(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a table as LaTeX for `booktabs`, with notes and footer as comments."""
    display_table = _format_cells(table)
    display_table.columns = list(map(format_heading, display_table.columns))
    style = display_table.style.hide(axis="index").format(escape="latex")
    column_format = "".join("r" if _has_numbers(table[column]) else "l" for column in table)
    with atomic_write(path) as partial:
        text = style.to_latex(hrules=True, column_format=column_format)
        # LaTeX's default font encoding has other characters at these positions.
        text = re.sub("[<>|]", r"$\g<0>$", text)
        # Line breaks would end the comment.
        comments = [
            f"% {escape_unprintable(_join_lines(note))}\n" for note in (*notes, footer) if note
        ]
        partial.write_text(text + "".join(comments), encoding="utf-8")


def read_table(path: str | Path) -> TableView:
    """Read a CSV file of this project for display.

    A number with more than four significant digits is rounded; the view also contains its exact
    text.

    Raises:
        DamagedFile: the file does not match its checksum.
    """
    text = read_with_checksum(path).decode("utf-8")
    header, *records = csv.reader(io.StringIO(text, newline=""))
    numeric_columns = frozenset(
        index
        for index, (name, *cells) in enumerate(zip(header, *records, strict=True))
        if name not in _TEXT_COLUMNS and all(_NUMBER.fullmatch(cell) for cell in cells if cell)
    )
    rows = tuple(
        tuple(
            _format_number_cell(header[index], cell)
            if cell and index in numeric_columns
            else CellView(escape_unprintable(_unguard(cell)))
            for index, cell in enumerate(record)
        )
        for record in records
    )
    return TableView(tuple(header), rows, numeric_columns)


def format_heading(column: str) -> str:
    """Format a column's name for readers: `proof_lower` as proof certain from."""
    if column in _HEADINGS:
        return _HEADINGS[column]
    prefix, _, figure = column.rpartition("_")
    return f"{prefix} {_HEADINGS.get(figure, figure)}".replace("_", " ").lstrip()


def format_paragraph(text: str) -> str:
    """Format plain text as a Markdown paragraph; "" for an empty text."""
    return f"\n{markdown_text.format_text(_join_lines(text))}\n" if text else ""


def _join_lines(text: str) -> str:
    """Replace the line breaks of a text by spaces."""
    return " ".join(text.splitlines())


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.infer_dtype(column) == "decimal"


def _format_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Format all cells for readers, each on one line."""
    shown: pd.DataFrame = table.apply(
        lambda column: column.map(lambda cell: format_cell(cell, column.name))
    )
    return shown


def format_cell(cell: Any, column: str = "") -> str:
    """Format a cell on one line: an empty text in quotes, a missing cell as ""."""
    if pd.isna(cell):
        return ""
    match cell:
        # Truth values are lower case, unlike Python's.
        case bool():
            return str(cell).lower()
        case float():
            return _format_figure(cell, column)
        case _:
            text = str(cell)
            # An empty text would look like a missing cell.
            return escape_unprintable(_join_lines(text)) if text.strip() else repr(text)


def _format_figure(number: float, column: str) -> str:
    """Format a number for readers; bounds are rounded outwards."""
    if column in _COLUMN_FORMATS:
        return _COLUMN_FORMATS[column].format(number)
    # A lower bound is rounded down and an upper bound up, so that they remain valid.
    format_it = {
        **dict.fromkeys(("lower", "low"), format_lower),
        **dict.fromkeys(("upper", "high"), format_upper),
    }.get(column.rpartition("_")[2], format_number)
    return format_it(number, FEW_DIGITS)


def _format_number_cell(column: str, cell: str) -> CellView:
    """Format a number with four significant digits, an integer with all."""
    if cell in ("True", "False"):
        return CellView(cell.lower(), cell)
    digits = re.sub(r"e.*|\D", "", cell).lstrip("0")
    # Rounding must not change a number that is already short or whole.
    if len(digits) <= 4 or cell.lstrip("-").isdigit() or not math.isfinite(float(cell)):
        return CellView(cell, cell)
    return CellView(_format_figure(float(cell), column), cell)
