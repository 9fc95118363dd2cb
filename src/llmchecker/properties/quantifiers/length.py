"""Quantifier of a text's length."""

import re
from dataclasses import dataclass
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.properties.quantifiers.word_lists import WORD_PATTERN
from llmchecker.properties.transducers.counting import CountingTransducer

_UNITS = ("characters", "words", "sentences")
"""Units of the length of a text."""

_MARKS = (".", "!", "?", "…")
_CLOSERS = "\"'”’)]"

_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")
_MARK_RUN = r"[.!?…]++[\"'”’)\]]*+"
# a run of marks is read once, so that matching is linear in the text
_SENTENCE_PATTERN = re.compile(rf"\w(?:[^.!?…]++|{_MARK_RUN}(?!\s|\Z))*+(?:{_MARK_RUN})?+")


@dataclass(frozen=True)
class Length:
    """Number of characters, words or sentences of a text.

    Characters are Unicode code points, so that an emoji may be several. Words are those of
    `Gender`: letters and digits, with apostrophes between them. A sentence contains a letter or
    digit. It ends at `.`, `!`, `?` or `…` before white space, or at the end of the text. So a
    partial word counts as a word, a partial sentence as a sentence, and "Dr. Who" as two sentences.

    Tokens are not a unit: in every query `step` is the number of tokens of the continuation.

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
        check_one_of("unit", self.unit, _UNITS)
        check_one_of("of", self.of, TEXT_PARTS)

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        if self.unit == "characters":
            return len(text)
        pattern = WORD_PATTERN if self.unit == "words" else _SENTENCE_PATTERN
        return sum(1 for _ in pattern.finditer(text))

    def build_transducer(self) -> CountingTransducer:
        """Build the incremental form, with at most three states."""
        counts_start = self.of == "text"
        if self.unit == "characters":
            return CountingTransducer(_read_characters, ("",), counts_start)
        read, examples = {
            "words": (_read_words, ("", "a", "a'")),
            "sentences": (_read_sentences, ("", "a", "a.")),
        }[self.unit]
        return CountingTransducer(read, examples, counts_start, _shorten_words)


def _read_characters(text: str) -> tuple[int, int]:
    """Return 0, since whatever precedes a character it counts, and the number of characters."""
    return 0, len(text)


def _shorten_words(text: str) -> str:
    """Return a text with one letter for several, which neither ends a word nor a sentence."""
    return _LETTERS_AND_DIGITS.sub("a", text)


def _read_words(text: str) -> tuple[int, int]:
    """Return the class of a text's end and the number of words.

    The class is 1 within a word, 2 after an apostrophe that belongs to the word if a letter
    follows, else 0.
    """
    ends = [match.end() for match in WORD_PATTERN.finditer(text)]
    rest = text[ends[-1] :] if ends else text
    if not ends or rest not in ("", "'", "’"):
        return 0, len(ends)
    return 2 if rest else 1, len(ends)


def _read_sentences(text: str) -> tuple[int, int]:
    """Return the class of a text's end and the number of sentences.

    The class is 1 within a sentence, 2 after marks that end the sentence if white space follows,
    else 0.
    """
    ends = [match.end() for match in _SENTENCE_PATTERN.finditer(text)]
    if not ends or ends[-1] < len(text):
        return 0, len(ends)
    return 2 if text.rstrip(_CLOSERS).endswith(_MARKS) else 1, len(ends)
