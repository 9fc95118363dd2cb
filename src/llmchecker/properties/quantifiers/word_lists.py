"""Word patterns and word lists, shared by the quantifiers that count words."""

import re
from collections.abc import Iterable
from pathlib import Path

import regex

from llmchecker.errors import ConfigError
from llmchecker.utils.printable_text import quote_value

# A word consists of letters and digits, with combining accents, and apostrophes between them. An
# underscore separates words, since models write _he_ for emphasis.
_WORD_PART = r"(?:[^\W_][\u0300-\u036f]*)+"
_WORD_PATTERN = re.compile(rf"{_WORD_PART}(?:['’]{_WORD_PART})*")

_UNSPACED_LETTER = regex.compile(r"\p{WB=Katakana}|[^\P{WB=Other}\P{L}]")
"""A letter of a script without spaces between words, such as Chinese or Thai."""


def split_words(text: str) -> tuple[list[str], str]:
    """Return the complete words of a text, and the partial word at its end, which may be empty.

    An apostrophe at the end may belong to the partial word, so it is a part of it.
    """
    # most texts are a few letters of one word
    if text.isalnum():
        return [], text
    matches = list(_WORD_PATTERN.finditer(text))
    words = [match[0] for match in matches]
    if not matches or (rest := text[matches[-1].end() :]) not in ("", "'", "’"):
        return words, ""
    return words[:-1], words[-1] + rest


def normalize_word(word: str) -> str:
    """Return the word in the spelling of terms: lower case, straight apostrophes."""
    return word.casefold().replace("’", "'")


def read_terms(key: str, path: str | Path) -> frozenset[str]:
    """Read the terms of a file, one term per line, with comments after #.

    Args:
        key: str, name of the setting for messages.
        path: path of the file.

    Raises:
        ConfigError: the file cannot be read, or as in `parse_terms`.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {quote_value(path)} cannot be read: {error}") from error
    terms = {
        f"line {number} of {path}": term
        for number, line in enumerate(lines, start=1)
        if (term := line.partition("#")[0].strip())
    }
    if not terms:
        raise ConfigError(f"{key}: {path} has no terms; add one")
    return parse_terms(key, terms.items())


def parse_terms(key: str, terms: Iterable[tuple[str, object]]) -> frozenset[str]:
    """Return terms in their normal spelling.

    Args:
        key: str, name of the setting for messages.
        terms: pairs of the term's place, for messages, and the term.

    Raises:
        ConfigError: a term is not a single word, or no spaces divide the words of its script.
    """
    words = set()
    for position, term in terms:
        if not isinstance(term, str) or not _WORD_PATTERN.fullmatch(term):
            raise ConfigError(f"{key}: {position} is {quote_value(term)}, not a single word")
        # a text in such a script would be one long word, which is no term
        if _UNSPACED_LETTER.search(term):
            raise ConfigError(
                f"{key}: {position} is {quote_value(term)}, and no spaces divide words of its "
                "script; use a pattern"
            )
        words.add(normalize_word(term))
    return frozenset(words)
