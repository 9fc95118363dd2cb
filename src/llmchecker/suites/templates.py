"""Templates: texts with columns of a table of prompts, such as `Is {city} in {country}?`.

`{{` and `}}` are braces. A name in braces that is no column is an error, so that none remains in a
text. Cells are data: braces in a cell have no meaning.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from llmchecker.errors import (
    ConfigError,
    LLMCheckerError,
    UnknownName,
    add_place,
    did_you_mean,
)
from llmchecker.properties.assertions import LIST_KINDS
from llmchecker.utils.printable_text import quote_value

_PART = re.compile(r"(?P<literal>\{\{|\}\})|\{(?P<name>[^{}]*)\}|(?P<brace>[{}])")
_COLUMN_LIKE = re.compile(
    r"(?<![\\$^_{\w}])(?:\{\{\s*[^\W\d][\w-]*\s*\}\}|\{[^\W\d][\w-]*\})(?!\})"
)
"""A name in one or two pairs of braces that follow no letter and no mark of a formula."""
_PATTERN_KEYS = ("pattern", "matches", "not_matches")
"""Keys of quantifiers and assertions whose values are regular expressions."""
MISSING = "missing"
"""What a cell without a value, or with null, is."""
_COUNT = re.compile(r"\{[0-9]*,?[0-9]*\}")
"""A count of a regular expression, such as `{2}` or `{2,5}`."""
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_QUERY_VALUE = re.compile(rf"{_NUMBER.pattern}|[A-Za-z_][A-Za-z0-9_]*")
_MAX_NAMES = 20
"""Maximum number of columns in a message."""
_BOOLS = {"true": True, "false": False}


def normalize_name(name: str) -> str:
    """Return the name of a column without spaces around it, with composed characters."""
    return unicodedata.normalize("NFC", name).strip()


class NumberText(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def parse_numbers(value: Any) -> Any:
    """Return a JSON value whose numbers are numbers, and no texts."""
    if isinstance(value, NumberText):
        return json.loads(value)
    if isinstance(value, Mapping):
        return {name: parse_numbers(item) for name, item in value.items()}
    return [parse_numbers(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Row:
    """A row of a table of prompts.

    Attributes:
        place: the table and the row, for messages; empty for a case without a table.
        cells: the texts by column.
        unusable: what the other cells are, such as `a list`, by column.
        number: the number of the row, from 1; 0 for a case without a table.
        values: the values of cells that are lists, objects or truth values, by column.
        has_types: whether its file distinguishes texts from lists.
    """

    place: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)
    unusable: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    has_types: bool = False

    def read_value(self, column: str) -> Any:
        """Return the JSON value of a cell: a text, a number, a list or an object.

        Raises:
            ConfigError: the cell has no value.
        """
        return self.values[column] if column in self.values else self.read(column)

    def read(self, column: str) -> str:
        """Return the text of a cell.

        Raises:
            ConfigError: the cell is no text and no number.
        """
        if column in self.unusable:
            raise ConfigError(
                f"{self.place}, column {column}: the value is {self.unusable[column]}; write a "
                "text or a number"
            )
        return self.cells[column]

    def is_missing(self, column: str) -> bool:
        """Return whether the row has no value, or null, in a column."""
        return column not in self.cells and self.unusable.get(column, MISSING) == MISSING

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.cells, *self.unusable]

    def format_columns(self) -> str:
        """Format the names of all columns for a message, or of the first of many."""
        names = self.columns
        return ", ".join(names[:_MAX_NAMES]) + ", …" * (len(names) > _MAX_NAMES)

    def has_column(self, column: str) -> bool:
        """Return whether the row has a cell in a column."""
        return column in self.cells or column in self.unusable


def insert_columns(value: Any, row: Row | None) -> Any:
    """Insert the cells of a row into a text, or into all texts of lists and mappings.

    In regular expressions, the values of `_PATTERN_KEYS`, cells match literally. Without a row,
    texts are no templates and stay as they are.

    Raises:
        UnknownName: the row has no such column.
        ConfigError: a brace has no counterpart, or a cell is no text.
    """
    return value if row is None else _insert(value, row, _insert_text)


def insert_values(value: Any, row: Row) -> Any:
    """Insert columns as `insert_columns`, and read numbers, true and false that contain columns."""

    def insert(text: str, row: Row) -> Any:
        inserted = _insert_text(text, row)
        return _parse_value(inserted) if list_columns(text) else inserted

    return _insert(value, row, insert)


def _is_list_column(kind: str, value: Any, row: Row) -> bool:
    """Return whether a value is one column alone, of a table that distinguishes lists and texts."""
    if kind.removeprefix("not_") not in LIST_KINDS or not isinstance(value, str):
        return False
    part = _PART.fullmatch(value.strip())
    column = "" if part is None or part["name"] is None else normalize_name(part["name"])
    return row.has_types and row.has_column(column)


def insert_cells(value: Any, row: Row | None) -> Any:
    """Insert columns as `insert_columns`; a text of one column alone becomes the cell's value."""

    def insert(text: str, row: Row) -> Any:
        part = _PART.fullmatch(text.strip())
        column = "" if part is None or part["name"] is None else normalize_name(part["name"])
        return row.read_value(column) if row.has_column(column) else _insert_text(text, row)

    return value if row is None else _insert(value, row, insert)


