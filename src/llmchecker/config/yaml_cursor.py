"""A position in a YAML text, with what is there."""

import re
from bisect import bisect_right
from typing import NoReturn

from llmchecker.config.yaml_nodes import YamlError

_CHARACTER = re.compile(r"[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no YAML text contains, such as a control character or half a character."""
_BREAK = re.compile(r"\r\n?")
_SPACES = re.compile(r"[ \t]*")
_INDENT = re.compile(r" *")
_MARKER = re.compile(r"(?:---|\.\.\.)(?![^ \t\n])")
"""A mark of the beginning or the end of a document, at the beginning of a line."""


class YamlCursor:
    """A position in a text whose lines end with line feeds.

    Raises:
        YamlError: the text has a character that no YAML text contains.
    """

    def __init__(self, text: str) -> None:
        self._text = _BREAK.sub("\n", text.removeprefix("\ufeff"))
        self._position = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", self._text))]
        if match := _CHARACTER.search(self._text):
            self._raise_error(
                f"U+{ord(match[0]):04X} is not a YAML character; remove it", match.start()
            )

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _is_indicator(self, characters: str) -> bool:
        """Return whether one of these characters is at the position, before a space."""
        following = self._text[self._position + 1 : self._position + 2]
        character = self._peek()
        return character != "" and character in characters and following in ("", " ", "\t", "\n")

    def _is_flow_indicator(self, character: str) -> bool:
        """Return the same between brackets."""
        following = self._text[self._position + 1 : self._position + 2]
        return self._peek() == character and (following == "" or following in " \t\n,[]{}")

    @property
    def _is_at_end(self) -> bool:
        return self._position >= len(self._text)

    @property
    def _is_at_line_end(self) -> bool:
        """Whether the line has nothing but a comment."""
        return self._is_at_end or self._peek() in ("\n", "#")

    @property
    def _is_at_marker(self) -> bool:
        return self._find_marker(self._position) != ""

    def _find_marker(self, position: int) -> str:
        """Return the mark `---` or `...` of a document at a position; empty without one."""
        is_line_start = position == 0 or self._text[position - 1] == "\n"
        match = _MARKER.match(self._text, position) if is_line_start else None
        return "" if match is None else match[0]

    @property
    def _line(self) -> int:
        return bisect_right(self._line_starts, self._position)

    @property
    def _column(self) -> int:
        return self._position - self._line_starts[self._line - 1]

    @property
    def _indent(self) -> int:
        """The number of spaces at the beginning of the line."""
        return self._count_spaces(self._line_starts[self._line - 1])

    def _count_spaces(self, position: int) -> int:
        match = _INDENT.match(self._text, position)
        assert match is not None
        return len(match[0])

    def _find_line_end(self) -> int:
        end = self._text.find("\n", self._position)
        return len(self._text) if end < 0 else end

    def _skip_spaces(self) -> str:
        match = _SPACES.match(self._text, self._position)
        assert match is not None
        self._position = match.end()
        return match[0]

    def _skip_lines(self) -> None:
        """Move to the next content, after spaces, comments and ends of lines."""
        while True:
            self._skip_spaces()
            if self._peek() == "#":
                self._position = self._find_line_end()
            if self._peek() != "\n":
                return
            self._position += 1

    def _raise_error(self, problem: str, position: int | None = None) -> NoReturn:
        """Raise an error at a position, by default the current one."""
        place = self._position if position is None else position
        raise YamlError(bisect_right(self._line_starts, place), problem)
