"""Quantifier of the number of listed words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of
from llmchecker.properties.quantifiers.word_lists import parse_terms, read_terms
from llmchecker.properties.quantifiers.word_transducer import WordTransducer
from llmchecker.utils.printable_text import quote_value


@dataclass(frozen=True)
class Words:
    """Number of words of a text that are in a list.

    Words are those of `Gender`: a word belongs to the continuation if it starts there. Upper and
    lower case are equal. Endings after an apostrophe do not matter unless the list contains the
    whole word. A partial word at the end of the text counts as written.

    Attributes:
        words: the list itself; empty if it is in a file.
        file: path of the list, one word per line, with comments after #.
        of: `continuation` counts the generated text alone, `text` the start string too.
        transducer: the count of the words.

    Raises:
        ConfigError: not exactly one of `words` and `file` is given. The file cannot be read, is not
            UTF-8 or has no word, or an entry is not a single word.
    """

    words: Sequence[str] = ()
    file: Path | None = None
    of: str = "continuation"
    transducer: WordTransducer = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        if not isinstance(self.words, list | tuple):
            raise ConfigError(f"words: {quote_value(self.words)} is not a list of words")
        if bool(self.words) == (self.file is not None):
            raise ConfigError("words, file: not exactly one is set; give a list of words or a file")
        if self.file is None:
            positions = (f"word {number}" for number in range(1, len(self.words) + 1))
            terms = parse_terms("words", zip(positions, self.words, strict=True))
        else:
            terms = read_terms("file", self.file)
            object.__setattr__(self, "file", Path(self.file))
        object.__setattr__(self, "words", tuple(self.words))
        transducer = WordTransducer(dict.fromkeys(terms, 1), counts_start=self.of == "text")
        object.__setattr__(self, "transducer", transducer)

    def __call__(self, start: str, continuation: str) -> int:
        return self.transducer.weigh_text(start, continuation)

    def build_transducer(self) -> WordTransducer:
        """Return the incremental form."""
        return self.transducer