def insert_into_assertion(entry: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """Insert columns into an assertion, in which a column of lists may be a list of texts."""
    inserted: dict[str, Any] = {}
    for kind, value in entry.items():
        if _is_list_column(kind, value, row):
            cell = row.read_value(*list_columns(value))
            inserted[kind] = cell if isinstance(cell, list) else [cell]
        else:
            inserted |= insert_columns({kind: value}, row)
    return inserted


def insert_into_query(text: str, row: Row) -> str:
    """Insert columns into a query, which must be numbers or names.

    Raises:
        UnknownName, ConfigError: as in `insert_columns`.
    """

    def convert(cell: str, column: str) -> str:
        # any other text could change the structure of the query
        if not _QUERY_VALUE.fullmatch(cell.strip()):
            raise ConfigError(
                f"{row.place}, column {column}: {cell!r} is no number and no name; a query takes "
                "only these"
            )
        return cell.strip()

    return _render(text, row, convert)


def list_columns(value: Any) -> list[str]:
    """List the names in braces in all texts of a value."""
    if isinstance(value, Mapping):
        return [name for item in value.items() for name in list_columns(list(item))]
    if isinstance(value, list | tuple):
        return [name for item in value for name in list_columns(item)]
    if not isinstance(value, str):
        return []
    return list(_list_text_columns(value))


# a text of a suite is looked at for each row
@lru_cache(maxsize=1024)
def _list_text_columns(text: str) -> tuple[str, ...]:
    names = [match["name"] for match in _PART.finditer(text)]
    return tuple(dict.fromkeys(normalize_name(name) for name in names if name is not None))


def list_literal_columns(text: str) -> list[str]:
    """List what looks like a column, as `{country}` or `{{country}}`, in a text without columns.

    Braces of JSON, as in `{"a": 1}`, of formulas, as in `x_{n}`, and of code are no columns.
    """
    return list(dict.fromkeys(match[0] for match in _COLUMN_LIKE.finditer(text)))


@contextmanager
def locate_errors(key: str, template: Any, row: Row) -> Iterator[None]:
    """Prefix errors in the block with the key, the row, and the columns at fault.

    Args:
        key: the key of the template in the suite file.
        template: the text, list or mapping with columns. If the message of an error begins with a
            key of the mapping, the columns are those of its value.
        row: the row that was inserted.
    """
    try:
        yield
    except LLMCheckerError as error:
        message = str(error)
        if row.place and row.place not in message:
            name = message.partition(": ")[0]
            is_value = isinstance(template, Mapping) and name in template
            columns = list_columns(template[name] if is_value else template)
            known = ", ".join(column for column in columns if row.has_column(column))
            place = f"{row.place}, column {known}" if known else row.place
            message = f"{place}: {message}"
        raise type(error)(add_place(key, message)) from error


def _insert(value: Any, row: Row, insert: Callable[[str, Row], Any]) -> Any:
    if isinstance(value, Mapping):
        return {
            # names in a JSON schema are texts too
            _insert_text(key, row): _insert(
                item, row, _insert_into_pattern if _is_pattern(key, item) else insert
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_insert(item, row, insert) for item in value]
    return insert(value, row) if isinstance(value, str) else value


def _is_pattern(key: str, value: Any) -> bool:
    return key in _PATTERN_KEYS and not isinstance(value, Mapping)


def _insert_text(text: str, row: Row) -> str:
    return _render(text, row, lambda cell, column: cell)


def _insert_into_pattern(text: str, row: Row) -> str:
    """Insert columns into a regular expression, whose own braces remain."""
    return _render(text, row, lambda cell, column: re.escape(cell), is_pattern=True)


def _render(
    text: str, row: Row, convert: Callable[[str, str], str], *, is_pattern: bool = False
) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["literal"]:
            return match["literal"][0]
        if match["brace"]:
            brace = match["brace"]
            raise ConfigError(
                f"{quote_value(text)}: {brace} has no counterpart; write {brace * 2} for {brace}"
            )
        column = normalize_name(match["name"])
        if is_pattern and _is_syntax(match):
            # a count that is also the name of a column has two meanings
            if row.has_column(column):
                raise ConfigError(
                    f"{match[0]}: a column and a count of the regular expression; write "
                    f"{{{match[0]}}} for the count, or rename the column"
                )
            return match[0]
        if not row.has_column(column):
            raise UnknownName(_describe_unknown(column, row))
        return convert(row.read(column), column)

    return _PART.sub(replace, text)


def _is_syntax(match: re.Match[str]) -> bool:
    """Return whether braces belong to the syntax of regular expressions.

    They are a count, or follow `\\p`, `\\P` or `\\N` as in `\\p{L}`.
    """
    if match["name"].strip(",") and _COUNT.fullmatch(match[0]):
        return True
    before = match.string[: match.start()]
    escapes = before[:-1]
    return before[-1:] in ("p", "P", "N") and (len(escapes) - len(escapes.rstrip("\\"))) % 2 == 1


def _describe_unknown(column: str, row: Row) -> str:
    braces = f"write {{{{{column}}}}} for braces"
    if not row.columns:
        return f"{{{column}}}: the case has no prompts with columns; add `prompts`, or {braces}"
    hint = did_you_mean(column, row.columns) or ";"
    return (
        f"{{{column}}}: the prompts have no such column{hint} they have {row.format_columns()}; "
        f"{braces}"
    )


def _parse_value(text: str) -> str | int | float | bool:
    """Return a text as the number or the truth value that it is, if any."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return _BOOLS.get(text, text)
    try:
        return int(text)
    except ValueError:
        return float(text)
