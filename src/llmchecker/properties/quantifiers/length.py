"""Quantifier of a text's length."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import regex

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.properties.quantifiers.word_breaks import WORD
from llmchecker.properties.transducers.automaton import AutomatonTransducer
from llmchecker.properties.transducers.pattern_automaton import (
    ConjunctionTransducer,
    build_automaton,
)
from llmchecker.properties.transducers.patterns import parse_pattern

_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")
# a sentence ends at a mark before white space, and at a wide mark, which no space follows
_MARKS, _WIDE_MARKS = ".!?…؟।", "。！？｡"
_CLOSERS = "\"'”’)]」』）"
_CLOSER_RUN = rf"[{re.escape(_CLOSERS)}]*+"
# a run of marks is read once, so that matching is linear in the text
_SENTENCE_PATTERN = re.compile(
    rf"\w(?:[^{_MARKS}{_WIDE_MARKS}]++|[{_MARKS}]++{_CLOSER_RUN}(?!\s|\Z|[{_WIDE_MARKS}]))*+"
    rf"(?:[{_MARKS}{_WIDE_MARKS}]++{_CLOSER_RUN})?+"
)
_WORD_PATTERN = regex.compile(WORD)

_Effect = tuple[tuple[int, int], ...]
"""The next state and the gain for each state."""


@dataclass(frozen=True)
class Length:
    """Number of characters, words or sentences of a text.

    Characters are Unicode code points, so that an emoji may be several. Words are those of Unicode
    (UAX 29): "3.14" and "don't" are one each, and so is each character of Chinese. A sentence
    contains a letter or digit. It ends at `.`, `!`, `?`, `…`, `؟` or `।` before white space, at
    `。`, `！`, `？` or `｡`, or at the end of the text. So a partial word counts as a word, a
    partial sentence as a sentence, and "Dr. Who" as two sentences.

    Tokens are not a unit: in every query `step` is the number of tokens of the continuation.

    An automaton counts words. For the other units it is its own transducer. The state is the class
    of a text's end: what a piece adds to the length depends only on the class of the text before
    it.

    Attributes:
        unit: `characters`, `words` or `sentences`.
        of: `continuation` counts the generated text alone, `text` the start string too.

    Raises:
        ConfigError: a setting has another value.
    """

    unit: str = "words"
    of: str = "continuation"

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        # queries have `step` for tokens, so the message refers to it
        if self.unit == "tokens":
            raise ConfigError(
                "unit: 'tokens' is unknown; use `step` in the query, the number of generated tokens"
            )
        check_one_of("unit", self.unit, tuple(_EXAMPLES))
        check_one_of("of", self.of, TEXT_PARTS)

    def __call__(self, start: str, continuation: str) -> int:
        return _read(self.unit, select_part(start, continuation, self.of))[1]

    def build_transducer(self) -> "Length | AutomatonTransducer | ConjunctionTransducer":
        """Return the incremental form."""
        return _build_word_counter(self.of == "text") if self.unit == "words" else self

    def start(self, start: str) -> tuple[int, int]:
        """Return the state and the count after a start string."""
        return _read(self.unit, select_part(start, "", self.of))

    def effect(self, piece: str) -> _Effect:
        """Return the next state and the gain for each state."""
        # letters and digits end no sentence, so one stands for several
        short = piece if self.unit == "characters" else _LETTERS_AND_DIGITS.sub("a", piece)
        return _find_effect(self.unit, short)

    def advance(self, state: int, effect: _Effect) -> tuple[int, int]:
        """Return the next state and the gain for this state."""
        return effect[state]

    def score(self, state: int) -> int:
        """Return 0, since the count is the whole score."""
        del state
        return 0

    def find_range(self, state: int) -> tuple[int, None]:
        """Return 0 and None: a longer text has no smaller count."""
        del state
        return 0, None


@lru_cache
def _build_word_counter(reads_start: bool) -> AutomatonTransducer | ConjunctionTransducer:
    return build_automaton(parse_pattern(WORD), "count", reads_start, empty_score=0)


@lru_cache(2**12)
def _find_effect(unit: str, piece: str) -> _Effect:
    read = [(example, _read(unit, example + piece)) for example in _EXAMPLES[unit]]
    return tuple((state, count - bool(example)) for example, (state, count) in read)


def _read(unit: str, text: str) -> tuple[int, int]:
    """Return the class of a text's end and the length of the text."""
    match unit:
        case "characters":
            return 0, len(text)
        case "words":
            # the automaton of words has its own states
            return 0, sum(1 for _ in _WORD_PATTERN.finditer(text))
        # the other unit, `sentences`
        case _:
            ends = [match.end() for match in _SENTENCE_PATTERN.finditer(text)]
            body = text.rstrip(_CLOSERS)
            marks = body[len(body.rstrip(_MARKS + _WIDE_MARKS)) :]
            if not ends or ends[-1] < len(text) or set(marks) & set(_WIDE_MARKS):
                return 0, len(ends)
            return 1 + bool(marks), len(ends)


_EXAMPLES = {"characters": ("",), "words": ("",), "sentences": ("", "a", "a.")}
"""A text of each class by unit: of length 0 outside of sentences, else of length 1.

The second class is within a sentence. The third is after marks that end the sentence if white space
follows.
"""
