"""The quantifier of how long a text is."""

import re
from dataclasses import dataclass
from typing import ClassVar

from llmchecker.errors import ConfigError
from llmchecker.quantifiers.quantifier import PARTS, part_of, require_one_of
from llmchecker.quantifiers.terms import WORD

UNITS = ("characters", "words", "sentences")
"""What the length of a text may be counted in."""

_SENTENCE = re.compile(r"\w.*?(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|$)", re.DOTALL)


@dataclass(frozen=True)
class Length:
    """The number of characters, words or sentences of a text.

    Characters are those of Unicode, so that an emoji may be several. Words are those that `Gender`
    reads: letters and digits, with apostrophes between them. A sentence holds a letter or digit,
    and ends at `.`, `!`, `?` or `…` before white space, or where the text ends. So half a word
    counts as a word, half a sentence as a sentence, and "Dr. Who" as two sentences.

    Tokens are no unit: in every query `step` is the number of tokens of the continuation.

    Attributes:
        unit: `characters`, `words` or `sentences`.
        of: `continuation` counts what was generated alone, `text` the start string too.

    Raises:
        ConfigError: a setting has another value.
    """

    unit: str = "words"
    of: str = "continuation"

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if self.unit == "tokens":
            raise ConfigError("unit is 'tokens'; queries say step, the number of tokens generated")
        require_one_of("unit", self.unit, UNITS)
        require_one_of("of", self.of, PARTS)

    def __call__(self, start: str, continuation: str) -> int:
        text = part_of(start, continuation, self.of)
        if self.unit == "characters":
            return len(text)
        pattern = WORD if self.unit == "words" else _SENTENCE
        return sum(1 for _ in pattern.finditer(text))
