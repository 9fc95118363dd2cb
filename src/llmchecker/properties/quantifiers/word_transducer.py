"""Token transducer of the sum of the weights of a text's words, such as +1 for "he".

    text            words so far    state    score
    " She"          0               she      -1      the word may go on: "Sheila"
    " She said he"  -1              he       0
    " She is here"  -1              a        -1      "here" begins no term, so any such letter
                                                     stands for it

States and effects are short texts, which are read like any others.
"""

import itertools
import re
from collections.abc import Mapping
from functools import lru_cache

from llmchecker.properties.quantifiers.word_lists import normalize_word, split_words

_ACCENTS = range(0x300, 0x370)
# Accents after a letter belong to its word. At the beginning of a piece they may follow a letter.
_CHUNK_PATTERN = re.compile(
    r"\A[\u0300-\u036f]+|[^\W_](?:[^\W_]|[\u0300-\u036f])*|['’]|(?:[\W_](?<!['’]))+"
)


class WordTransducer:
    """Transducer of the sum of the weights of a text's words.

    A word matches a term in upper or lower case. It also matches without its endings after an
    apostrophe, unless the whole word is a term. The state is the partial word at the end of the
    text in normal spelling, with its apostrophe if the last character is one. A word that is and
    becomes no term counts at once, and its state is a letter of no term.

    Args:
        weights: weight of each term, by its normal spelling; all other words have the weight 0.
        counts_start: whether words that begin in the start string count too.
    """

    def __init__(self, weights: Mapping[str, int], counts_start: bool = False) -> None:
        self.weights = weights
        self._counts_start = counts_start
        self._settings = (frozenset(weights.items()), counts_start)
        self._prefixes = {term[:end] for term in weights for end in range(1, len(term) + 1)}
        self._substrings = {text[begin:] for text in self._prefixes for begin in range(len(text))}
        letters = filter(str.isalpha, map(chr, itertools.count(ord("a"))))
        self._other_letter = next(filter(self._is_other, letters))
        self._other_accent = next(filter(self._is_other, map(chr, _ACCENTS)))
        self._minimum = 0 if min(weights.values()) >= 0 else None
        self._weigh = lru_cache(2**12)(self._weigh_word)
        self._read = lru_cache(2**12)(self._read_text)
        # tokens that may follow a text share the words before them
        self._read_beginning = lru_cache(2**12)(self._read_words_before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WordTransducer) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def weigh_text(self, start: str, continuation: str) -> int:
        """Return the score of a text."""
        # no word contains a space
        beginning, space, last_piece = continuation.rpartition(" ")
        state, count = self._read_beginning(start, beginning + space)
        state, gain = self.advance(state, last_piece)
        return count + gain + self.score(state)

    def start(self, start: str) -> tuple[str, int]:
        """Return the state and the count after a start string."""
        if self._counts_start:
            return self.advance("", start)
        # a word of the start string that the continuation completes does not count
        state, _ = self.advance("", start[start.rfind(" ") + 1 :])
        return self._discount(state), 0

    def effect(self, piece: str) -> str:
        """Return a short text that acts on every state as a piece does."""
        return _CHUNK_PATTERN.sub(self._shorten_chunk, piece)

    def advance(self, state: str, effect: str) -> tuple[str, int]:
        """Return the state after an effect, and the weights of the words that it completes."""
        # no word contains a space, so that what follows the first one acts alike on all states
        head, space, tail = effect.partition(" ")
        state, count = self._read_text(state + head)
        if not space:
            return state, count
        next_state, gain = self._read(tail)
        return next_state, count + self._weigh(state) + gain

    def _read_text(self, text: str) -> tuple[str, int]:
        """Return the state after a text, and the weights of the words that it completes."""
        words, state = split_words(text)
        count = sum(map(self._weigh, words))
        state = normalize_word(state)
        if not state or state in self._prefixes:
            return state, count
        return self._discount(state), count + self._weigh(state)

    def score(self, state: str) -> int:
        """Return the weight of the partial word."""
        return self._weigh(state)

    def find_range(self, state: str) -> tuple[int | None, None]:
        """Return 0 and None if no weight is negative; a partial word may become no term."""
        del state
        return self._minimum, None

    def _read_words_before(self, start: str, beginning: str) -> tuple[str, int]:
        state, count = self.start(start)
        # long, and kept by the caller
        state, gain = self._read_text(state + beginning)
        return state, count + gain

    def _discount(self, state: str) -> str:
        """Return the state of a partial word whose weight is counted already."""
        return self._other_letter + "'" * state.endswith("'") if state else ""

    def _is_other(self, character: str) -> bool:
        return character not in self._substrings and normalize_word(character) == character

    def _shorten_chunk(self, match: re.Match[str]) -> str:
        chunk = match[0]
        word = normalize_word(chunk)
        if word == "'":
            return word
        if ord(chunk[0]) in _ACCENTS:
            # not in normal spelling, in which an accent may be a letter
            return chunk if word in self._substrings else self._other_accent
        if not chunk[0].isalnum():
            return " "
        # after a space or the like, only the beginning of a term may become one
        is_beginning = match.start() > 0 and match.string[match.start() - 1] not in "'’"
        texts = self._prefixes if is_beginning else self._substrings
        return word if word in texts else self._other_letter

    def _weigh_word(self, word: str) -> int:
        word = normalize_word(word)
        while word and word not in self.weights:
            # removes one ending at a time, until the rest is a term or empty
            word = word.rpartition("'")[0]
        return self.weights.get(word, 0)
