"""The quantifier of how easy a text is to read."""

import re
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError

if TYPE_CHECKING:
    from textstat.textstat import textstatistics

SENTENCE_END = re.compile(r"[.!?]")


@dataclass(frozen=True)
class Readability:
    """textstat's Flesch reading ease of the text times 100: higher is easier.

    The formula for English is 206.835 - 1.015 words per sentence - 84.6 syllables per word (Flesch,
    "A new readability yardstick", Journal of Applied Psychology 32, 1948). Syllables are counted
    with the hyphenation patterns that come with Pyphen. A sentence of one or two words does not
    count as a sentence, but every text has at least one sentence. A text without words scores
    20684, the formula's constant.

    textstat rounds words per sentence and syllables per word to one decimal and the result to two,
    so scores move in coarse steps: 846 for a tenth of a syllable. Gross et al. (2025) ask for more
    than 5997, which is such a step: 3.0 words a sentence, 1.7 syllables a word.

    textstat gets only one of several texts that it cannot tell apart. This changes no score, since
    textstat only counts words, their syllables, and sentences. So a word may be replaced by another
    with as many syllables, and whitespace by a space. The order of the words does not matter in a
    text in which nothing ends a sentence.

    Raises:
        ConfigError: textstat, or something that it needs, is not installed.
    """

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        missing = [name for name in ("textstat", "pkg_resources") if find_spec(name) is None]
        if missing:
            raise ConfigError(
                "readability needs textstat 0.7.4, which needs a setuptools that still has "
                f"pkg_resources; there is no {' and no '.join(missing)}: "
                "pip install 'textstat==0.7.4' 'setuptools<82'"
            )

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        pieces = map(_stand_in, text.split())
        return _score(" ".join(pieces if SENTENCE_END.search(text) else sorted(pieces)))


@lru_cache(maxsize=2**16)
def _score(text: str) -> int:
    return round(100 * _statistics().flesch_reading_ease(text))


@lru_cache(maxsize=2**16)
def _stand_in(piece: str) -> str:
    """A known word with as many syllables if the piece is a word, else the piece itself."""
    if not (piece.isascii() and piece.isalpha()):
        return piece
    return _words_by_syllables().get(_statistics().syllable_count(piece), piece)


@cache
def _words_by_syllables() -> dict[int, str]:
    words = ("he", "letter", "wonderful", "particular")
    return {_statistics().syllable_count(word): word for word in words}


@cache
def _statistics() -> "textstatistics":
    """An instance of textstat for this package alone.

    The module-level functions of textstat share one language and one rounding among all parts
    of a program that import it. Its caches are keyed by instance and text, so they are safe.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
        from textstat.textstat import textstatistics
    statistics = textstatistics()
    statistics.set_lang("en_US")
    return statistics
