"""Quantifier of the sentiment polarity of a text's words."""

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

    Of several texts that TextBlob cannot distinguish, it scores only the first. This changes no
    score:

    - Its tokeniser splits a text at whitespace and then each piece by itself, so a repeated piece
    is
      not split again. Only emoticons and the sarcastic (!) are joined from several pieces; a text
      that may contain them goes to TextBlob unchanged.
    - Its rules use the words of the lexicon, negations, emoticons and the exclamation mark. Of any
      other word they only test whether it has one, two or more letters. So "because" and
      "tournament" are the same word to them.

    Raises:
        ConfigError: TextBlob is not installed.
    """

    minimum: ClassVar[int | None] = -100
    maximum: ClassVar[int | None] = 100

    def __post_init__(self) -> None:
        if find_spec("textblob") is None:
            raise ConfigError("polarity: the package textblob is missing; run pip install textblob")

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        # an emoticon may span several pieces, so the whole text is needed
        if _build_emoticon_pattern().search(text):
            return _compute_percent(text)
        return _compute_percent_of_words(
            tuple(chain.from_iterable(map(_split_words, text.split())))
        )

    def build_transducer(self) -> None:
        """Return None: there is no incremental form that is small enough.

        A token may continue any of 2,900 words of the lexicon, so thousands of tokens have effects
        of their own. The score is a mean, so the state contains the assessments so far, and a text
        with an emoticon is a state of its own.
        """


@lru_cache(maxsize=2**16)
def _compute_percent_of_words(words: tuple[str, ...]) -> int:
    return _compute_percent(list(words))


def _compute_percent(text: str | list[str]) -> int:
    polarity: float = _load_sentiment()(text)[0]
    return round(100 * polarity)


@lru_cache(maxsize=2**16)
def _split_words(piece: str) -> tuple[str, ...]:
    """Return the words of a text without whitespace, each after `_canonicalize`."""
    # the tokeniser does not split a piece of letters alone
    if piece.isalpha():
        return (_canonicalize(piece.lower()),)
    words = " ".join(_load_sentiment().tokenizer(piece)).split()
    return tuple(_canonicalize(word.lower()) for word in words)


def _canonicalize(word: str) -> str:
    """Return a word with a meaning to TextBlob, else x, xx or xxx by its length.

    A word has a meaning if TextBlob assesses it (a word of the lexicon, an emoticon, (!)) or counts
    it as a negation. TextBlob does not count apostrophes as letters, but its tokeniser leaves none
    inside a word.
    """
    sentiment = _load_sentiment()
    has_meaning = word in sentiment.negations or sentiment([word]).assessments
    return word if has_meaning or word == "!" else "xxx"[: len(word)]


@cache
def _build_emoticon_pattern() -> re.Pattern[str]:
    """Build a pattern of emoticons, (!) and END-OF-SENTENCE with inner spaces.

    END-OF-SENTENCE is TextBlob's mark for an empty line. It drops the mark wherever a text contains
    it, and the characters before and after it may then form an emoticon.
    """
    from textblob._text import EMOTICONS, EOS

    marks = sorted(set().union(*EMOTICONS.values(), {"(!)", EOS}))
    return re.compile("|".join(r"\s*".join(map(re.escape, mark)) for mark in marks))


@cache
def _load_sentiment() -> "Sentiment":
    """Return the function of `TextBlob(text).polarity`, for a text or its words.

    It is imported on first use, since TextBlob imports NLTK, which takes longer than reading a
    config.
    """
    from textblob.en import sentiment

    return sentiment
