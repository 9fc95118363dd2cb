"""Prompts of the top-k statistics, from a data set."""

from collections.abc import Sequence
from pathlib import Path

from llmchecker.errors import UnknownName, did_you_mean
from llmchecker.utils.atomic_files import read_with_checksum
from llmchecker.utils.csv_rows import parse_csv


def read_prompts(path: str | Path, column: str) -> list[str]:
    """Return the prompts in a column of a CSV file from `datasets.fetch_dataset`.

    Raises:
        DamagedFile: the file has changed after the download.
        UnknownName: the file has no such column.
    """
    text = read_with_checksum(path).decode("utf-8")
    header, *rows = [row.cells for row in parse_csv(str(path), text)] or [()]
    check_column(column, header, str(path))
    index = header.index(column)
    return [row[index] for row in rows]


def check_column(column: str, columns: Sequence[str], table_name: str) -> None:
    """Raise UnknownName unless a table has a column; `table_name` is for the message."""
    if column not in columns:
        hint = did_you_mean(column, columns)
        raise UnknownName(
            f"{table_name}: no column {column!r}{hint}; its columns are {', '.join(columns)}"
        )
