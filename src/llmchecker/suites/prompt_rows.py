"""Tables of prompts: rows of CSV, JSON lines or parquet files."""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.models.sources.downloads import check_hub_file, fetch_hub_dataset_file
from llmchecker.models.sources.source_spec import Source, check_sha256, parse_source
from llmchecker.suites.chat_cells import find_reference
from llmchecker.suites.prompt_forms import FORMS_NAME, FormRows
from llmchecker.suites.suite_file import PromptKeys
from llmchecker.suites.templates import MISSING, NumberText, Row, normalize_name
from llmchecker.utils.atomic_files import describe_kind
from llmchecker.utils.csv_rows import parse_csv
from llmchecker.utils.text_files import read_text

_MAX_ROWS = 1_000_000
"""Maximum number of rows of a table."""
_MAX_CHARACTERS = 100_000
"""Maximum number of characters of a cell."""
_MAX_PARTS = 100
"""Maximum number of parts of a list or object that are columns."""

_SPACED_QUOTE = re.compile(r'(?m)(?:^|(?<=,)) +"')
"""A quote after a space, which does not begin a quoted value."""


@dataclass(frozen=True)
class PromptTable:
    """A table of prompts.

    Attributes:
        name: the file or data set, for messages.
        columns: names of the columns.
        rows: the rows.
    """

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


def read_prompt_table(keys: str | PromptKeys, folder: Path) -> PromptTable:
    """Read a table of prompts.

    Args:
        keys: the path of a file relative to `folder`, or the keys of a source.
        folder: folder of the suite file.

    Raises:
        ConfigError: the source or the format is not supported.
        UnusableDataset: the file is absent, empty or no table; the message contains the row.
        ChecksumMismatch: the file is not the expected one.
    """
    if isinstance(keys, str):
        # a text with a scheme is a source, and any other text is a path
        source_text = keys if re.match(r"(hf|path|pypi|server):", keys) else f"path:{keys}"
        keys = PromptKeys(source=source_text)
    if keys.forms is not None:
        return _combine_forms(keys)
    if keys.source is None:
        raise ConfigError("source: it is missing; name a table, or write forms")
    source = parse_source(keys.source)
    path = _locate_file(source, keys.file, folder)
    check_sha256(source, path, keys.sha256)
    # the hub's client names a file by its digest
    name = path.name if source.scheme == "path" else f"{source.name} {keys.file}"
    table = _build_table(name, path)
    _check_count(table, keys.rows)
    return table


def _check_count(table: PromptTable, rows: int | None) -> None:
    if rows is not None and len(table.rows) != rows:
        raise UnusableDataset(
            f"{table.name}: the number of rows is {len(table.rows):,}, not {rows:,}; change `rows`"
        )


def _combine_forms(keys: PromptKeys) -> PromptTable:
    """Return the table of all combinations of texts."""
    given = [name for name in ("source", "file", "sha256") if getattr(keys, name) is not None]
    if given:
        raise ConfigError(f"{given[0]}: forms are no file; leave one out")
    forms = {normalize_name(name): tuple(texts) for name, texts in (keys.forms or {}).items()}
    if not forms or len(forms) < len(keys.forms or {}):
        raise ConfigError("forms: the columns need different names; name one or more")
    for name, texts in forms.items():
        if len(set(texts)) < len(texts):
            raise ConfigError(f"forms.{name}: a text occurs twice; remove one")
    rows = FormRows(forms)
    if len(rows) > _MAX_ROWS:
        raise ConfigError(f"forms: {len(rows):,} combinations are over {_MAX_ROWS:,}; remove texts")
    table = PromptTable(FORMS_NAME, tuple(forms), rows)
    _check_count(table, keys.rows)
    return table


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
    cells: list[dict[str, Any]] = []
    columns: dict[str, None] = {}
    for number, row in enumerate(reader(name, path), 1):
        if number > _MAX_ROWS:
            raise UnusableDataset(f"{name}: the file has over {_MAX_ROWS:,} rows; split it")
        row = _add_parts(row)
        # JSON lines may differ in their keys, and lists in their lengths
        columns |= dict.fromkeys(row)
        cells.append(row)
    if not cells:
        raise UnusableDataset(f"{name}: the file has no rows; add a prompt")
    if not columns:
        raise UnusableDataset(f"{name}: no column has a name; name the columns in the first line")
    has_types = reader is not _read_csv
    rows = [
        _build_row(name, number, row, columns, has_types=has_types)
        for number, row in enumerate(cells, 1)
    ]
    return PromptTable(name, tuple(columns), tuple(rows))


def _add_parts(row: dict[str, Any]) -> dict[str, Any]:
    """Add the parts of lists and objects as columns, such as `choices[0]` and `choices.text[0]`."""
    if all(type(value) is str for value in row.values()):
        return row
    nested = {column: value for column, value in row.items() if isinstance(value, list | dict)}
    if not nested:
        return row
    parts: dict[str, Any] = {}
    choices: dict[str, str] = {}
    for column, value in nested.items():
        found = dict(itertools.islice(_iter_parts(column, value), _MAX_PARTS + 1))
        # a long list, such as a vector, is no text of a prompt
        if len(found) <= _MAX_PARTS:
            parts |= found
        if (text := _format_choices(value)) is not None:
            choices[column] = text
        if (reference := find_reference(value)) is not None:
            parts[f"{column}.answer"] = reference
    # a column of the file is not replaced by a part
    return row | choices | {name: value for name, value in parts.items() if name not in row}


def _iter_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each part of a list or object that has no parts."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_parts(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _iter_parts(f"{name}.{key}", item)
    else:
        yield normalize_name(name), value


