"""Verdicts of intervals are exact, and combined intervals are rounded outwards."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.answer import Answer, Sampled
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.decision import Outcome
from llmchecker.checking.measurement import Measurement, average_measurements
from llmchecker.errors import ConfigError
from llmchecker.properties.logic.parser import parse
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.statistic import Statistic
from llmchecker.suites.verdicts import (
    CaseResult,
    Counts,
    Status,
    count_statuses,
    parse_threshold,
)
from llmchecker.utils.interval import Interval

PROBABILITIES = st.floats(0, 1)


def measured(lower=0.0, upper=1.0, low=0.0, high=1.0, estimate=None) -> Measurement:
    return Measurement(Interval(lower, upper), Interval(low, high), estimate)


@st.composite
def measurements(draw):
    lower, low, high, upper = sorted(draw(st.tuples(*[PROBABILITIES] * 4)))
    return measured(lower, upper, low, high, (low + high) / 2)


def exact(found: Measurement) -> list[Fraction]:
    return [Fraction(end) for end in list(found.as_json().values())[:4]]


@given(st.lists(measurements(), min_size=1, max_size=5))
def test_an_average_contains_the_mean_of_all_ends(several):
    """The interval of a mean contains the exact means of the ends, and little more."""
    lower, upper, low, high = (
        sum(ends) / len(several) for ends in zip(*map(exact, several), strict=True)
    )
    mean = average_measurements(several)
    assert Fraction(mean.certain.lower) <= lower <= upper <= Fraction(mean.certain.upper)
    assert Fraction(mean.sampled.lower) <= low <= high <= Fraction(mean.sampled.upper)
    assert float(lower) - mean.certain.lower < 1e-15


@given(measurements(), measurements())
def test_a_difference_contains_all_differences(first, second):
    """The interval of a difference contains the differences of opposite ends."""
    found = first - second
    for ends, one, other in (
        (found.certain, first.certain, second.certain),
        (found.sampled, first.sampled, second.sampled),
    ):
        assert Fraction(ends.lower) <= Fraction(one.lower) - Fraction(other.upper)
        assert Fraction(ends.upper) >= Fraction(one.upper) - Fraction(other.lower)


@pytest.mark.parametrize(
    ("text", "interval", "decision"),
    [
        # the float 0.7 is less than seven tenths
        (">= 0.7", measured(0.7, 1, 0.7, 1), (Outcome.UNKNOWN, False)),
        (">= 0.5", measured(0.5, 1, 0.6, 0.7), (Outcome.HOLDS, True)),
        ("> 0.5", measured(0.5, 1, 0.6, 0.7), (Outcome.HOLDS, False)),
        ("< 0.5", measured(0.5, 1, 0.6, 0.7), (Outcome.VIOLATED, True)),
        ("<= 0.5", measured(0, 0.5, 0, 0.5), (Outcome.HOLDS, True)),
        ("<= 0.3", measured(0, 1, 0.2, 0.4), (Outcome.UNKNOWN, False)),
        (">= -0.02", measured(-1, 1, -0.01, 0.2), (Outcome.HOLDS, False)),
    ],
)
def test_thresholds_compare_exactly(text, interval, decision):
    """Certain bounds decide before the interval, and decimals are compared exactly."""
    outcome, certain = decision
    found = parse_threshold(text).decide(interval, 0.99)
    assert (found.outcome, found.is_certain) == (outcome, certain)
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


def measure(rows):
    return AverageEstimator(Statistic(), None, 0.01, Interval(0.0, 1.0), 0).measure(rows)


def test_an_average_with_an_error_knows_nothing_of_its_row():
    """A row that failed may have any probability, and the samples of the others still count."""
    values = np.linspace(0.2, 0.4, 64)
    evidence = MeanEvidence().add_round(values, len(values), 0.0, 1.0, 64.0)
    sampled = Sampled(Interval(0.01, 0.99), 0.3, 0.999, 64)
    answer = Answer(parse("P=? [ F x = 1 ]"), 3, Interval(0.0, 1.0), sampled)
    rows = [CaseResult(str(n), "m", Status.MEASURED, answer=answer) for n in range(50)]
    with_evidence = [replace(row, evidence=evidence) for row in rows]
    mean = measure(rows)
    narrow = measure(with_evidence)
    wide, interval = mean.sampled, narrow.sampled
    assert (wide.lower, wide.upper) == (0.01, 0.99)
    assert wide.lower < interval.lower <= 0.3 <= interval.upper < wide.upper
    failed = [*with_evidence[1:], CaseResult("0", "m", Status.ERROR, error="too long")]
    left = measure(failed).sampled
    share = (len(rows) - 1) / len(rows)
    assert left.lower <= 0.3 * share < 0.3 * share + 1 / len(rows) <= left.upper
    assert left.width >= interval.width
    mean_of_intervals = average_measurements([row.measurement for row in failed]).sampled
    assert left.width < mean_of_intervals.width
