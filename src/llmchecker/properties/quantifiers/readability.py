"""Quantifier of a text's readability."""

import re
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError

if TYPE_CHECKING:
    from textstat.textstat import textstatistics

_SENTENCE_END = re.compile(r"[.!?]")


@dataclass(frozen=True)
class Readability:
    """textstat's Flesch reading ease of the text times 100: higher is easier.

    The formula for English is 206.835 - 1.015 words per sentence - 84.6 syllables per word. It is
    from Flesch, "A new readability yardstick", Journal of Applied Psychology 32, 1948. Syllables
    are counted with the hyphenation patterns of Pyphen. A sentence of one or two words does not
    count as a sentence, but every text has at least one sentence. A text without words scores
    20684, the formula's constant.

    textstat rounds words per sentence and syllables per word to one decimal and the result to two.
    So scores have coarse steps: 846 for a tenth of a syllable. Gross et al. (2025) require more
    than 5997, which is such a step: 3.0 words a sentence, 1.7 syllables a word.

    Of several texts that textstat cannot distinguish, it scores only the first. This changes no
    score, since textstat only counts words, their syllables, and sentences. So a word may be
    replaced by another with as many syllables, and whitespace by a space. In a text without the end
    of a sentence, the order of the words does not matter.

    Raises:
        ConfigError: textstat or a package that it needs is not installed.
    """

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        missing_packages = [
            name for name in ("textstat", "pkg_resources") if find_spec(name) is None
        ]
        if missing_packages:
            raise ConfigError(
                f"readability: {' and no '.join(missing_packages)} missing; run pip install "
                "'textstat==0.7.4' 'setuptools<82'"
            )

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        # texts that textstat scores equally become equal, so the cache answers more calls
        pieces = map(_canonicalize, text.split())
        return _compute_score(" ".join(pieces if _SENTENCE_END.search(text) else sorted(pieces)))

    def build_transducer(self) -> None:
        """Return None: there is no incremental form that is small enough.

        The syllables of a partial word depend on all letters that follow, so nearly every token has
        an effect of its own. The score is a quotient of three sums, so the state contains these.
        """


@lru_cache(maxsize=2**16)
def _compute_score(text: str) -> int:
    reading_ease: float = _load_textstat().flesch_reading_ease(text)
    return round(100 * reading_ease)


@lru_cache(maxsize=2**16)
def _canonicalize(piece: str) -> str:
    """Return a fixed word with the same syllable count if the piece is a word.

    Any other piece is returned unchanged.
    """
    # punctuation may end a sentence, so such a piece must stay
    if not (piece.isascii() and piece.isalpha()):
        return piece
    return _build_words_by_syllables().get(_load_textstat().syllable_count(piece), piece)


@cache
def _build_words_by_syllables() -> dict[int, str]:
    words = ("he", "letter", "wonderful", "particular")
    return {_load_textstat().syllable_count(word): word for word in words}


@cache
def _load_textstat() -> "textstatistics":
    """Return an instance of textstat for this package alone.

    The module-level functions of textstat share one language and one rounding among all parts
    of a program that import it. Its caches are keyed by instance and text, so they are safe.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
        from textstat.textstat import textstatistics
    statistics = textstatistics()
    statistics.set_lang("en_US")
    return statistics
