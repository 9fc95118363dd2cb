"""Tests of promptfoo: in the configuration, in files, and of scenarios."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.utils.printable_text import quote_value
from llmchecker_promptfoo.assertions import parse_expected
from llmchecker_promptfoo.documents import (
    FILE_SCHEME,
    find_files,
    read_csv_records,
    read_document,
    read_text,
)
from llmchecker_promptfoo.report import NotConverted, Place, Report
from llmchecker_promptfoo.variables import merge_variables

_DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")
_PROGRAM = re.compile(r"\.(py|[cm]?[jt]s)(:\w+)?$")
_CONFIG_COLUMN = re.compile(r"__config:__expected(\d*):threshold")


@dataclass(frozen=True)
class Part:
    """Keys of a test, as a file has them.

    Attributes:
        keys: the keys with their values.
        place: their place.
        folder: folder to which the files of its variables are relative.
    """

    keys: Mapping[str, Any]
    place: Place
    folder: Path

    def get(self, name: str) -> tuple[Any, Place]:
        """Return the value of a key, None without one, and its place."""
        return self.keys.get(name), self.place.child(name)


@dataclass(frozen=True)
class Test:
    """A test with all that it inherits.

    Attributes:
        name: its description.
        place: its place.
        parts: the default test, the data of a scenario, and the test itself, in this order.
        has_scenario: whether the part before the last is the data of a scenario.
    """

    name: str
    place: Place
    parts: tuple[Part, ...]
    has_scenario: bool = False

    @property
    def options(self) -> dict[str, tuple[Any, Place]]:
        """The options with their places; the data of a scenario have none."""
        merged: dict[str, tuple[Any, Place]] = {}
        for number, part in enumerate(self.parts):
            options, place = part.get("options")
            if isinstance(options, Mapping) and not (self.has_scenario and number == 1):
                merged |= {
                    name: (value, place.child(name))
                    for name, value in options.items()
                    # an empty prefix or suffix leaves that of the default test
                    if value or name not in ("prefix", "suffix")
                }
        return merged

    @property
    def assertions(self) -> list[tuple[Any, Place]]:
        """The assertions with their places, those of the default test first."""
        option, _ = self.options.get("disableDefaultAsserts", (False, self.place))
        parts = self.parts[1:] if option is True else self.parts
        found: list[tuple[Any, Place]] = []
        for part in parts:
            entries, place = part.get("assert")
            if entries is not None:
                found += place.list_items(entries)
        return found

    def find(self, name: str) -> tuple[Any, Place]:
        """Return the last value of a key that is not null, and its place."""
        for part in reversed(self.parts):
            value, place = part.get(name)
            if value is not None:
                return value, place
        return None, self.place

    def merge_variables(self) -> dict[str, Any]:
        """Merge the variables; later parts override earlier ones.

        Raises:
            NotConverted: the variables are in an unreadable file.
        """
        merged: dict[str, Any] = {}
        for part in self.parts:
            merged |= merge_variables(part.keys.get("vars"), part.folder)
        return merged


class TestReader:
    """A reader of the tests of a configuration.

    Args:
        content: the keys of the configuration.
        place: its place.
        folder: its folder.
        report: the list of what is not converted.
    """

    def __init__(
        self, content: Mapping[str, Any], place: Place, folder: Path, report: Report
    ) -> None:
        self._content = content
        self._place = place
        self._folder = folder
        self._report = report
        self._default = self._read_default()

    def read(self) -> Iterator[Test]:
        """Yield the tests, then those of scenarios."""
        tests = self._content.get("tests")
        scenarios = self._content.get("scenarios")
        # without tests, promptfoo runs the prompts with the default test
        if not tests and not scenarios:
            yield Test("test 1", self._default.place, (self._default,))
        place = self._place.child("tests")
        for number, part in enumerate(self._iter_parts(tests, place), 1):
            yield Test(_find_name(part, f"test {number}"), part.place, (self._default, part))
        if scenarios:
            yield from self._iter_scenarios(scenarios, self._place.child("scenarios"))

    def _read_default(self) -> Part:
        value, place = self._content.get("defaultTest"), self._place.child("defaultTest")
        folder = self._folder
        if isinstance(value, str):
            try:
                value, place = self._read_document(value.removeprefix(FILE_SCHEME))
            except NotConverted as error:
                self._report.omit(place, error)
                value = None
        if value is not None and not isinstance(value, Mapping):
            self._report.omit(place, "the default test has no keys")
            value = None
        return Part(value or {}, place, folder)

    def _read_document(self, name: str) -> tuple[Any, Place]:
        path = self._folder / name
        if path.suffix not in _DOCUMENT_SUFFIXES:
            raise NotConverted(f"{name} is no YAML or JSON; write its tests into the file")
        try:
            return read_document(path, name)
        except ConfigError as error:
            raise NotConverted(error) from error

    def _iter_parts(self, value: Any, place: Place) -> Iterator[Part]:
        """Yield the tests of a list, file or pattern of files."""
        if isinstance(value, Mapping) and "path" not in value:
            value = [value]
        for entry, entry_place in place.list_items(value):
            if isinstance(entry, Mapping) and isinstance(entry.get("path"), str):
                entry = entry["path"]
            if isinstance(entry, Mapping):
                yield Part(entry, entry_place, self._folder)
            elif isinstance(entry, str):
                try:
                    yield from self._iter_file_parts(entry, entry_place)
                except NotConverted as error:
                    self._report.omit(entry_place, error)
            elif entry is not None:
                self._report.omit(entry_place, f"the test {quote_value(entry)} has no keys")

    def _iter_file_parts(self, reference: str, place: Place) -> Iterator[Part]:
        pattern = reference.removeprefix(FILE_SCHEME)
        if re.match(r"[a-z]+://", pattern):
            raise NotConverted(f"{reference}: tests of a service are not read; save them in a file")
        if _PROGRAM.search(pattern):
            raise NotConverted(f"{reference}: tests of a program are not read; save them in a file")
        names = self._find_test_files(pattern, place)
        if not names:
            raise NotConverted(f"{reference}: there is no such file")
        for name in names:
            yield from self._iter_parts_of(name)

    def _find_test_files(self, pattern: str, place: Place) -> list[str]:
        """Find the files of a name, a pattern or a folder, which has tests in YAML."""
        if not (self._folder / pattern).is_dir():
            return find_files(pattern, self._folder)
        found = find_files(f"{pattern.rstrip('/')}/*", self._folder)
        names = [name for name in found if name.lower().endswith((".yaml", ".yml"))]
        if not names:
            raise NotConverted(f"{pattern}: the folder has no YAML files; name a file")
        for name in found:
            if name not in names:
                self._report.omit(place, f"{name}: of a folder, YAML files are read; name the file")
        return names

    def _iter_parts_of(self, name: str) -> Iterator[Part]:
        path = self._folder / name
        suffix = path.suffix.lower()
        if suffix == ".csv":
            yield from self._iter_rows(path, name)
        elif suffix == ".jsonl":
            for number, line in enumerate(read_text(path).split("\n"), 1):
                line_place = Place({"": number}, "", name)
                if not line.strip():
                    continue
                try:
                    keys = json.loads(line)
                except (ValueError, RecursionError):
                    keys = None
                if isinstance(keys, Mapping):
                    yield Part(keys, line_place, path.parent)
                else:
                    self._report.omit(line_place, "the line is no JSON object")
        elif suffix in _DOCUMENT_SUFFIXES:
            content, file_place = self._read_document(name)
            for keys, test_place in file_place.list_items(content):
                if isinstance(keys, Mapping):
                    yield Part(keys, test_place, path.parent)
                else:
                    self._report.omit(test_place, f"the test {quote_value(keys)} has no keys")
        else:
            raise NotConverted(f"{name}: tests in files of this kind are not read; use CSV or YAML")

    def _iter_rows(self, path: Path, name: str) -> Iterator[Part]:
        for number, row in enumerate(read_csv_records(path), 1):
            place = Place({"": row.line}, "", name)
            if number == 1 and row.cells is not None:
                for reason in _find_misnamed_columns(row.cells):
                    self._report.omit(Place({"": 1}, "", name), reason)
            if row.cells is None:
                self._report.omit(place, "the row has another number of cells than the header")
            else:
                yield Part(_parse_row(row.cells, number), place, path.parent)

    def _iter_scenarios(self, value: Any, place: Place) -> Iterator[Test]:
        for part in self._iter_parts(value, place):
            configurations, config_place = part.get("config")
            tests, tests_place = part.get("tests")
            data_parts = list(self._iter_parts(configurations, config_place))
            test_parts = list(self._iter_parts(tests, tests_place)) or [
                Part({}, part.place, part.folder)
            ]
            scenario = str(part.keys.get("description") or "scenario")
            for data in data_parts:
                for test in test_parts:
                    yield Test(
                        _find_name(test, _find_name(data, scenario)),
                        test.place,
                        (self._default, data, test),
                        has_scenario=True,
                    )


def _find_name(part: Part, default: str) -> str:
    description = part.keys.get("description")
    return description if isinstance(description, str) and description.strip() else default


def _find_misnamed_columns(columns: Iterable[str]) -> Iterator[str]:
    """Yield the reasons why columns are variables, and were probably meant as assertions."""
    for column in columns:
        if re.match(r"_(expected|prefix|suffix|description|threshold)", column):
            yield f"the column {column} is a variable; write _{column}"
        elif not column.startswith("__") and "__expected" in column:
            yield f"the columns {column} are one; separate columns by commas"


def _parse_row(cells: Mapping[str, str], number: int) -> dict[str, Any]:
    """Return the keys of a test in a row: columns with `__` are not variables."""
    keys: dict[str, Any] = {"description": f"row {number}"}
    variables: dict[str, Any] = {}
    assertions: list[dict[str, Any]] = []
    options: dict[str, Any] = {}
    thresholds: dict[int, float] = {}
    for name, cell in cells.items():
        config = _CONFIG_COLUMN.fullmatch(name)
        if name.startswith("__expected"):
            if cell.strip():
                assertions.append(parse_expected(cell.strip()))
        elif name in ("__prefix", "__suffix"):
            options[name.removeprefix("__")] = cell
        elif name == "__description":
            keys["description"] = cell.strip() or keys["description"]
        elif name == "__threshold":
            keys |= _parse_threshold(cell)
        elif config:
            number_of_assertion = int(config[1] or 1) - 1
            if parsed_threshold := _parse_threshold(cell):
                thresholds[number_of_assertion] = parsed_threshold["threshold"]
        elif name == "__providerOutput":
            keys |= {"providerOutput": cell} if cell else {}
        # a metric names the scores, and metadata select tests
        elif name not in ("__metric", "__metadata") and not name.startswith("__metadata:"):
            variables[name] = cell
    for index, threshold in thresholds.items():
        if index < len(assertions):
            assertions[index]["threshold"] = threshold
    return keys | {"vars": variables, "assert": assertions, "options": options}


def _parse_threshold(cell: str) -> dict[str, float]:
    """Return a threshold as JavaScript parses it; 0 and other texts are none."""
    match = re.match(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", cell)
    number = float(match[0]) if match else 0.0
    return {"threshold": number} if number and math.isfinite(number) else {}
