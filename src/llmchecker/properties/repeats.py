"""Repeats of an answer: all of k answers to one prompt are right, or any of them is.

The answers are independent. So all of k are right with the probability p^k, and any of them with
1 - (1 - p)^k (pass@k: Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
arXiv 2107.03374).
"""

import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

MAX_REPEATS = 100
"""The largest number of answers of which all or any count; exact powers grow with it."""
_DIGITS = 17
"""Decimal digits that tell any two float64 apart."""


def raise_probability(probability: Fraction, count: int, *, is_all: bool) -> Fraction:
    """Return the probability that all, or any, of so many answers are right."""
    if is_all:
        return Fraction(probability**count)
    return 1 - Fraction((1 - probability) ** count)


def find_limit_of_one(number: Decimal, count: int, *, is_all: bool, is_upper: bool) -> Decimal:
    """Find the limit of one answer's probability that stands for a limit of repeats.

    Every float64 meets it exactly if the probability of the repeats meets their limit.

    Args:
        number: the limit of the repeats, from 0 to 1.
        count: the number of answers.
        is_all: whether all of them count, and not any.
        is_upper: whether the limit is a largest probability.
    """

    wanted = Fraction(number)

    def is_low(bits: int) -> bool:
        found = raise_probability(Fraction(_decode(bits)), count, is_all=is_all)
        return found <= wanted if is_upper else found < wanted

    # positive float64 have the order of their bits; the first one that is not low
    first, last = 0, struct.unpack("<q", struct.pack("<d", 1.0))[0] + 1
    while first < last:
        middle = (first + last) // 2
        first, last = (middle + 1, last) if is_low(middle) else (first, middle)
    limit = _decode(first - 1 if is_upper else first)
    rounding = ROUND_CEILING if is_upper else ROUND_FLOOR
    return Context(prec=_DIGITS, rounding=rounding).create_decimal(Decimal(limit))


def _decode(bits: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return number
