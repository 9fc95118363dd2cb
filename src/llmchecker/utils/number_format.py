"""Number formats: outward rounding of bounds; 0 and 1 only for exact values."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DIGITS = 6
"""Significant digits of a number, unless it needs more to differ from 1."""


def format_lower(number: float, digits: int = DIGITS) -> str:
    """Format a lower bound: the numeral is at most the number's exact value."""
    return _format(number, digits, ROUND_FLOOR)


def format_upper(number: float, digits: int = DIGITS) -> str:
    """Format an upper bound: the numeral is at least the number's exact value."""
    return _format(number, digits, ROUND_CEILING)


def format_number(number: float, digits: int = DIGITS) -> str:
    """Format a number that is not a bound: the numeral is the nearest."""
    return _format(number, digits, ROUND_HALF_EVEN)


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: `1 text`, `2,000 texts`, `0 passes`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{number:,} {noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}s"


def format_size(size: int) -> str:
    """Format a size in bytes: `538 MB`, `1.1 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _format(number: float, digits: int, rounding: str) -> str:
    if not math.isfinite(number):
        return f"{number:g}"
    # `Decimal` of a float is exact, so that rounding has the requested direction
    value = Decimal(number)
    rounded = Context(prec=digits, rounding=rounding).plus(value)
    # only an exact 1 prints as 1, so a number close to 1 gets more digits
    while rounded == 1 and rounded != value:
        digits += 1
        rounded = Context(prec=digits, rounding=rounding).plus(value)
    return _format_plain(rounded)


def _format_plain(number: Decimal) -> str:
    """Format a numeral as `g` does: no trailing zeros, exponents if far from 1."""
    if number == 0:
        return "0"
    number = number.normalize(Context(prec=max(1, len(number.as_tuple().digits))))
    # the limits at which Python's repr of floats uses an exponent
    if -5 < number.adjusted() < 16:
        return f"{number:f}"
    digits, exponent = f"{number:e}".split("e")
    return f"{digits}e{int(exponent):+03d}"
