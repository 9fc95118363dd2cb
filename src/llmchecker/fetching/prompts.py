"""The prompts of the top-k statistics, as a data set holds them."""

import csv
import io
from pathlib import Path

from llmchecker.errors import UnknownName
from llmchecker.files import read_with_checksum


def read_prompts(path: str | Path, column: str) -> list[str]:
    """The prompts of a CSV file that `datasets.fetch_dataset` fetched.

    Raises:
        DamagedFile: a bit of the file is not what was fetched.
        UnknownName: the file has no such column.
    """
    text = read_with_checksum(path).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if column not in (rows.fieldnames or ()):
        has = ", ".join(rows.fieldnames or ())
        raise UnknownName(f"{path} has no column {column!r}; it has {has}")
    return [row[column] for row in rows]
