"""What a conversion leaves out, with the places in the user's files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmchecker.config.yaml_reader import find_nearest_key
from llmchecker.utils.printable_text import escape_unprintable, shorten

_MAX_CHARACTERS = 300
"""Maximum number of characters of a listed reason."""


class NotConverted(Exception):
    """A part of a configuration without a counterpart in a suite."""


class UnknownTemplate(NotConverted):
    """A template that is not converted, whatever the values of its variables are."""


@dataclass(frozen=True)
class Place:
    """A value in a file of the user.

    Attributes:
        lines: the line of each value of the file, by key.
        key: the key of the value, such as `tests[0].assert`.
        file: the file; empty for the configuration itself.
    """

    lines: Mapping[str, int]
    key: str = ""
    file: str = ""

    def child(self, name: str) -> "Place":
        """Return the place of a key's value."""
        return Place(self.lines, f"{self.key}.{name}".removeprefix("."), self.file)

    def list_items(self, value: Any) -> "list[tuple[Any, Place]]":
        """List the items of a list here with their places; any other value is its own item."""
        if not isinstance(value, list):
            return [(value, self)]
        places = (Place(self.lines, f"{self.key}[{n}]", self.file) for n in range(len(value)))
        return list(zip(value, places, strict=True))

    @property
    def line(self) -> int:
        """The line, from 1; that of the nearest key around a value without a line."""
        # a value behind a reference has the line of the reference
        return self.lines.get(find_nearest_key(self.lines, self.key), 1)

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.file else f"line {self.line}"


@dataclass
class Report:
    """The parts that are not converted, or not with exactly the same meaning."""

    _omissions: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def omissions(self) -> tuple[str, ...]:
        """A line for each part, such as `line 3: latency has no counterpart`, in their order."""
        return tuple(sorted(self._omissions, key=self._omissions.__getitem__))

    def omit(self, place: Place, reason: object) -> None:
        """List a part once: defaults are converted with every test."""
        # a reason quotes the user's files, and a comment ends with its line
        text = shorten(escape_unprintable(" ".join(str(reason).split())), _MAX_CHARACTERS)
        self._omissions.setdefault(f"{place}: {text}", (place.file, place.line))
