"""Scores of words and lengths by loops over characters, as an oracle of quantifiers."""

import re
from collections.abc import Mapping

_SENTENCE = re.compile(r"(?s)\w.*?(?:[.!?…]+[\"'”’)\]]*(?=\s|\Z)|\Z)")


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
    return len(text) if unit == "characters" else len(find_words(text))
