"""The quantifier that counts male minus female words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.terms import TotalWorth, read_terms

WORD_LISTS = Path(__file__).parent / "word_lists"
"""The folder of the lists that come with this package."""


@dataclass(frozen=True)
class Gender:
    """The number of male minus the number of female words in the continuation.

    A word belongs to the continuation if it starts there: of "The" continued by "re he", only "he"
    counts. Upper and lower case are equal. Endings after an apostrophe do not matter ("he's",
    "man’s"), unless the lists hold the whole word ("ma'am"). A hyphen separates words. Half a word
    at the end of the text counts as it reads: "he" is male even if the next token makes it "heavy".

    Attributes:
        male: the path of the male terms, one in each line, with comments after #; by default the
            list that comes with this package.
        female: the path of the female terms, likewise.
        worth: +1 for every male term, -1 for every female one.
        total: the sum of these over the words of a text.

    Raises:
        ConfigError: a list cannot be read, is empty, or has a line of several words, or the lists
            share a term.
    """

    male: Path = WORD_LISTS / "male.txt"
    female: Path = WORD_LISTS / "female.txt"
    worth: dict[str, int] = field(init=False, repr=False, compare=False)
    total: TotalWorth = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        male, female = read_terms("male", self.male), read_terms("female", self.female)
        if both := sorted(male & female):
            raise ConfigError(f"male and female share {both!r}; a term belongs to one list")
        object.__setattr__(self, "male", Path(self.male))
        object.__setattr__(self, "female", Path(self.female))
        worth = dict.fromkeys(male, 1) | dict.fromkeys(female, -1)
        object.__setattr__(self, "worth", worth)
        object.__setattr__(self, "total", TotalWorth(worth))

    def __call__(self, start: str, continuation: str) -> int:
        return self.total(start, continuation)
