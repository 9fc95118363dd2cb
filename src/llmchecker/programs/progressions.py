"""Sequences of whole numbers that are polynomials in the number of the round.

A progression is the tuple of its forward differences at round 0: its value in round k is the sum of
`differences[j] * C(k, j)` (Newton's form). So every whole tuple is a sequence of whole numbers, and
the difference of a progression is the tuple without its first number.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

Progression = tuple[int, ...]


def at(progression: Progression, number: int) -> int:
    """The value in a round; round -1 is the one before the first."""
    total, choices = 0, 1
    for j, difference in enumerate(progression):
        total += difference * choices
        choices = choices * (number - j) // (j + 1)
    return total


def through(values: Sequence[int]) -> Progression:
    """The progression of least degree with these values in rounds 0, 1, 2 and so on."""
    differences = []
    row = list(values)
    while row:
        differences.append(row[0])
        row = [after - before for before, after in pairwise(row)]
    return _short(differences)


def plus(one: Progression, other: Progression) -> Progression:
    """The sum, round by round."""
    longest = max(len(one), len(other))
    padded = ((*p, *[0] * (longest - len(p))) for p in (one, other))
    return _short([a + b for a, b in zip(*padded, strict=True)])


def product(factors: Sequence[Progression]) -> Progression:
    """The product, round by round; 1 if there are no factors."""
    degree = sum(max(0, len(factor) - 1) for factor in factors)
    return through([prod(at(factor, k) for factor in factors) for k in range(degree + 1)])


def summed(progression: Progression) -> Progression:
    """In each round the sum of all rounds before it."""
    return _short([0, *progression])


def delayed(progression: Progression) -> Progression:
    """In each round the value of the round before it."""
    return through([at(progression, k - 1) for k in range(len(progression))])


def turns(progression: Progression, most: int) -> list[int]:
    """The rounds from 1 to `most` with a negative value and another before it, or the reverse."""
    if len(progression) < 2:
        return []
    # Between two turns of its difference a progression only rises, or only falls.
    corners = [0, *turns(progression[1:], most), most]
    found = []
    for low, high in pairwise(corners):
        negative = at(progression, low) < 0
        if (at(progression, high) < 0) == negative:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if (at(progression, middle) < 0) == negative:
                low = middle
            else:
                high = middle
        found.append(high)
    return found


def _short(differences: Sequence[int]) -> Progression:
    """Without the zeros at the end, which say nothing."""
    length = max((j + 1 for j, difference in enumerate(differences) if difference), default=0)
    return tuple(differences[:length])
