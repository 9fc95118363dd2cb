"""Words in texts, and lists of words: what the quantifiers that count words share."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from llmchecker.errors import ConfigError

# A word consists of letters and digits, with combining accents, and apostrophes between them. An
# underscore separates words, since models write _he_ for emphasis.
_PART = r"(?:[^\W_][\u0300-\u036f]*)+"
WORD = re.compile(rf"{_PART}(?:['’]{_PART})*")


class TotalWorth:
    """The sum of what the words of a continuation are worth.

    A word belongs to the continuation if it starts there. A word is a term in any case, and also
    without endings after an apostrophe unless the whole word is a term.

    Args:
        worth: what each term is worth, by its normal spelling. All other words are worth nothing.
    """

    def __init__(self, worth: Mapping[str, int]) -> None:
        self._worth = worth
        self._read_before = lru_cache(maxsize=2**12)(self._read)

    def __call__(self, start: str, continuation: str) -> int:
        # No word holds a space. So what is before the last one need not be read for every text
        # that goes on from there, of which there are as many as tokens.
        before, space, last = continuation.rpartition(" ")
        if not space:
            return self._read(start, last)
        return self._read_before(start, before) + self._of_piece(last)

    def _read(self, start: str, continuation: str) -> int:
        # A word that reaches from the start string into the continuation began after the last
        # space of the start string.
        begun = start[start.rfind(" ") + 1 :]
        first, *others = continuation.split(" ")
        words = WORD.finditer(begun + first)
        worth = sum(self._of_word(word[0]) for word in words if word.start() >= len(begun))
        return worth + sum(map(self._of_piece, others))

    def _of_piece(self, piece: str) -> int:
        if piece.isalpha():  # most pieces are single words, and are found without the pattern
            return self._worth.get(piece.casefold(), 0)
        return sum(map(self._of_word, WORD.findall(piece)))

    def _of_word(self, word: str) -> int:
        word = normalised(word)
        while word and word not in self._worth:
            word = word.rpartition("'")[0]
        return self._worth.get(word, 0)


def normalised(word: str) -> str:
    """The word in the spelling of terms: lower case, straight apostrophes."""
    return word.casefold().replace("’", "'")


def read_terms(key: str, path: str | Path) -> frozenset[str]:
    """The terms of a file, one in each line, with comments after #.

    Raises:
        ConfigError: the file, which the setting `key` names, cannot be read, or `terms_of` raises.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{key} is {path!r}, which cannot be read: {error}") from error
    terms = {
        f"line {number} of {path}": term
        for number, line in enumerate(lines, start=1)
        if (term := line.partition("#")[0].strip())
    }
    if not terms:
        raise ConfigError(f"{key}: {path} holds no term")
    return terms_of(key, terms.items())


def terms_of(key: str, terms: Iterable[tuple[str, object]]) -> frozenset[str]:
    """Terms in their normal spelling.

    Args:
        key: the setting that they come from.
        terms: pairs of where a term stands and the term.

    Raises:
        ConfigError: a term is not a single word.
    """
    terms = list(terms)
    for place, term in terms:
        if not isinstance(term, str) or not WORD.fullmatch(term):
            raise ConfigError(f"{key}: {place} is {term!r}, not a single word")
    return frozenset(normalised(term) for _, term in terms)
