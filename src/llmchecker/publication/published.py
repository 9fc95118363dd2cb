"""The figures that the paper published: its Table II, read with the digits that it prints."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from llmchecker.errors import InvalidTable, LLMCheckerError
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation

COLUMNS_OF_FILE = """
    label interest model alpha k L query states transitions encode_seconds check_seconds result
""".split()


@dataclass(frozen=True)
class PublishedRow:
    """A row of the paper's Table II, with the digits that it prints.

    Attributes:
        number: which row of the table, from 1.
        label, interest: of the experiment.
        model: the paper's name of the model.
        truncation: alpha, k and L as printed.
        query: what was asked.
        states, transitions: what Storm explored for the query.
        encode_seconds, check_seconds: the times, with the digits printed.
        value: the probability, with the digits printed.

    Raises:
        InvalidTable: a size below 1, a time below 0, a value outside [0, 1].
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
                raise InvalidTable(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("encode_seconds", "check_seconds"):
            if getattr(self, name) < 0:
                raise InvalidTable(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 0 <= self.value <= 1:
            raise InvalidTable(f"result is {self.value}; it must be a probability")

    @property
    def internal(self) -> int:
        """The expanded states, which transitions = 2N - 1 - I leaves."""
        return 2 * self.states - 1 - self.transitions


def read_published_rows(path: str | Path) -> tuple[PublishedRow, ...]:
    """Read the rows of a published table.

    Raises:
        InvalidTable: a column is missing, a cell cannot be what it stands for, or the last line was
            cut; the message names the file and the line.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if reader.fieldnames != COLUMNS_OF_FILE:
            found, expected = ", ".join(reader.fieldnames or ()), ", ".join(COLUMNS_OF_FILE)
            raise InvalidTable(f"{path} has the columns {found}; expected {expected}")
        rows = []
        for number, cells in enumerate(reader, start=1):
            try:
                rows.append(_row(number, cells))
            except (LLMCheckerError, ValueError) as error:
                raise InvalidTable(f"{path}, line {reader.line_num}: {error}") from error
    if not Path(path).read_bytes().endswith(b"\n"):
        # the last cell may have lost digits and still be a number
        raise InvalidTable(f"{path}, line {reader.line_num} has no end: the file was cut")
    return tuple(rows)


def _row(number: int, cells: Mapping[str, str]) -> PublishedRow:
    if None in cells or None in cells.values():
        raise InvalidTable(f"a row must have {len(COLUMNS_OF_FILE)} cells")
    return PublishedRow(
        number=number,
        label=cells["label"],
        interest=cells["interest"],
        model=cells["model"],
        truncation=Truncation(float(cells["alpha"]), int(cells["k"]), int(cells["L"])),
        query=parse(cells["query"]),
        states=int(cells["states"]),
        transitions=int(cells["transitions"]),
        encode_seconds=_decimal(cells["encode_seconds"]),
        check_seconds=_decimal(cells["check_seconds"]),
        value=_decimal(cells["result"]),
    )


def _decimal(cell: str) -> Decimal:
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", cell):
        raise InvalidTable(f"found {cell!r}, expected a decimal number")
    return Decimal(cell)
