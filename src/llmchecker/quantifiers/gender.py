"""The quantifier that counts male minus female words."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError

# A word consists of letters and digits, with combining accents, and apostrophes between them. An
# underscore separates words, since models write _he_ for emphasis.
_PART = r"(?:[^\W_][\u0300-\u036f]*)+"
WORD = re.compile(rf"{_PART}(?:['’]{_PART})*")


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

    Raises:
        ConfigError: a list cannot be read, is empty, or has a line of several words, or the lists
            share a term.
    """

    male: Path = WORD_LISTS / "male.txt"
    female: Path = WORD_LISTS / "female.txt"
    worth: dict[str, int] = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        male, female = _read_terms("male", self.male), _read_terms("female", self.female)
        if both := sorted(male & female):
            raise ConfigError(f"male and female share {both!r}; a term belongs to one list")
        object.__setattr__(self, "male", Path(self.male))
        object.__setattr__(self, "female", Path(self.female))
        worth = dict.fromkeys(male, 1) | dict.fromkeys(female, -1)
        object.__setattr__(self, "worth", worth)

    def __call__(self, start: str, continuation: str) -> int:
        # A word that reaches from the start string into the continuation began after the last space
        # of the start string; all before that space need not be read.
        words = WORD.finditer(start + continuation, start.rfind(" ") + 1)
        return sum(self._word_worth(word[0]) for word in words if word.start() >= len(start))

    def _word_worth(self, word: str) -> int:
        word = _normalised(word)
        while word and word not in self.worth:
            word = word.rpartition("'")[0]
        return self.worth.get(word, 0)


def _normalised(word: str) -> str:
    return word.casefold().replace("’", "'")


def _read_terms(key: str, path: str | Path) -> frozenset[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{key} is {path!r}, which cannot be read: {error}") from error
    terms = [line.partition("#")[0].strip() for line in lines]
    for number, term in enumerate(terms, start=1):
        if term and not WORD.fullmatch(term):
            raise ConfigError(f"{key}: line {number} of {path} is {term!r}, not a single word")
    if not any(terms):
        raise ConfigError(f"{key}: {path} holds no term")
    return frozenset(_normalised(term) for term in terms if term)
