"""Printed texts of different machines, whose numbers differ in their last digits."""

import pytest

DIGITS = 5e-3
"""How far a printed number may be off.

Another machine adds in another order, and by the last bit a sample chooses another token.
"""


def alike(printed: str, shown: str, tolerance: float = DIGITS) -> bool:
    """Whether two texts have the same words, and numbers that differ in their last digits alone."""
    words, expected = printed.split(), shown.split()
    return len(words) == len(expected) and all(
        _is_same(word, other, tolerance) for word, other in zip(words, expected, strict=True)
    )


def _is_same(word: str, expected: str, tolerance: float) -> bool:
    try:
        number, shown = (float(text.strip("[],")) for text in (word, expected))
    except ValueError:
        return word == expected
    return number == pytest.approx(shown, rel=tolerance)
