"""Quantifier of the sentiment polarity of a text's words, as TextBlob defines it.

A call of the library is the only form. A state of an incremental one would contain every assessment
so far, and any of the 2,900 words of the lexicon that may still be completed.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.utils.optional_packages import check_packages

if TYPE_CHECKING:
    from textblob.en import Sentiment


@dataclass(frozen=True)
class Polarity:
    """TextBlob's sentiment polarity of the text times 100, rounded: -100 to 100.

    TextBlob uses a lexicon of English words, and rules for negation, intensifiers and emoticons
    (De Smedt and Daelemans, "Pattern for Python", JMLR 13, 2012). The lexicon is part of TextBlob;
    NLTK's corpora are not needed. A text without a word of the lexicon scores 0.

    Attributes:
        of: `text` reads the start string too, `continuation` the generated text alone.

    Raises:
        MissingTool: TextBlob is not installed.
        ConfigError: `of` has another value.
    """

    of: str = "text"

    minimum: ClassVar[int | None] = -100
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        check_packages("textblob")

    def __call__(self, start: str, continuation: str) -> int:
        polarity: float = _load_sentiment()(select_part(start, continuation, self.of))[0]
        return round(100 * polarity)


@cache
def _load_sentiment() -> "Sentiment":
    """Return the function of `TextBlob(text).sentiment`.

    It is imported on first use, since TextBlob imports NLTK, which takes longer than reading a
    config.
    """
    from textblob.en import sentiment

    return sentiment
