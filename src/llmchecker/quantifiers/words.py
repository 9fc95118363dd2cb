"""The quantifier that counts the words of a list."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import PARTS, require_one_of
from llmchecker.quantifiers.terms import TotalWorth, read_terms, terms_of


@dataclass(frozen=True)
class Words:
    """The number of words in a text that a list holds.

    A word is read as by `Gender`: it belongs to the continuation if it starts there, upper and
    lower case are equal, endings after an apostrophe do not matter unless the list holds the whole
    word, and half a word at the end of the text counts as it reads.

    Attributes:
        words: the list itself; empty if it stands in a file.
        file: the path of the list, one word in each line, with comments after #.
        of: `continuation` counts what was generated alone, `text` the start string too.
        total: counts the words.

    Raises:
        ConfigError: there is not exactly one of `words` and `file`, the file cannot be read, is not
            UTF-8 or holds no word, or an entry is not a single word.
    """

    words: Sequence[str] = ()
    file: Path | None = None
    of: str = "continuation"
    total: TotalWorth = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        require_one_of("of", self.of, PARTS)
        if not isinstance(self.words, list | tuple):
            raise ConfigError(f"words is {self.words!r}, not a list of words")
        if bool(self.words) == (self.file is not None):
            raise ConfigError("there must be words, a list that is not empty, or a file; not both")
        if self.file is None:
            places = (f"word {number}" for number in range(1, len(self.words) + 1))
            terms = terms_of("words", zip(places, self.words, strict=True))
        else:
            terms = read_terms("file", self.file)
            object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "total", TotalWorth(dict.fromkeys(terms, 1)))

    def __call__(self, start: str, continuation: str) -> int:
        if self.of == "text":
            start, continuation = "", start + continuation
        return self.total(start, continuation)
