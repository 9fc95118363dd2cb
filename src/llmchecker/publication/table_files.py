"""Tables as files: written as CSV, Markdown and LaTeX, and read again as they are to be shown.

A CSV file ends where its last row ends, so that one that was cut looks like a shorter table. Each
therefore has its checksum in a file beside it and is read only while it fits.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from llmchecker.files import read_with_checksum, written_whole, written_with_checksum
from llmchecker.publication.drawing import printed

FORMATS = {
    "encode_seconds": "{:.2f}",
    "check_seconds": "{:.3f}",
    "mean_seconds_of_solved": "{:.2f}",
}
"""How people read a column of numbers; four significant digits otherwise, and all in the CSV."""
TEXT_COLUMNS = frozenset(["name", "start_string", "label", "interest", "model", "query"])
"""Columns whose cells are words, even where they look like numbers."""
MARKUP = frozenset("\\`*_{}[]<>#|$~&!")
"""Characters that can be a part of Markdown's markup."""
_OBEYED = re.compile(
    r"""[\\`*<|$]                 # wherever they stand
    | (?<![^\W_])_ | _(?![^\W_])  # an underscore, but for one within a word
    | ~(?=~) | (?<=~)~            # two of them strike out
    | &(?=\#?\w+;)                # an entity
    | !(?=\[) | \](?=[(\[:]) | \[(?=\^)  # pictures, links, footnotes
    | ^\s*[>\#]                  # a quotation, a heading
    | \#(?=\d)                   # an issue of a repository
    """,
    re.VERBOSE,
)
"""What of a text Markdown would obey where it stands."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""How a cell begins that a spreadsheet would compute, or whose apostrophe it would take off."""

_NUMBER = re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf)|True|False|unknown")


@dataclass(frozen=True)
class CellView:
    """A cell of a table as it is shown, and as it stands in the CSV where that is a figure."""

    text: str
    exact: str | None = None


@dataclass(frozen=True)
class TableView:
    """A table as it is shown; `numeric` are the positions of columns of numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[CellView, ...], ...]
    numeric: frozenset[int]


def write_table(
    table: pd.DataFrame,
    paths: Iterable[str | Path],
    footer: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Write a table to several files, each in the format of its suffix: csv, md or tex.

    Args:
        footer: plain text to stand below the table; a CSV file has none, since programs that read
            the format would take it for a row.
        notes: plain text to stand between table and footer, a paragraph each.
    """
    for path in map(Path, paths):
        match path.suffix:
            case ".csv":
                write_csv(table, path)
            case ".md":
                write_markdown(table, path, footer, notes)
            case ".tex":
                write_latex(table, path, footer, notes)
            case suffix:
                raise ValueError(f"{path} has the suffix {suffix!r}; it must be .csv, .md or .tex")


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table with all digits, so that numbers read back as they were.

    A text that a spreadsheet would compute, since it begins as a formula does, gets an apostrophe
    before it, by which spreadsheets know a text; `unguarded` takes it off.
    """
    table = table.map(_guarded)
    # a cell is quoted for the character that ends lines, but not for the other one that may
    returns = table.map(lambda cell: "\r" in str(cell)).any(axis=None)
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    with written_with_checksum(path) as partial:
        table.to_csv(partial, index=False, lineterminator="\n", quoting=quoting)


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read what `write_csv` wrote.

    Raises:
        DamagedFile: the file is not what was written.
    """
    table = pd.read_csv(io.BytesIO(read_with_checksum(path)))
    return table.map(lambda cell: unguarded(cell) if isinstance(cell, str) else cell)


def unguarded(cell: str) -> str:
    """A text of a CSV file as it was before it was written."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def _guarded(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith(FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def write_markdown(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a table for reading, with notes and a footer as paragraphs below it."""
    aligned = ["right" if _has_numbers(table[column]) else "left" for column in table]
    cells = _readable(table).map(_markdown_cell)
    text = cells.to_markdown(index=False, disable_numparse=True, colalign=aligned)
    with written_whole(path) as partial:
        below = "".join(map(paragraph, (*notes, footer)))
        partial.write_text(text + "\n" + below, encoding="utf-8")


