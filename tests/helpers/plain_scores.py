"""Scores of words and lengths by loops over characters, as an oracle of quantifiers."""

import re
from collections.abc import Mapping
from functools import cache

import regex

_CLOSERS = "[\"'”’)\\]」』）]*"
_SENTENCE = re.compile(
    rf"(?s)\w.*?(?:[.!?…؟।]+{_CLOSERS}(?=\s|\Z)|[.!?…؟।]*[。！？｡][.!?…؟।。！？｡]*{_CLOSERS}|\Z)"
)


def find_words(text: str) -> list[tuple[int, str]]:
    """The words of a text with their positions, character by character."""
    words, position = [], 0
    while position < len(text):
        begin = position
        while position < len(text) and (
            text[position].isalnum()
            or (position > begin and "\u0300" <= text[position] <= "\u036f")
            or (position > begin and text[position] in "'’" and text[position + 1 :][:1].isalnum())
        ):
            position += 1
        if position > begin:
            words.append((begin, text[begin:position]))
        else:
            position += 1
    return words


def weigh_words(weights: Mapping[str, int], start: str, continuation: str) -> int:
    """The weights of the words that begin in a continuation, without endings that have none."""
    total = 0
    for position, word in find_words(start + continuation):
        parts = word.casefold().replace("’", "'").split("'")
        spellings = ["'".join(parts[:end]) for end in range(len(parts), 0, -1)]
        if position >= len(start):
            total += next((weights[each] for each in spellings if each in weights), 0)
    return total


def measure_length(unit: str, text: str) -> int:
    """The length of a text in a unit of `length`."""
    if unit == "sentences":
        return len(_SENTENCE.findall(text))
    return len(text) if unit == "characters" else count_segments(text)


_JOINED = (
    {"L L", "L N", "N L", "N N", "K K", "L _", "N _", "K _", "_ _", "_ L", "_ N", "_ K"},
    {"L": {"MidLetter", "MidNumLet", "Single_Quote"}, "N": {"MidNum", "MidNumLet", "Single_Quote"}},
)
"""Kinds of characters that a word joins, and marks that join two characters of a kind."""


def count_segments(text: str) -> int:
    """The words of Unicode's rule, by its rules WB4 to WB13b for each pair of characters."""
    units = [each for each in text if not _is_property(each, "Extend", "Format", "ZWJ")]
    kinds = [_find_kind(each) for each in units]
    count, position = 0, 0
    while position < len(units):
        has_word = kinds[position] in "LNKO"
        while (step := _find_join(units, kinds, position)) > 0:
            position += step
            has_word |= kinds[position] in "LNK"
        count += has_word
        position += 1
    return count


def _find_kind(character: str) -> str:
    if _is_property(character, "ALetter", "Hebrew_Letter"):
        return "L"
    for kind, name in (("N", "Numeric"), ("K", "Katakana"), ("_", "ExtendNumLet")):
        if _is_property(character, name):
            return kind
    # Python's own table of categories is older than that of the word boundaries
    is_letter = regex.fullmatch(r"[\p{L}\p{N}]", character) is not None
    is_other = _is_property(character, "Other") and is_letter
    return "O" if is_other else " "


def _find_join(units: list[str], kinds: list[str], position: int) -> int:
    """The number of characters to the next one of the same word; 0 at the end of the word."""
    following = kinds[position + 1 : position + 3]
    if following and f"{kinds[position]} {following[0]}" in _JOINED[0]:
        return 1
    if len(following) == 2 and following[1] == kinds[position]:
        mark = units[position + 1]
        if _is_property(mark, *_JOINED[1].get(kinds[position], ())):
            return 2
        hebrew = units[position], units[position + 2]
        if mark == '"' and all(_is_property(each, "Hebrew_Letter") for each in hebrew):
            return 2
    return 0


@cache
def _is_property(character: str, *names: str) -> bool:
    return any(regex.fullmatch(rf"\p{{WB={name}}}", character) for name in names)
