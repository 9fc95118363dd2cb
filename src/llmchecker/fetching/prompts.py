"""The prompts of the top-k statistics, read from a data set."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from llmchecker.errors import UnknownName, did_you_mean
from llmchecker.files import read_with_checksum


def read_prompts(path: str | Path, column: str) -> list[str]:
    """The prompts in a column of a CSV file that `datasets.fetch_dataset` fetched.

    Raises:
        DamagedFile: the file has changed since it was fetched.
        UnknownName: the file has no such column.
    """
    text = read_with_checksum(path).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    demand_column(column, rows.fieldnames or (), str(path))
    return [row[column] for row in rows]


def demand_column(column: str, columns: Sequence[str], where: str) -> None:
    """Raise UnknownName unless a table has a column; `where` says which table it is."""
    if column not in columns:
        hint = did_you_mean(column, columns)
        raise UnknownName(f"{where} has no column {column!r}{hint}; it has {', '.join(columns)}")