def write_latex(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a tabular environment for `booktabs`, with notes and a footer as comments below it."""
    readable = _readable(table)
    readable.columns = [column.replace("_", " ") for column in readable.columns]
    style = readable.style.hide(axis="index").format(escape="latex")
    aligned = "".join("r" if _has_numbers(table[column]) else "l" for column in table)
    with written_whole(path) as partial:
        text = style.to_latex(hrules=True, column_format=aligned)
        # LaTeX's default font encoding has other characters in these places
        text = re.sub("[<>|]", r"$\g<0>$", text)
        comments = [f"% {printed(_on_one_line(note))}\n" for note in (*notes, footer) if note]
        partial.write_text(text + "".join(comments), encoding="utf-8")


def read_table(path: str | Path) -> TableView:
    """Read a CSV file that this project wrote.

    Numbers of more than four significant digits are rounded for reading and kept as they are.

    Raises:
        DamagedFile: the file is not what was written.
    """
    text = read_with_checksum(path).decode("utf-8")
    header, *records = csv.reader(io.StringIO(text, newline=""))
    numeric = frozenset(
        place
        for place, (name, *cells) in enumerate(zip(header, *records, strict=True))
        if name not in TEXT_COLUMNS and all(_NUMBER.fullmatch(cell) for cell in cells if cell)
    )
    rows = tuple(
        tuple(
            _number_cell(header[place], cell)
            if cell and place in numeric
            else CellView(printed(unguarded(cell)))
            for place, cell in enumerate(record)
        )
        for record in records
    )
    return TableView(tuple(header), rows, numeric)


def paragraph(text: str) -> str:
    """Plain text as a paragraph of Markdown that stands below others; nothing for no text."""
    return f"\n{escaped(_on_one_line(text))}\n" if text else ""


def _on_one_line(text: str) -> str:
    """The text with spaces for its line breaks."""
    return " ".join(text.splitlines())


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.infer_dtype(column) == "decimal"


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """All cells as the text that a reader wants, each on one line."""
    return table.apply(lambda column: column.map(lambda cell: format_cell(cell, column.name)))


def format_cell(cell: object, column: str = "") -> str:
    """A cell as people read it, on one line: an empty text in quotes, what is absent as nothing."""
    if pd.isna(cell):
        return ""
    match cell:
        case bool():
            return str(cell).lower()
        case float():
            return FORMATS.get(column, "{:.4g}").format(cell)
        case _:
            text = str(cell)
            return printed(_on_one_line(text)) if text.strip() else repr(text)


def _markdown_cell(text: str) -> str:
    """The text as one table cell in which markup is shown as code, not obeyed."""
    return as_text(text).replace("|", "\\|")


def as_text(text: str) -> str:
    """The text, as code where it has markup."""
    return as_code(text) if MARKUP.intersection(text) else text


def as_code(text: str) -> str:
    """The text as Markdown's code."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def escaped(text: str) -> str:
    """The text as a part of a table cell, where the next part may follow without a space.

    Entities, since a backslash or a fence of backticks would take in what follows, and only where
    Markdown would obey a character, so that the text can be read as it stands. Characters that
    print nothing, line breaks among them, are shown as Python writes them.
    """
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return _OBEYED.sub(lambda found: "".join(map(_entity, found[0])), shown)


def _entity(character: str) -> str:
    return character if character.isspace() else f"&#{ord(character)};"


def _number_cell(column: str, cell: str) -> CellView:
    """A figure in at most four significant digits, but a whole number in all of them."""
    if cell in ("True", "False"):
        return CellView(cell.lower(), cell)
    digits = re.sub(r"e.*|\D", "", cell).lstrip("0")
    if len(digits) <= 4 or cell.lstrip("-").isdigit() or not math.isfinite(float(cell)):
        return CellView(cell, cell)
    return CellView(FORMATS.get(column, "{:.4g}").format(float(cell)), cell)
