"""Verdicts of intervals are exact, and combined intervals are rounded outwards."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.decision import Outcome
from llmchecker.errors import ConfigError
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.verdicts import (
    CaseResult,
    Counts,
    Interval,
    Status,
    Threshold,
    average_intervals,
    average_members,
    count_statuses,
    forecast_passes,
    is_certain,
    parse_threshold,
    subtract_intervals,
)

PROBABILITIES = st.floats(0, 1)


@st.composite
def intervals(draw):
    lower, low, high, upper = sorted(draw(st.tuples(*[PROBABILITIES] * 4)))
    return Interval(lower, upper, low, high, (low + high) / 2)


def exact(interval: Interval) -> list[Fraction]:
    return [Fraction(x) for x in (interval.lower, interval.upper, interval.low, interval.high)]


@given(st.lists(intervals(), min_size=1, max_size=5))
def test_an_average_contains_the_mean_of_all_ends(several):
    """The interval of a mean contains the exact means of the ends, and little more."""
    lower, upper, low, high = (
        sum(ends) / len(several) for ends in zip(*map(exact, several), strict=True)
    )
    mean = average_intervals(several)
    assert Fraction(mean.lower) <= lower <= upper <= Fraction(mean.upper)
    assert Fraction(mean.low) <= low <= high <= Fraction(mean.high)
    assert float(lower) - mean.lower < 1e-15


@given(intervals(), intervals())
def test_a_difference_contains_all_differences(first, second):
    """The interval of a difference contains the differences of opposite ends."""
    found = subtract_intervals(first, second)
    assert Fraction(found.lower) <= Fraction(first.lower) - Fraction(second.upper)
    assert Fraction(found.high) >= Fraction(first.high) - Fraction(second.low)


@pytest.mark.parametrize(
    ("text", "interval", "decision"),
    [
        # the float 0.7 is less than seven tenths
        (">= 0.7", Interval(0.7, 1, 0.7, 1), (Outcome.UNKNOWN, False)),
        (">= 0.5", Interval(0.5, 1, 0.6, 0.7), (Outcome.HOLDS, True)),
        ("> 0.5", Interval(0.5, 1, 0.6, 0.7), (Outcome.HOLDS, False)),
        ("< 0.5", Interval(0.5, 1, 0.6, 0.7), (Outcome.VIOLATED, True)),
        ("<= 0.5", Interval(0, 0.5, 0, 0.5), (Outcome.HOLDS, True)),
        ("<= 0.3", Interval(0, 1, 0.2, 0.4), (Outcome.UNKNOWN, False)),
        (">= -0.02", Interval(-1, 1, -0.01, 0.2), (Outcome.HOLDS, False)),
    ],
)
def test_thresholds_compare_exactly(text, interval, decision):
    """Certain bounds decide before the interval, and decimals are compared exactly."""
    outcome, certain = decision
    found = parse_threshold(text).decide(interval, 0.99)
    assert (found.outcome, is_certain(found)) == (outcome, certain)
    assert found.confidence == (0.99 if outcome is not Outcome.UNKNOWN and not certain else None)


@pytest.mark.parametrize(
    "text", ["", "0.5", ">= x", "= 0.5", ">= 0.5 and more", ">= nan", ">= 1e3"]
)
def test_a_text_that_is_no_threshold_is_refused(text):
    """A threshold is a comparison and a decimal number."""
    with pytest.raises(ConfigError, match="no threshold; write"):
        parse_threshold(text)


def test_statuses_give_the_exit_status():
    """Errors count before violated cases, and these before unknown ones."""

    def status(*statuses: Status, allow_unknown: bool = False) -> int:
        return count_statuses(statuses).exit_status(allow_unknown)

    assert status() == status(Status.HOLDS, Status.MEASURED) == 0
    assert status(Status.HOLDS, Status.UNKNOWN) == 2
    assert status(Status.UNKNOWN, allow_unknown=True) == 0
    assert status(Status.VIOLATED, Status.UNKNOWN, allow_unknown=True) == 1
    assert status(Status.VIOLATED, Status.ERROR) == 3
    assert Counts(1, 2, 3, 0) == count_statuses(
        [Status.HOLDS, *[Status.VIOLATED] * 2, *[Status.UNKNOWN] * 3]
    )


@pytest.mark.parametrize("cases", [1, 7, 10_000])
def test_the_error_probabilities_of_all_cases_add_up(cases):
    """All cases together have the error probability of the suite."""
    share = 1 - split_confidence(0.99, cases)
    assert share * cases == pytest.approx(0.01, rel=1e-6)


def test_too_many_cases_for_a_confidence_are_refused():
    """A share of the error probability that rounding would distort is refused."""
    with pytest.raises(ConfigError, match="too high for"):
        split_confidence(0.999999, 10_000)


def test_the_forecast_falls_with_the_distance_to_the_threshold():
    """Half the distance needs four times the passes, and no distance has no forecast."""
    near, far = (
        forecast_passes(Threshold(">=", Decimal(t)), Interval(0, 1, 0.4, 0.6, 0.5), 100)
        for t in ("0.55", "0.60")
    )
    assert near == pytest.approx(4 * far, abs=5)
    assert (
        forecast_passes(Threshold(">=", Decimal("0.5")), Interval(0, 1, 0.4, 0.6, 0.5), 9) is None
    )
    assert forecast_passes(Threshold(">=", Decimal("0.5")), Interval(), 9) is None


def test_an_average_with_an_error_uses_no_samples():
    """With a row that failed the interval is the mean of intervals: its samples are missing."""
    values = np.linspace(0.2, 0.4, 64)
    evidence = MeanEvidence().add_round(values, len(values), 0.0, 1.0, 64.0)
    interval = Interval(0.0, 1.0, 0.01, 0.99, 0.3)
    rows = [CaseResult(str(n), "m", Status.MEASURED, interval=interval) for n in range(50)]
    sampled = [replace(row, evidence=evidence) for row in rows]
    mean = average_members(rows, 0.01)
    narrow = average_members(sampled, 0.01)
    assert (mean.low, mean.high) == (0.01, 0.99)
    assert mean.low < narrow.low <= 0.3 <= narrow.high < mean.high
    failed = [*sampled[1:], CaseResult("0", "m", Status.ERROR, error="too long")]
    assert average_members(failed, 0.01) == average_intervals([row.interval for row in failed])
