"""Quantifier of a text's readability, as textstat defines it.

A call of the library is the only form. The syllables of a partial word depend on all letters that
follow, so nearly every token would have an effect of its own on an incremental one.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.utils.optional_packages import check_packages

if TYPE_CHECKING:
    from textstat.textstat import textstatistics


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

    Attributes:
        of: `text` reads the start string too, `continuation` the generated text alone.

    Raises:
        MissingTool: textstat or a package that it needs is not installed.
        ConfigError: `of` has another value.
    """

    of: str = "text"

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        check_packages("textstat", "pkg_resources")

    def __call__(self, start: str, continuation: str) -> int:
        text = select_part(start, continuation, self.of)
        reading_ease: float = _load_textstat().flesch_reading_ease(text)
        return round(100 * reading_ease)


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
