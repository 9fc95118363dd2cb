"""Word patterns and word lists, shared by the quantifiers that count words."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from llmchecker.errors import ConfigError

# A word consists of letters and digits, with combining accents, and apostrophes between them. An
# underscore separates words, since models write _he_ for emphasis.
_WORD_PART = r"(?:[^\W_][\u0300-\u036f]*)+"
WORD_PATTERN = re.compile(rf"{_WORD_PART}(?:['’]{_WORD_PART})*")


class WordWeigher:
    """Function that sums the weights of a continuation's words.

    A word belongs to the continuation if it starts there. A word matches a term in upper or lower
    case. It also matches without its endings after an apostrophe, unless the whole word is a term.

    Args:
        weights: weight of each term, by its normal spelling; all other words have the weight 0.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.weights = weights
        self._weigh_text_with_cache = lru_cache(maxsize=2**12)(self._weigh_text)

    def __call__(self, start: str, continuation: str) -> int:
        # No word contains a space, so the text before the last space is scored once and cached.
        # It is the same for all tokens that may follow a text.
        prefix, space, last_piece = continuation.rpartition(" ")
        if not space:
            return self._weigh_text(start, last_piece)
        return self._weigh_text_with_cache(start, prefix) + self._weigh_piece(last_piece)

    def _weigh_text(self, start: str, continuation: str) -> int:
        # A word that spans the start string and the continuation began after the last space of the
        # start string. It does not count, because it starts before the continuation.
        partial_word = start[start.rfind(" ") + 1 :]
        first_piece, *pieces = continuation.split(" ")
        words = WORD_PATTERN.finditer(partial_word + first_piece)
        weight = sum(
            self._weigh_word(word[0]) for word in words if word.start() >= len(partial_word)
        )
        return weight + sum(map(self._weigh_piece, pieces))

    def _weigh_piece(self, piece: str) -> int:
        if piece.isalpha():  # most pieces are single words, which need no pattern
            return self.weights.get(piece.casefold(), 0)
        return sum(map(self._weigh_word, WORD_PATTERN.findall(piece)))

    def _weigh_word(self, word: str) -> int:
        return self.weigh_word(normalize_word(word))

    def weigh_word(self, word: str) -> int:
        """Return the weight of a word in normal spelling."""
        while word and word not in self.weights:
            # removes one ending at a time, until the rest is a term or empty
            word = word.rpartition("'")[0]
        return self.weights.get(word, 0)


def normalize_word(word: str) -> str:
    """Return the word in the spelling of terms: lower case, straight apostrophes."""
    return word.casefold().replace("’", "'")


def read_terms(key: str, path: str | Path) -> frozenset[str]:
    """Read the terms of a file, one term per line, with comments after #.

    Args:
        key: str, name of the setting for messages.
        path: path of the file.

    Raises:
        ConfigError: the file cannot be read, or as in `parse_terms`.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {path!r} cannot be read: {error}") from error
    terms = {
        f"line {number} of {path}": term
        for number, line in enumerate(lines, start=1)
        if (term := line.partition("#")[0].strip())
    }
    if not terms:
        raise ConfigError(f"{key}: {path} has no terms; add one")
    return parse_terms(key, terms.items())


def parse_terms(key: str, terms: Iterable[tuple[str, object]]) -> frozenset[str]:
    """Return terms in their normal spelling.

    Args:
        key: str, name of the setting for messages.
        terms: pairs of the term's place, for messages, and the term.

    Raises:
        ConfigError: a term is not a single word.
    """
    words = set()
    for position, term in terms:
        if not isinstance(term, str) or not WORD_PATTERN.fullmatch(term):
            raise ConfigError(f"{key}: {position} is {term!r}, not a single word")
        words.add(normalize_word(term))
    return frozenset(words)
