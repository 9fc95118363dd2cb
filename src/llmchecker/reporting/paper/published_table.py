"""The paper's published Table II, with the printed digits, and the data of its figures."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pandas as pd

from llmchecker.errors import InvalidTable, LLMCheckerError
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Truncation

_FILE_COLUMNS = """
    label interest model alpha k L query states transitions encode_seconds check_seconds result
""".split()


@dataclass(frozen=True)
class PublishedRow:
    """A row of the paper's Table II, with the printed digits.

    Attributes:
        number: number of the row in the table, from 1.
        label, interest: name of the experiment and subject of the query.
        model: the paper's name of the model.
        truncation: the printed alpha, k and L.
        query: the query.
        states, transitions: numbers of states and transitions that Storm explored for the query.
        encode_seconds, check_seconds: durations in seconds, with the printed digits.
        value: the probability, with the printed digits.

    Raises:
        InvalidTable: a size is below 1, a time is below 0, or the value is outside [0, 1].
    """

    number: int
    label: str
    interest: str
    model: str
    truncation: Truncation
    query: Query
    states: int
    transitions: int
    encode_seconds: Decimal
    check_seconds: Decimal
    value: Decimal

    def __post_init__(self) -> None:
        for name in ("states", "transitions"):
            if getattr(self, name) < 1:
                raise InvalidTable(f"{name}: {getattr(self, name)} is not at least 1")
        for name in ("encode_seconds", "check_seconds"):
            if getattr(self, name) < 0:
                raise InvalidTable(f"{name}: {getattr(self, name)} is not 0 or more")
        if not 0 <= self.value <= 1:
            raise InvalidTable(f"result: {self.value} is not a probability")

    @property
    def internal_states(self) -> int:
        """The number I of expanded states, from transitions = 2N - 1 - I."""
        return 2 * self.states - 1 - self.transitions


def read_published_rows(path: str | Path) -> tuple[PublishedRow, ...]:
    """Read the rows of a published table.

    Raises:
        InvalidTable: a column is missing, a cell is invalid, or the last line is cut; the message
            contains the file and the line.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if reader.fieldnames != _FILE_COLUMNS:
            columns, expected_columns = ", ".join(reader.fieldnames or ()), ", ".join(_FILE_COLUMNS)
            raise InvalidTable(f"{path}: the columns are {columns}; expected {expected_columns}")
        rows = []
        for number, cells in enumerate(reader, start=1):
            try:
                rows.append(_parse_row(number, cells))
            except (LLMCheckerError, ValueError) as error:
                raise InvalidTable(f"{path}, line {reader.line_num}: {error}") from error
    _check_end(path, reader.line_num)
    return tuple(rows)


def read_published_figure(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read the published data of a figure.

    Args:
        path: a CSV file.
        columns: the names of its columns, the last that of a probability.

    Raises:
        InvalidTable: the columns are others, a probability is invalid, or the last line is cut.
    """
    table = pd.read_csv(path)
    if list(table.columns) != list(columns):
        raise InvalidTable(
            f"{path}: the columns are {', '.join(table.columns)}; expected {', '.join(columns)}"
        )
    wrong = table[~table[columns[-1]].between(0, 1)]
    if len(wrong):
        line, value = wrong.index[0] + 2, wrong[columns[-1]].iloc[0]
        raise InvalidTable(f"{path}, line {line}: {columns[-1]}: {value} is not a probability")
    _check_end(path, len(table) + 1)
    return table


def _check_end(path: str | Path, line: int) -> None:
    """Check that the last line is whole: its number may have lost digits and still be valid.

    Raises:
        InvalidTable: the file does not end with the end of a line.
    """
    if not Path(path).read_bytes().endswith(b"\n"):
        raise InvalidTable(f"{path}, line {line}: no end of line, so the file was cut; restore it")


def _parse_row(number: int, cells: Mapping[str, str]) -> PublishedRow:
    # csv marks missing cells by None as a value, and surplus cells by None as a key.
    if None in cells or None in cells.values():
        raise InvalidTable(f"row: not {len(_FILE_COLUMNS)} cells")
    return PublishedRow(
        number=number,
        label=cells["label"],
        interest=cells["interest"],
        model=cells["model"],
        truncation=Truncation(float(cells["alpha"]), int(cells["k"]), int(cells["L"])),
        query=parse(cells["query"]),
        states=int(cells["states"]),
        transitions=int(cells["transitions"]),
        encode_seconds=_parse_decimal(cells["encode_seconds"]),
        check_seconds=_parse_decimal(cells["check_seconds"]),
        value=_parse_decimal(cells["result"]),
    )


def _parse_decimal(cell: str) -> Decimal:
    # `Decimal` also accepts nan, exponents and underscores.
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", cell):
        raise InvalidTable(f"cell: {cell!r} is not a decimal number")
    return Decimal(cell)
