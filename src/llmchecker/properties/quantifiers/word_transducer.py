"""Token transducer of the quantifiers that sum the weights of words."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llmchecker.properties.quantifiers.word_lists import WordWeigher, normalize_word

_OUTSIDE = ""
"""State outside a word."""

_DEAD = "\0"
"""State within a word that is and becomes no term, and the text of such a word in effects."""

_APOSTROPHE, _WORD, _ACCENTS, _SEPARATOR = range(4)
"""Kinds of chunks of a piece."""

# A combining accent extends a word, but does not begin one: only at the beginning of a piece can
# accents belong to a word of which the piece has no other part.
_CHUNK_PATTERN = re.compile(
    r"(?P<accents>\A[\u0300-\u036f]+)|(?P<apostrophe>['’])"
    r"|(?P<word>[^\W_](?:[^\W_]|[\u0300-\u036f])*)|(?P<separator>(?:[\W_](?<!['’]))+)"
)
_KINDS = {
    "accents": _ACCENTS,
    "apostrophe": _APOSTROPHE,
    "word": _WORD,
    "separator": _SEPARATOR,
}

_Chunk = tuple[int, str]
"""Kind of consecutive characters, and their normal spelling if they may belong to a word."""

_END = (_SEPARATOR, "")
_DEAD_WORD = (_WORD, _DEAD)


class WordEffect(NamedTuple):
    """Effect of a piece on every state.

    Attributes:
        head: the chunks whose effect depends on the state.
        state: the state after all chunks; None if it depends on the state before.
        gain: the weights of the complete words after the head.
    """

    head: tuple[_Chunk, ...]
    state: str | None
    gain: int


_DEAD_EFFECT = WordEffect((_DEAD_WORD,), _DEAD, 0)
_SPACED_DEAD_EFFECT = WordEffect((_END,), _DEAD, 0)


class WordTransducer:
    """Incremental form of `WordWeigher`.

    The state is the partial word at the end in normal spelling, with its apostrophe if the last
    character is one. A partial word that begins no term is "dead": its weight is final and part of
    the count. A word that began in the start string is dead from its beginning.

    Args:
        weigher: the plain function.
        counts_start: whether words of the start string count too.
    """

    def __init__(self, weigher: WordWeigher, counts_start: bool = False) -> None:
        self._weigh = weigher.weigh_word
        self._counts_start = counts_start
        terms = weigher.weights
        self._settings = (frozenset(terms.items()), counts_start)
        self._prefixes = {term[:end] for term in terms for end in range(1, len(term) + 1)}
        self._suffixes = {term[begin:] for term in terms for begin in range(len(term))}
        self._substrings = {text[b:] for text in self._prefixes for b in range(len(text))}
        self._minimum = 0 if min(terms.values()) >= 0 else None
        self._transitions: dict[tuple[str, tuple[_Chunk, ...]], tuple[str, int]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WordTransducer) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def start(self, start: str) -> tuple[str, int]:
        """Return the state and the count after a start string."""
        state, count = self._read(_OUTSIDE, self._split(start))
        if self._counts_start:
            return state, count
        if state != _OUTSIDE:
            state = _DEAD + "'" * state.endswith("'")
        return state, 0

    def effect(self, piece: str) -> WordEffect:
        """Return the effect of a piece, equal for pieces that differ in irrelevant words only."""
        # most pieces are a word of no term, which need no pattern
        word = piece.removeprefix(" ")
        if word.isalpha() and normalize_word(word) not in self._substrings:
            return _DEAD_EFFECT if word == piece else _SPACED_DEAD_EFFECT
        chunks = list(self._split(piece))
        for position, chunk in enumerate(chunks):
            # the state after these chunks is the same for all states before
            if chunk in (_END, _DEAD_WORD):
                head, rest = chunks[:position], chunks[position + 1 :]
                state, gain = self._read(_OUTSIDE if chunk == _END else _DEAD, rest)
                return WordEffect(self._canonicalize_head(head, chunk), state, gain)
        return WordEffect(tuple(chunks), None, 0)

    def advance(self, state: str, effect: WordEffect) -> tuple[str, int]:
        """Return the state after an effect, and the weights of the words that it completes."""
        head, final_state, gain = effect
        key = (state, head)
        if (transition := self._transitions.get(key)) is None:
            transition = self._transitions[key] = self._read(state, head)
        if final_state is None:
            return transition
        return final_state, transition[1] + gain

    def score(self, state: str) -> int:
        """Return the weight of the partial word."""
        return self._weigh(state)

    def find_range(self, state: str) -> tuple[int | None, None]:
        """Return 0 and None if no weight is negative; a partial word may become no term."""
        del state
        return self._minimum, None

    def _split(self, text: str) -> Iterator[_Chunk]:
        """Split a text into chunks; words and accents that are in no term become `_DEAD`."""
        for match in _CHUNK_PATTERN.finditer(text):
            kind = _KINDS[match.lastgroup or ""]
            if kind in (_WORD, _ACCENTS):
                word = normalize_word(match[0])
                yield kind, word if word in self._substrings else _DEAD
            else:
                yield kind, ""

    def _canonicalize_head(self, head: list[_Chunk], last: _Chunk) -> tuple[_Chunk, ...]:
        """Return the shortest head with the same gains, whose last chunk fixes the state."""
        # an apostrophe completes a term before it, whether or not a word follows
        if head and head[-1][0] == _APOSTROPHE:
            head, last = head[:-1], _END
        # a word that ends no term has the weight of a dead one
        if last == _END and head and head[-1][0] == _WORD and head[-1][1] not in self._suffixes:
            head, last = head[:-1], _DEAD_WORD
        return (*head, last)

    def _read(self, state: str, chunks: Iterable[_Chunk]) -> tuple[str, int]:
        count = 0
        for kind, text in chunks:
            state, gain = self._read_chunk(state, kind, text)
            count += gain
        return state, count

    def _read_chunk(self, state: str, kind: int, text: str) -> tuple[str, int]:
        follows_apostrophe = state.endswith("'")
        if (
            kind == _SEPARATOR
            # accents do not begin a word, or the part of a word after an apostrophe
            or (kind == _ACCENTS and (state == _OUTSIDE or follows_apostrophe))
            or (kind == _APOSTROPHE and (state == _OUTSIDE or follows_apostrophe))
        ):
            return _OUTSIDE, self._weigh(state)
        word = state + ("'" if kind == _APOSTROPHE else text)
        if word in self._prefixes:
            return word, 0
        # the weight of a dead word is that of its parts before an apostrophe
        gain = self._weigh(word.rpartition("'")[0])
        return (_DEAD + "'" if kind == _APOSTROPHE else _DEAD), gain