def _format_choices(value: Any) -> str | None:
    """Format the choices of a question, lists of `label` and `text`, as lines such as `A. no`."""
    if not isinstance(value, dict) or value.keys() != {"label", "text"}:
        return None
    labels, texts = value["label"], value["text"]
    if not isinstance(labels, list) or not isinstance(texts, list) or len(labels) != len(texts):
        return None
    if not all(isinstance(item, str) for item in (*labels, *texts)):
        return None
    return "\n".join(f"{label}. {text}" for label, text in zip(labels, texts, strict=True))


def _build_row(
    name: str, number: int, values: Mapping[str, Any], columns: Iterable[str], *, has_types: bool
) -> Row:
    """Build a row; a cell that is no text matters only if a template contains its column."""
    # most rows have only texts of a usual length
    if all(type(value) is str and len(value) <= _MAX_CHARACTERS for value in values.values()):
        texts = {column: values[column] for column in columns if column in values}
        absent = {column: MISSING for column in columns if column not in values}
        return Row(f"{name}, row {number}", texts, absent, number, has_types=has_types)
    cells, unusable, structures = {}, {}, {}
    for column in columns:
        value = values.get(column)
        if isinstance(value, bool | list | dict):
            structures[column] = value
        # bool first: it is also an int
        if isinstance(value, bool):
            cells[column] = str(value).lower()
        # NaN is the missing number of parquet files that pandas wrote
        elif isinstance(value, float) and not math.isfinite(value):
            unusable[column] = str(value)
        elif isinstance(value, int | float | Decimal):
            cells[column] = NumberText(value)
        elif not isinstance(value, str):
            unusable[column] = _describe_type(column, value)
        elif len(value) > _MAX_CHARACTERS:
            unusable[column] = f"a text of {len(value):,} characters, over {_MAX_CHARACTERS:,}"
        else:
            cells[column] = value
    return Row(f"{name}, row {number}", cells, unusable, number, structures, has_types)


def _describe_type(column: str, value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"a list with parts such as {column}[0], or a chat for messages"
    if isinstance(value, list):
        return f"a list with parts such as {column}[0]"
    if isinstance(value, dict):
        return f"an object with parts such as {column}.{next(iter(value), 'key')}"
    return f"a {type(value).__name__}"


def _normalize_header(place: str, names: Iterable[Any]) -> list[str]:
    """Return the names of columns; a column without a name has the empty one.

    Raises:
        UnusableDataset: two columns have one name.
    """
    header = [normalize_name(str(name)) for name in names]
    for column in header:
        if column and header.count(column) > 1:
            raise UnusableDataset(f"{place}: two columns have the name {column!r}; rename one")
    return header


def _read_csv(name: str, path: Path) -> Iterator[dict[str, Any]]:
    text = read_text(path, name, error_type=UnusableDataset)
    names, *rows = [row.cells for row in parse_csv(name, text)] or [()]
    # in `question, "answer"` the separator is a comma with a space, also before quotes
    is_spaced = len(names) > 1 and all(column.startswith(" ") for column in names[1:])
    if is_spaced:
        names, *rows = [row.cells for row in parse_csv(name, text, skips_spaces=True)]
    header = _normalize_header(f"{name}, line 1", names)
    is_plain = all(column == column.strip(" ") for column in names)
    has_spaced_quotes = not is_spaced and _SPACED_QUOTE.search(text) is not None
    for number, row in enumerate(rows, 1):
        place = f"{name}, row {number}"
        if has_spaced_quotes and any(_SPACED_QUOTE.match(cell) for cell in row):
            raise UnusableDataset(f"{place}: a space precedes a quote; remove the space")
        if len(row) != len(header):
            raise UnusableDataset(
                f"{place}: {len(row)} values for the {len(header)} columns "
                f"{', '.join(header)}; quote values with commas"
            )
        # a column without a name, as of an index, cannot be inserted
        cells = row if is_plain else map(_strip_padding, names, row)
        yield {column: cell for column, cell in zip(header, cells, strict=True) if column}


def _strip_padding(name: str, cell: str) -> str:
    """Strip spaces from a cell on the sides where the name of its column has them.

    In `question, answer` the separator is a comma with a space, in the header and in all rows.
    """
    if name.startswith(" "):
        cell = cell.lstrip(" ")
    return cell.rstrip(" ") if name.endswith(" ") else cell


def _read_json_lines(name: str, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_text(path, name, error_type=UnusableDataset).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        try:
            pairs = _JSON_DECODER.decode(line.strip())
        except (ValueError, RecursionError) as error:
            raise UnusableDataset(f"{place}: no JSON ({error}); fix it") from error
        if not isinstance(pairs, _Pairs) or not pairs:
            raise UnusableDataset(f"{place}: write a JSON object with columns")
        header = _normalize_header(place, (column for column, _ in pairs))
        yield {
            column: _build_plain(value)
            for column, (_, value) in zip(header, pairs, strict=True)
            if column
        }


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, in which a key may occur twice."""


def _build_plain(value: Any) -> Any:
    """Return a JSON value with its objects as dictionaries."""
    if isinstance(value, _Pairs):
        return {name: _build_plain(item) for name, item in value}
    return [_build_plain(item) for item in value] if isinstance(value, list) else value


# numbers are kept as written: 1.50 is not 1.5
_JSON_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=NumberText, parse_int=NumberText
)


def _read_parquet(name: str, path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        header = _normalize_header(name, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=1024):
            columns = [column.to_pylist() for column in batch.columns]
            for cells in zip(*columns, strict=True):
                yield {column: cell for column, cell in zip(header, cells, strict=True) if column}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableDataset(f"{name} is not a parquet file: {error}") from error


_READERS: Mapping[str, Callable[[str, Path], Iterator[dict[str, Any]]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
