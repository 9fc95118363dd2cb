"""Integer sequences that are polynomials in the iteration number.

A sequence is the tuple of its forward differences at iteration 0. Its value in iteration k is the
sum of `differences[j] * C(k, j)` (Newton's form). Every integer tuple is thus an integer sequence,
and the difference of a sequence is the tuple without its first number.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

PolynomialSequence = tuple[int, ...]


def evaluate_at(progression: PolynomialSequence, number: int) -> int:
    """Evaluate a sequence at an iteration; -1 is the iteration before the first."""
    total, choices = 0, 1
    for j, difference in enumerate(progression):
        total += difference * choices
        choices = choices * (number - j) // (j + 1)
    return total


def _interpolate(values: Sequence[int]) -> PolynomialSequence:
    """Return the sequence of least degree with these first values."""
    differences = []
    row = list(values)
    while row:
        differences.append(row[0])
        row = [following - previous for previous, following in pairwise(row)]
    return _strip_zeros(differences)


def add(one: PolynomialSequence, other: PolynomialSequence) -> PolynomialSequence:
    """Add two sequences element by element."""
    length = max(len(one), len(other))
    sequences = ((*p, *[0] * (length - len(p))) for p in (one, other))
    return _strip_zeros([a + b for a, b in zip(*sequences, strict=True)])


def product(factors: Sequence[PolynomialSequence]) -> PolynomialSequence:
    """Multiply sequences element by element; no factors give 1."""
    # The product of polynomials is determined by one value more than its degree.
    degree = sum(max(0, len(factor) - 1) for factor in factors)
    return _interpolate(
        [prod(evaluate_at(factor, k) for factor in factors) for k in range(degree + 1)]
    )


def cumulative_sum(progression: PolynomialSequence) -> PolynomialSequence:
    """Return the sequence of sums over all earlier iterations."""
    return _strip_zeros([0, *progression])


def delay(progression: PolynomialSequence) -> PolynomialSequence:
    """Return the sequence delayed by one iteration."""
    return _interpolate([evaluate_at(progression, k - 1) for k in range(len(progression))])


def sign_changes(progression: PolynomialSequence, limit: int) -> list[int]:
    """Return the iterations from 1 to `limit` at which "negative" changes."""
    if len(progression) < 2:
        return []
    # Between two sign changes of its difference, a sequence is monotonic.
    corners = [0, *sign_changes(progression[1:], limit), limit]
    changes = []
    for low, high in pairwise(corners):
        is_negative = evaluate_at(progression, low) < 0
        if (evaluate_at(progression, high) < 0) == is_negative:
            continue
        # Binary search for the change of sign in a monotonic part.
        while high - low > 1:
            middle = (low + high) // 2
            if (evaluate_at(progression, middle) < 0) == is_negative:
                low = middle
            else:
                high = middle
        changes.append(high)
    return changes


def _strip_zeros(differences: Sequence[int]) -> PolynomialSequence:
    """Remove trailing zeros, so that equal sequences have equal tuples."""
    length = max((j + 1 for j, difference in enumerate(differences) if difference), default=0)
    return tuple(differences[:length])
