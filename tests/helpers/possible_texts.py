"""Patterns with conditions on positions, and an oracle of the texts that can still match."""

import itertools
from collections.abc import Iterator
from functools import cache
from random import Random

import regex

LETTERS = "abA1 \n-"
"""A character of each class that the generated patterns tell apart."""
_LENGTH = 5
"""Number of characters of the longest texts that are enumerated first."""
_MAX_LENGTH = 8
"""Number of characters of the longest texts of a second search, for a text without match."""

_ATOMS = ["a", "b", "A", "-", " ", r"\n", ".", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]"]
_CONDITIONS = [r"\b", r"\B", "^", "$", r"\A", r"\Z"]
_LOOKS = ["(?=a)", "(?!b)", r"(?=\w\W)", r"(?<=a)", r"(?<!\w)", "(?=.*b)"]
_COUNTS = ["*", "+", "?", "{1,2}", "*?", "+?", "??"]
_FLAGS = ["", "", "(?i)", "(?m)", "(?s)", "(?im)"]


def generate_pattern(random: Random) -> str:
    """Generate a pattern of one to five parts, of which many are conditions on positions."""
    return random.choice(_FLAGS) + _generate_part(random, random.randint(1, 5))


def _generate_part(random: Random, size: int) -> str:
    if size == 1:
        return random.choice(random.choices([_ATOMS, _CONDITIONS, _LOOKS], [10, 6, 1])[0])
    left = random.randint(1, size - 1)
    first, second = _generate_part(random, left), _generate_part(random, size - left)
    match random.randrange(4):
        case 0:
            return f"(?:{first}|{second})"
        case 1:
            return f"(?:{first}){random.choice(_COUNTS)}{second}"
        case 2:
            return f"{first}(?:{second}){random.choice(_COUNTS)}"
        case _:
            return f"(?:{first})(?:{second})"


@cache
def _list_texts() -> list[str]:
    return list(_iter_continuations(_LENGTH))


def _iter_continuations(length: int) -> Iterator[str]:
    for count in range(length + 1):
        yield from map("".join, itertools.product(LETTERS, repeat=count))


def find_possible(pattern: regex.Pattern[str], length: int) -> set[str]:
    """Find the texts of at most some characters that some enumerated text continues to a match."""
    return {
        text[:end]
        for text in filter(pattern.fullmatch, _list_texts())
        for end in range(min(length, len(text)) + 1)
    }


def has_longer_match(pattern: regex.Pattern[str], text: str) -> bool:
    """Return whether a longer enumerated continuation makes the text a match."""
    continuations = _iter_continuations(_MAX_LENGTH - len(text))
    return any(pattern.fullmatch(text + continuation) for continuation in continuations)
