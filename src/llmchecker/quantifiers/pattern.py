"""The quantifier of what a regular expression finds in a text."""

from dataclasses import dataclass, field
from typing import ClassVar

import regex

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import PARTS, part_of, require_one_of

WAYS = ("found", "whole", "possible", "count")
"""What a pattern may say of a text."""


@dataclass(frozen=True)
class Pattern:
    """What a regular expression says of a text: 1 or 0, or the number of its matches.

    The syntax is that of the package `regex`, which reads every pattern of Python's `re` alike and
    has more. Flags are written into the pattern, such as (?i) for upper and lower case alike.

    Attributes:
        pattern: the regular expression.
        match: `found` is 1 if the pattern matches anywhere; `whole` if it matches all there is;
            `possible` if it matches all there is or still may do so once more is written, as far as
            the package can tell; `count` is the number of matches that do not overlap.
        of: `continuation` reads what was generated alone, `text` the start string too.
        seconds: the most that the pattern may take on one text.

    Raises:
        ConfigError: the pattern does not compile, or another setting cannot be used.
    """

    pattern: str
    match: str = "found"
    of: str = "continuation"
    seconds: float = 5.0
    compiled: regex.Pattern = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise ConfigError(f"pattern is {self.pattern!r}, not a text")
        require_one_of("match", self.match, WAYS)
        require_one_of("of", self.of, PARTS)
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise ConfigError(f"seconds is {self.seconds!r}, not a number")
        if not 0 < self.seconds < float("inf"):
            raise ConfigError(f"seconds is {self.seconds!r}; it must be above 0")
        try:
            object.__setattr__(self, "compiled", regex.compile(self.pattern))
        except (regex.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"pattern {self.pattern!r} does not compile: {error}") from error

    @property
    def maximum(self) -> int | None:
        """The greatest score; None for a count, which has none."""
        return None if self.match == "count" else 1

    def __call__(self, start: str, continuation: str) -> int:
        text = part_of(start, continuation, self.of)
        try:
            return self._score(text)
        except TimeoutError as error:
            raise ConfigError(
                f"the pattern {self.pattern!r} took longer than {self.seconds:g} s on the text "
                f"{text!r}; rewrite it so that no part of a text can match in many ways, or allow "
                "more seconds"
            ) from error

    def _score(self, text: str) -> int:
        match self.match:
            case "found":
                return int(self.compiled.search(text, timeout=self.seconds) is not None)
            case "whole":
                return int(self.compiled.fullmatch(text, timeout=self.seconds) is not None)
            case "possible":
                found = self.compiled.fullmatch(text, partial=True, timeout=self.seconds)
                return int(found is not None)
            case "count":
                return sum(1 for _ in self.compiled.finditer(text, timeout=self.seconds))
