"""The quantifier of how friendly the words of a text are."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError

if TYPE_CHECKING:
    from textblob.en import Sentiment


@dataclass(frozen=True)
class Polarity:
    """TextBlob's sentiment polarity of the text times 100, rounded: -100 to 100.

    TextBlob uses a lexicon of English words, and rules for negation, intensifiers and emoticons
    (De Smedt and Daelemans, "Pattern for Python", JMLR 13, 2012). The lexicon is part of TextBlob;
    NLTK's corpora are not needed. A text without a word of the lexicon scores 0.

    TextBlob gets only one of several texts that it cannot tell apart. This changes no score:

    - Its tokeniser splits a text at whitespace and then each piece by itself, so a piece that was
      seen before is not split again. Only emoticons and the sarcastic (!) are joined from several
      pieces; a text that may hold one goes to TextBlob as it is.
    - Its rules know the words of the lexicon, negations, emoticons and the exclamation mark. Of any
      other word they see only whether it has one, two or more letters. So "because" and
      "tournament" are the same word to them.

    Raises:
        ConfigError: TextBlob is not installed.
    """

    minimum: ClassVar[int | None] = -100
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        if find_spec("textblob") is None:
            raise ConfigError("polarity needs textblob: pip install textblob")

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        if _joined_across_spaces().search(text):
            return _percent(text)
        return _percent_of_words(tuple(chain.from_iterable(map(_words, text.split()))))


@lru_cache(maxsize=2**16)
def _percent_of_words(words: tuple[str, ...]) -> int:
    return _percent(list(words))


def _percent(text: str | list[str]) -> int:
    return round(100 * _sentiment()(text)[0])


@lru_cache(maxsize=2**16)
def _words(piece: str) -> tuple[str, ...]:
    """The words of a text without whitespace, each replaced by its `_stand_in`."""
    if piece.isalpha():
        return (_stand_in(piece.lower()),)
    words = " ".join(_sentiment().tokenizer(piece)).split()
    return tuple(_stand_in(word.lower()) for word in words)


def _stand_in(word: str) -> str:
    """The word itself if it means something to TextBlob, else x, xx or xxx by its length.

    A word means something if TextBlob assesses it (a word of the lexicon, an emoticon, (!)) or
    counts it as a negation. TextBlob does not count apostrophes as letters, but its tokeniser
    leaves none inside a word.
    """
    sentiment = _sentiment()
    counts = word in sentiment.negations or sentiment([word]).assessments
    return word if counts or word == "!" else "xxx"[: len(word)]


@cache
def _joined_across_spaces() -> re.Pattern[str]:
    """A pattern that finds an emoticon, (!) or END-OF-SENTENCE, with any spaces inside.

    END-OF-SENTENCE is TextBlob's mark for an empty line. It drops the mark wherever a text holds
    it, and the characters before and after it may then form an emoticon.
    """
    from textblob._text import EMOTICONS, EOS

    joined = sorted(set().union(*EMOTICONS.values(), {"(!)", EOS}))
    return re.compile("|".join(r"\s*".join(map(re.escape, mark)) for mark in joined))


@cache
def _sentiment() -> "Sentiment":
    """The function behind `TextBlob(text).polarity`, which takes a text or the list of its words.

    It is imported on first use, since TextBlob imports NLTK, which takes longer than reading a
    config.
    """
    from textblob.en import sentiment

    return sentiment
