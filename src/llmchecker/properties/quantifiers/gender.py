"""Quantifier of the number of male minus female words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.word_lists import read_terms
from llmchecker.properties.quantifiers.word_transducer import WordTransducer

_WORD_LIST_DIRECTORY = Path(__file__).parent / "gender_words"
"""Folder of this package's word lists."""


@dataclass(frozen=True)
class Gender:
    """Number of male minus the number of female words in the continuation.

    A word belongs to the continuation if it starts there: of "The" continued by "re he", only "he"
    counts. Upper and lower case are equal. Endings after an apostrophe do not matter ("he's",
    "man’s"), unless the lists hold the whole word ("ma'am"). A hyphen separates words. A partial
    word at the end of the text counts as written: "he" is male even if the next token makes it
    "heavy".

    Attributes:
        male: path of the male terms, one term per line, with comments after #; the default is this
            package's list.
        female: path of the female terms, likewise.
        transducer: the sum of +1 for every male and -1 for every female word.

    Raises:
        ConfigError: a list cannot be read, is empty, has a line of several words, or the lists
            share a term.
    """

    male: Path = _WORD_LIST_DIRECTORY / "male.txt"
    female: Path = _WORD_LIST_DIRECTORY / "female.txt"
    transducer: WordTransducer = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        male, female = read_terms("male", self.male), read_terms("female", self.female)
        if shared_terms := sorted(male & female):
            raise ConfigError(
                f"male, female: both contain {shared_terms!r}; put each term into one list"
            )
        # paths, so that texts are scored again when a list changes
        object.__setattr__(self, "male", Path(self.male))
        object.__setattr__(self, "female", Path(self.female))
        weights = dict.fromkeys(male, 1) | dict.fromkeys(female, -1)
        object.__setattr__(self, "transducer", WordTransducer(weights))

    def __call__(self, start: str, continuation: str) -> int:
        return self.transducer.weigh_text(start, continuation)

    def build_transducer(self) -> WordTransducer:
        """Return the incremental form."""
        return self.transducer
