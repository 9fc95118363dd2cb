"""Prompts of the top-k statistics, from a data set."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from llmchecker.errors import UnknownName, did_you_mean
from llmchecker.utils.atomic_files import read_with_checksum


def read_prompts(path: str | Path, column: str) -> list[str]:
    """Return the prompts in a column of a CSV file from `datasets.fetch_dataset`.

    Raises:
        DamagedFile: the file has changed after the download.
        UnknownName: the file has no such column.
    """
    text = read_with_checksum(path).decode("utf-8")
    # newline="", because a quoted field may contain line breaks
    rows = csv.DictReader(io.StringIO(text, newline=""))
    check_column(column, rows.fieldnames or (), str(path))
    return [row[column] for row in rows]


def check_column(column: str, columns: Sequence[str], table_name: str) -> None:
    """Raise UnknownName unless a table has a column; `table_name` is for the message."""
    if column not in columns:
        hint = did_you_mean(column, columns)
        raise UnknownName(
            f"{table_name}: no column {column!r}{hint}; its columns are {', '.join(columns)}"
        )
