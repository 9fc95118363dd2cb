"""Tables of prompts: rows of CSV, JSON lines or parquet, and columns in texts.

A column is inserted by its name in braces: `Is {city} in {country}?`.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, UnknownName, UnusableDataset, did_you_mean
from llmchecker.models.sources.downloads import check_hub_file, fetch_hub_dataset_file
from llmchecker.models.sources.source_spec import Source, check_sha256, parse_source
from llmchecker.suites.suite_file import PromptKeys
from llmchecker.utils.atomic_files import describe_kind

_MAX_ROWS = 1_000_000
"""Maximum number of rows of a table."""
_MAX_CHARACTERS = 100_000
"""Maximum number of characters of a cell."""

Row = Mapping[str, str]
"""The cells of a row as texts, by column."""

_PATTERN_KEYS = ("pattern", "matches", "not_matches")
"""Keys of quantifiers and assertions whose values are regular expressions."""

_COLUMN = re.compile(r"\{([A-Za-z_]\w*)\}")
# in a pattern, \p{L} is a class of characters and \N{name} a character
_PATTERN_COLUMN = re.compile(r"(?<!\\[pPN])\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class PromptTable:
    """A table of prompts.

    Attributes:
        name: the file or data set, for messages.
        columns: names of the columns.
        rows: the rows, each with all columns.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_prompt_table(keys: str | PromptKeys, folder: Path) -> PromptTable:
    """Read a table of prompts.

    Args:
        keys: the path of a file relative to `folder`, or the keys of a source.
        folder: folder of the suite file.

    Raises:
        ConfigError: the source or the format is not supported.
        UnusableDataset: the file is absent, empty or no table, or a cell is unusable; the message
            contains the row.
        ChecksumMismatch: the file is not the expected one.
    """
    if isinstance(keys, str):
        # a text with a scheme is a source, and any other text is a path
        source_text = keys if re.match(r"(hf|path|pypi|server):", keys) else f"path:{keys}"
        keys = PromptKeys(source=source_text)
    source = parse_source(keys.source)
    path = _locate_file(source, keys.file, folder)
    check_sha256(source, path, keys.sha256)
    # the hub's client names a file by its digest
    name = path.name if source.scheme == "path" else f"{source.name} {keys.file}"
    table = _build_table(name, path)
    if keys.rows is not None and len(table.rows) != keys.rows:
        raise UnusableDataset(
            f"{name}: the number of rows is {len(table.rows):,}, not {keys.rows:,}; change `rows`"
        )
    return table


def insert_columns(value: Any, row: Row, *, is_pattern: bool = False) -> Any:
    """Insert the cells of a row into a text, or into all texts in lists and mappings.

    Args:
        value: a text, number, list or mapping.
        row: the cells by column.
        is_pattern: whether texts are regular expressions, in which cells match literally. In a
            mapping, the values of `_PATTERN_KEYS` are.

    Raises:
        UnknownName: the row has no such column.
    """
    if isinstance(value, Mapping):
        return {
            key: insert_columns(item, row, is_pattern=key in _PATTERN_KEYS)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [insert_columns(item, row, is_pattern=is_pattern) for item in value]
    if not isinstance(value, str):
        return value
    pattern = _PATTERN_COLUMN if is_pattern else _COLUMN
    return pattern.sub(lambda match: _read_cell(match[1], row, is_pattern), value)


def _read_cell(column: str, row: Row, is_pattern: bool) -> str:
    if column not in row:
        hint = did_you_mean(column, row)
        known = f"they have {', '.join(row)}" if row else "the case has no prompts with columns"
        raise UnknownName(f"{{{column}}}: the prompts have no such column{hint}; {known}")
    return re.escape(row[column]) if is_pattern else row[column]


def _locate_file(source: Source, file: str | None, folder: Path) -> Path:
    """Return the path of a local file, or of the cached file of a data set."""
    if source.scheme == "path":
        base = folder / Path(source.name).expanduser()
        path = base / file if file else base
        if not path.is_file():
            raise UnusableDataset(f"{path}: it is {describe_kind(path)}; name a table of prompts")
        return path
    if source.scheme != "hf":
        raise ConfigError(f"source {source}: prompts come from path: or hf:; change the source")
    # without a commit the prompts of a suite could change
    if source.needs_lock or file is None:
        raise ConfigError(
            f"source {source}: name a commit after @, and the file inside the data set by `file`"
        )
    return check_hub_file(fetch_hub_dataset_file(source.name, source.revision, file))


def _build_table(name: str, path: Path) -> PromptTable:
    reader = _READERS.get(Path(name).suffix.lower())
    if reader is None:
        raise ConfigError(f"{name}: unknown format; name a file in {', '.join(sorted(_READERS))}")
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    for number, cells in enumerate(reader(name, path), 1):
        if number > _MAX_ROWS:
            raise UnusableDataset(f"{name}: the file has over {_MAX_ROWS:,} rows; split it")
        columns = columns or tuple(cells)
        # JSON lines may differ in their keys
        if tuple(cells) != columns:
            raise UnusableDataset(
                f"{name}, row {number}: the columns are {', '.join(cells)}; row 1 has "
                f"{', '.join(columns)}"
            )
        rows.append({key: _parse_cell(name, number, key, cells[key]) for key in columns})
    if not rows:
        raise UnusableDataset(f"{name}: the file has no rows; add a prompt")
    return PromptTable(name, columns, tuple(rows))


def _parse_cell(name: str, number: int, column: str, value: Any) -> str:
    """Return a cell as text."""
    place = f"{name}, row {number}, column {column}"
    # bool first: it is also an int
    if isinstance(value, bool):
        return str(value).lower()
    # NaN is the missing number of parquet files that pandas wrote
    if isinstance(value, float) and not math.isfinite(value):
        raise UnusableDataset(f"{place}: the value is {value}; write a text or a finite number")
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise UnusableDataset(f"{place}: the value is {kind}; write a text or a number")
    if len(value) > _MAX_CHARACTERS:
        raise UnusableDataset(
            f"{place}: the text has {len(value):,} characters; at most {_MAX_CHARACTERS:,} are read"
        )
    return value


def _read_csv(name: str, path: Path) -> Iterator[dict[str, Any]]:
    text = _read_text(name, path)
    # a cell above the limit of the reader would be an error without its row
    limit = csv.field_size_limit(10**8)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise UnusableDataset(f"{name} is not CSV: {error}; quote values with quotes") from error
    # the limit is one of the whole process
    finally:
        csv.field_size_limit(limit)
    header, *rows = rows or [[]]
    if len(set(header)) != len(header) or not all(header):
        raise UnusableDataset(f"{name}, line 1: name each column once; it is {header!r}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UnusableDataset(
                f"{name}, row {number}: {len(row)} values for {len(header)} columns; quote "
                "values with commas"
            )
        yield dict(zip(header, row, strict=True))


def _read_json_lines(name: str, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_read_text(name, path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UnusableDataset(f"{name}, line {number}: no JSON ({error}); fix it") from error
        if not isinstance(row, dict) or not row:
            raise UnusableDataset(f"{name}, line {number}: write a JSON object with columns")
        yield row


def _read_parquet(name: str, path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableDataset(f"{name} is not a parquet file: {error}") from error


def _read_text(name: str, path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableDataset(f"{name} is not UTF-8: {error}; save it in UTF-8") from error
    except OSError as error:
        raise UnusableDataset(f"{name} cannot be read: {error.strerror}") from error


_READERS: Mapping[str, Callable[[str, Path], Iterator[dict[str, Any]]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
