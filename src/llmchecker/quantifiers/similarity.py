"""The quantifier of how much a text repeats a protected passage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rapidfuzz.distance import Indel

from llmchecker.errors import ConfigError


@dataclass(frozen=True)
class Similarity:
    """The similarity of the text to the nearest protected passage, from 0 to 100, rounded down.

    A text of n characters is compared with the first n characters of each passage. So a text that
    has only begun to repeat a passage is already similar to it. The measure is RapidFuzz's
    `fuzz.ratio`: twice the length of the longest common subsequence, divided by the sum of both
    lengths (Indel similarity). Upper and lower case differ. A text that equals a passage or the
    beginning of one scores 100; the empty text repeats nothing and scores 0.

    Attributes:
        protected: the passages.

    Raises:
        ConfigError: `protected` is not a list of at least one text, or one of its texts is empty.
    """

    protected: Sequence[str]

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        passages = self.protected
        if (
            not isinstance(passages, list | tuple)
            or not passages
            or not all(isinstance(passage, str) and passage for passage in passages)
        ):
            raise ConfigError(
                f"protected is {passages!r}; it must be a list of one or more texts, none empty"
            )
        object.__setattr__(self, "protected", tuple(passages))

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        if not text:
            return 0
        return max(_percent(text, passage[: len(text)]) for passage in self.protected)


def _percent(a: str, b: str) -> int:
    # In whole numbers, since a quotient of floats may fall just below 90 and be rounded down to 89.
    return 100 * Indel.similarity(a, b) // (len(a) + len(b))
