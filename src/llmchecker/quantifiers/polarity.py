"""How friendly the words of a text are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from llmchecker.errors import ConfigError


@dataclass(frozen=True)
class Polarity:
    """TextBlob's sentiment polarity of the text times 100, rounded: -100 to 100.

    A lexicon of English words with rules for negation, intensifiers and emoticons (De Smedt and
    Daelemans, "Pattern for Python", JMLR 13, 2012). The lexicon is part of TextBlob; NLTK's
    corpora are not needed. A text without a word of the lexicon scores 0.

    Raises:
        ConfigError: TextBlob cannot be imported.
    """

    minimum: ClassVar[int | None] = -100
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        _textblob_polarity()

    def __call__(self, start: str, continuation: str) -> int:
        return round(100 * _textblob_polarity()(start + continuation))


@cache
def _textblob_polarity() -> Callable[[str], float]:
    """What `TextBlob(text).polarity` calls; without the blob it takes half the time.

    Imported on first use: TextBlob imports NLTK, which takes longer than reading a config.
    """
    try:
        from textblob.en import polarity
    except ImportError as error:
        raise ConfigError(f"polarity needs textblob: pip install textblob ({error})") from error
    return polarity
