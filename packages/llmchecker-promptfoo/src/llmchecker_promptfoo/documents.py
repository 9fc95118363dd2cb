"""Files of a promptfoo configuration: YAML as promptfoo reads it, JSON, CSV and texts."""

import glob
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from llmchecker.config.yaml_reader import (
    CORE_SCHEMA,
    ScalarSchema,
    ScalarType,
    parse_float,
    parse_integer,
    parse_yaml,
)
from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.utils import text_files
from llmchecker.utils.csv_rows import parse_csv
from llmchecker_promptfoo.report import NotConverted, Place

_MAX_BYTES = 5_000_000
"""Maximum size of a file in bytes."""
_MAX_VALUES = 200_000
"""Maximum number of values of a file, including values that references repeat."""
_MAX_DEPTH = 60
"""Maximum depth of nested lists, keys and references."""
FILE_SCHEME = "file://"
"""The beginning of a value that is the content of a file."""


@dataclass(frozen=True)
class Date:
    """A date without quotes, which JavaScript prints in words."""

    text: str

    def __str__(self) -> str:
        return self.text


_JS_YAML_SCHEMA = ScalarSchema(
    {
        **CORE_SCHEMA.types,
        "int": ScalarType(
            re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)(?<!_)"),
            parse_integer,
        ),
        "float": ScalarType(
            re.compile(
                r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?(?<!_)"
                r"|\.[0-9_]+([eE][-+]?[0-9]+)?(?<!_)|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
            ),
            parse_float,
        ),
        "timestamp": ScalarType(
            re.compile(
                r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
                r"|[0-9]{4}(-[0-9]{1,2}){2}([Tt]|[ \t]+)[0-9]{1,2}(:[0-9]{2}){2}(\.[0-9]*)?"
                r"([ \t]*(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?"
            ),
            Date,
        ),
    },
    has_tags=True,
)
"""The types of scalars in js-yaml, with which promptfoo reads YAML."""


def read_document(path: Path, file: str = "") -> tuple[Any, Place]:
    """Read a YAML or JSON file and insert the parts that `$ref` names.

    Args:
        path: the path of the file.
        file: its name in the listed places; empty for the configuration itself.

    Returns:
        The content as plain data, and its place, of which that of each value is a part.

    Raises:
        ConfigError: the file is unreadable or no YAML; the message contains the line.
    """
    document = parse_yaml(text_files.read_text(path, max_bytes=_MAX_BYTES), path, _JS_YAML_SCHEMA)
    content = _ReferenceInserter(path, document.content).insert(document.content)
    return content, Place(document.lines, "", file)


def parse_js_yaml(text: str, source: str = "YAML") -> Any:
    """Parse YAML as promptfoo does.

    Raises:
        NotConverted: the text is no YAML; the message begins with its source.
    """
    try:
        return parse_yaml(text, source, _JS_YAML_SCHEMA).content
    except ConfigError as error:
        raise NotConverted(error) from error


def parse_json(text: str) -> Any:
    """Parse JSON; `ValueError` says that a text is none."""

    def raise_error(name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON")

    try:
        return json.loads(text, parse_constant=raise_error)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error


def read_text(path: Path) -> str:
    """Read a text file in UTF-8.

    Raises:
        NotConverted: the file is absent, too large or no text.
    """
    return text_files.read_text(path, path.name, max_bytes=_MAX_BYTES, error_type=NotConverted)


def read_value(reference: str, folder: Path) -> Any:
    """Read the value `file://…` of an assertion: data of JSON or YAML, or a text.

    Raises:
        NotConverted: the file is unreadable or a program.
    """
    name = reference.removeprefix(FILE_SCHEME)
    path = folder / name
    match path.suffix:
        case ".json":
            try:
                return parse_json(read_text(path))
            except ValueError as error:
                raise NotConverted(f"{name}: no JSON: {error}") from error
        case ".yaml" | ".yml":
            return parse_js_yaml(read_text(path), name)
        case ".txt":
            return read_text(path).strip()
    raise NotConverted(f"{name} is a program or of an unknown type")


def find_files(pattern: str, folder: Path) -> list[str]:
    """Find the files of a name or pattern, relative to a folder, in the order of their names."""
    if (folder / pattern).is_file():
        return [pattern]
    # `Path.glob` accepts no absolute patterns
    found = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
    return sorted(name for name in found if (folder / name).is_file())


@dataclass(frozen=True)
class CsvRecord:
    """A row of a CSV file with a header.

    Attributes:
        line: the line in which the row begins.
        cells: the cells by column; None if their number is another one.
    """

    line: int
    cells: Mapping[str, str] | None


def read_csv_records(path: Path) -> Iterator[CsvRecord]:
    """Yield the rows of a CSV file with a header.

    Raises:
        NotConverted: the file is unreadable or no CSV.
    """
    text = read_text(path)
    try:
        rows = parse_csv(path.name, text)
    except UnusableDataset:
        # promptfoo accepts quotes inside of a cell in a second attempt
        try:
            rows = parse_csv(path.name, text, is_strict=False)
        except UnusableDataset as error:
            raise NotConverted(str(error)) from error
    if not rows:
        return
    header = [name.strip() for name in rows[0].cells]
    for row in rows[1:]:
        is_whole = len(row.cells) == len(header)
        yield CsvRecord(row.line, dict(zip(header, row.cells, strict=True)) if is_whole else None)


class _ReferenceInserter:
    """An inserter of the parts of a file that references name."""

    def __init__(self, path: Path, root: Any) -> None:
        self._path = path
        self._root = root
        self._value_count = 0

    def insert(self, value: Any, names: tuple[str, ...] = (), depth: int = 0) -> Any:
        """Replace `{$ref: "#/assertionTemplates/x"}` by that part; unknown ones stay.

        Args:
            value: a part of the file.
            names: the references that lead to it, which stay in it.
            depth: the number of lists, keys and references around it.
        """
        self._value_count += 1
        if self._value_count > _MAX_VALUES or depth > _MAX_DEPTH:
            raise ConfigError(
                f"{self._path}: with $ref, over {_MAX_VALUES:,} values or {_MAX_DEPTH} nested "
                "levels; use fewer references"
            )
        if isinstance(value, list):
            return [self.insert(item, names, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        name = value.get("$ref")
        if isinstance(name, str) and name not in names:
            target = _find_part(self._root, name)
            if target is not None:
                names = (*names, name)
                target = self.insert(target, names, depth + 1)
                rest = {key: item for key, item in value.items() if key != "$ref"}
                # keys next to a reference override those of its part
                value = target | rest if rest and isinstance(target, dict) else target
                return self.insert(value, names, depth + 1) if rest else value
        return {key: self.insert(item, names, depth + 1) for key, item in value.items()}


def _find_part(root: Any, reference: str) -> Any:
    """Return the part of a file that a JSON pointer names; None without one."""
    if not reference.startswith("#/"):
        return None
    part = root
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and name in part:
            part = part[name]
        elif isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part
