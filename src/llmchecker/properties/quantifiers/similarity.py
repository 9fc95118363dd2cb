"""Quantifier of a text's similarity to a protected passage, as RapidFuzz defines it.

A call of the library is the only form. The score depends on each character of a passage and on the
length of the text, so texts of two lengths would share no state of an incremental one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rapidfuzz.distance import Indel

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.utils.printable_text import quote_value


@dataclass(frozen=True)
class Similarity:
    """Similarity to the nearest protected passage: 0 to 100, rounded down.

    A text of n characters is compared with the first n characters of each passage. So a text that
    has only begun to repeat a passage is already similar to it. The measure is RapidFuzz's
    `fuzz.ratio` (Indel similarity). It is twice the length of the longest common subsequence,
    divided by the sum of both lengths. Upper and lower case differ. A text that equals a passage or
    its beginning scores 100; the empty text scores 0.

    Attributes:
        protected: the passages.
        of: `text` reads the start string too, `continuation` the generated text alone. The messages
            of a chat are no beginning of a passage, so an answer needs `continuation`.

    Raises:
        ConfigError: `protected` is not a list of at least one text, a text in it is empty, or `of`
            has another value.
    """

    protected: Sequence[str]
    of: str = "text"

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        passages = self.protected
        if (
            not isinstance(passages, list | tuple)
            or not passages
            or not all(isinstance(passage, str) and passage for passage in passages)
        ):
            raise ConfigError(
                f"protected: {quote_value(passages)} is not a list of texts; give one or more, "
                "none empty"
            )
        # frozen dataclass: only `object.__setattr__` can normalise a field
        object.__setattr__(self, "protected", tuple(passages))

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        # the quotient is undefined without characters
        if not text:
            return 0
        return max(_compute_percent(text, passage[: len(text)]) for passage in self.protected)


def _compute_percent(a: str, b: str) -> int:
    # In integers, since a quotient of floats may be just below 90 and round down to 89.
    return 100 * Indel.similarity(a, b) // (len(a) + len(b))
