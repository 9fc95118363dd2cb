"""Rows of all combinations of texts, each of which is built on access.

{ city: [Rome, Oslo], greeting: [Hi, Hello] }    4 rows: Rome, Hi; Rome, Hello; Oslo, Hi; …
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from llmchecker.suites.templates import Row

FORMS_NAME = "forms"
"""The name of the table in messages."""


@dataclass(frozen=True, slots=True)
class _Cells(Mapping[str, str]):
    """The cells of one combination.

    Attributes:
        forms: the texts of each column.
        number: the number of the combination, from 0; the last column changes first.
    """

    forms: Mapping[str, Sequence[str]]
    number: int

    def __getitem__(self, column: str) -> str:
        number = self.number
        texts = self.forms[column]
        for name in reversed(list(self.forms)):
            if name == column:
                break
            number //= len(self.forms[name])
        return texts[number % len(texts)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.forms)

    def __len__(self) -> int:
        return len(self.forms)


@dataclass(frozen=True)
class FormRows(Sequence[Row]):
    """The rows of all combinations of texts.

    Attributes:
        forms: the texts of each column, at least one each.
    """

    forms: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return math.prod(map(len, self.forms.values()))

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        return Row(f"{FORMS_NAME}, row {number + 1}", _Cells(self.forms, number), {}, number + 1)
