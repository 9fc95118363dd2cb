"""The prompts of the top-k statistics, read from a data set."""

import csv
import io
from pathlib import Path

from llmchecker.errors import UnknownName
from llmchecker.files import read_with_checksum


def read_prompts(path: str | Path, column: str) -> list[str]:
    """The prompts in a column of a CSV file that `datasets.fetch_dataset` fetched.

    Raises:
        DamagedFile: the file has changed since it was fetched.
        UnknownName: the file has no such column.
    """
    text = read_with_checksum(path).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if column not in (rows.fieldnames or ()):
        has = ", ".join(rows.fieldnames or ())
        raise UnknownName(f"{path} has no column {column!r}; it has {has}")
    return [row[column] for row in rows]
