"""How easy a text is to read."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from llmchecker.errors import ConfigError


@dataclass(frozen=True)
class Readability:
    """textstat's Flesch reading ease of the text times 100: higher is easier.

    206.835 - 1.015 words per sentence - 84.6 syllables per word (Flesch, "A new readability
    yardstick", Journal of Applied Psychology 32, 1948), for English. Syllables are counted with
    the hyphenation patterns that Pyphen carries; nothing is looked up elsewhere. A sentence of
    one or two words is not counted as a sentence, and every text has at least one. A text without
    words scores 20684, the formula's constant.

    textstat rounds words per sentence and syllables per word to one decimal and the result to two,
    so scores move in coarse steps, 846 for a tenth of a syllable. Gross et al. (2025) ask for more
    than 5997, which is such a step: 3.0 words a sentence, 1.7 syllables a word.

    Raises:
        ConfigError: textstat cannot be imported.
    """

    minimum: ClassVar[int | None] = None
    maximum: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        _reading_ease()

    def __call__(self, start: str, continuation: str) -> int:
        return round(100 * _reading_ease()(start + continuation))


@cache
def _reading_ease() -> Callable[[str], float]:
    """`flesch_reading_ease` of a textstat of our own.

    textstat's module-level functions share one language and one rounding with everybody who
    imports it. Its caches are keyed by instance and text, so they need no care.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "pkg_resources is deprecated", UserWarning)
            from textstat.textstat import textstatistics
    except ImportError as error:
        raise ConfigError(
            "readability needs textstat 0.7.4, which needs a setuptools that still has "
            f"pkg_resources: pip install 'textstat==0.7.4' 'setuptools<82' ({error})"
        ) from error
    statistics = textstatistics()
    statistics.set_lang("en_US")
    return statistics.flesch_reading_ease
