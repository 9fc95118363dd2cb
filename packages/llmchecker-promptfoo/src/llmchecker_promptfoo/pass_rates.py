"""The probability that repeated tests and pass rates of promptfoo require.

promptfoo passes if the share of tests that pass reaches PROMPTFOO_PASS_RATE_THRESHOLD, a number of
percent, and without one if all tests pass. With `repeat: k` each test has k answers, so then all k
answers must pass (pass^k), which has the probability p^k.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from llmchecker.suites.formats import DEFAULT_PROBABILITY, is_float
from llmchecker.utils.printable_text import quote_value
from llmchecker_promptfoo.report import NotConverted, Place, Report

_RATE = "PROMPTFOO_PASS_RATE_THRESHOLD"
_DIGITS = 4
"""Number of decimal places of a root, which is rounded up."""


def choose_probability(
    content: Mapping[str, Any], place: Place, given: Decimal | None, report: Report
) -> Decimal:
    """Return the probability that each requirement must have at least, and list how it is chosen.

    Args:
        content, place: the configuration.
        given: the probability that the user states; None for that of the configuration.
        report: the list of what is not converted exactly.
    """
    chosen = DEFAULT_PROBABILITY if given is None else given
    rate, rate_place = _find(content, place, ("env",), _RATE)
    sections = ("commandLineOptions", "evaluateOptions")
    repeat, repeat_place = _find(content, place, sections, "repeat")
    has_repeat = type(repeat) is int and repeat > 1
    try:
        share = None if rate is None else _parse_rate(rate)
        # a rate of 100 % is that of a configuration without one
        if share is not None and share != 1:
            if given is None:
                chosen = share
            report.omit(
                rate_place,
                f"{_RATE} {rate}: each requirement has the probability {chosen:f}, in place of the "
                "mean of all tests",
            )
        elif has_repeat:
            root = _find_root(chosen, repeat)
            if given is None:
                chosen = root
            report.omit(
                repeat_place,
                f"repeat {repeat}: all {repeat} answers pass with a probability of at least "
                f"{DEFAULT_PROBABILITY if given is None else given:f} if one does with {root:f}; "
                f"each requirement has {chosen:f}",
            )
    except NotConverted as error:
        report.omit(rate_place if rate is not None else repeat_place, error)
    return chosen


def _find(
    content: Mapping[str, Any], place: Place, sections: tuple[str, ...], name: str
) -> tuple[Any, Place]:
    """Return the value of a key in the first section that has it, and its place."""
    for section in sections:
        keys = content.get(section)
        if isinstance(keys, Mapping) and keys.get(name) is not None:
            return keys[name], place.child(section).child(name)
    return None, place


def _parse_rate(rate: Any) -> Decimal:
    """Return a number of percent as a share.

    Raises:
        NotConverted: it is no number of percent, or requires nothing.
    """
    try:
        share = Decimal(str(rate)) / 100
    except InvalidOperation:
        share = Decimal("NaN")
    if isinstance(rate, bool) or not share.is_finite() or not 0 < share <= 1:
        raise NotConverted(f"{_RATE} {quote_value(rate)}: no number of percent above 0, up to 100")
    if not is_float(share):
        raise NotConverted(f"{_RATE} {quote_value(rate)}: more digits than a float has")
    return share


def _find_root(probability: Decimal, count: int) -> Decimal:
    """Return the least number of `_DIGITS` places whose power reaches a probability.

    Raises:
        NotConverted: only 1 does, which no samples show.
    """
    unit = Decimal(1).scaleb(-_DIGITS)
    root = Decimal(float(probability) ** (1 / count)).quantize(unit) - unit
    while root**count < probability:
        root += unit
    if root >= 1:
        raise NotConverted(f"repeat {count}: too many answers that must all pass")
    return root
