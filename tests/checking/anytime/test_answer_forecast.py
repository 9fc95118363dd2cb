"""Forecasts of passes follow the trend of the last rounds, and are absent without one."""

import pytest

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.answer_forecast import (
    Forecast,
    forecast_decision,
    forecast_width,
)
from llmchecker.checking.forecast import format_duration
from llmchecker.checking.interval import PROBABILITIES, Interval


def history(exponent: float, rounds: int = 12, centre: float = 0.5) -> list[Progress]:
    """Intervals whose width is passes^exponent, at 100 passes a second."""
    passes = [round(100 * 1.25**number) for number in range(rounds)]
    halves = [count**exponent / 2 for count in passes]
    return [
        Progress(count, count / 100, PROBABILITIES, Interval(centre - half, centre + half), count)
        for count, half in zip(passes, halves, strict=True)
    ]


@pytest.mark.parametrize("exponent", [-0.5, -0.75, -1.0])
def test_the_forecast_continues_the_power(exponent):
    """For a width of passes^e, a hundredth of the width needs 100^(-1/e) times the passes."""
    rounds = history(exponent)
    forecast = forecast_width(rounds, rounds[-1].width / 100)
    factor = 100 ** (-1 / exponent)
    # one significant digit is off by at most a half of it
    assert forecast.passes == pytest.approx(rounds[-1].passes * factor, rel=0.34)
    assert forecast.seconds == pytest.approx(rounds[-1].seconds * factor, rel=0.01)


def test_a_decision_needs_the_half_that_reaches_to_the_threshold():
    """A centre at half of the half-width from the threshold needs half of the width."""
    rounds = history(-0.5)
    quarter = rounds[-1].width / 4
    forecast = forecast_decision(rounds, 0.5 - quarter)
    assert forecast.seconds == pytest.approx(4 * rounds[-1].seconds, rel=0.01)
    assert forecast_decision(rounds, 0.5 + quarter) == forecast
    assert forecast.width is None


@pytest.mark.parametrize(
    ("rounds", "width"),
    [
        (history(-0.5), 0.0),
        (history(-0.5), 1.0),
        (history(-0.5, rounds=3), 0.001),
        (history(-0.1), 0.001),
        (history(0.2), 0.001),
        (history(-0.5), 1e-12),
        ([], 0.001),
    ],
)
def test_no_width_has_no_forecast_without_a_trend(rounds, width):
    """A width that is not wanted, reached or out of sight, and a short or flat history."""
    assert forecast_width(rounds, width) is None


def test_no_decision_has_a_forecast_at_the_threshold_or_without_samples():
    """An interval that shrinks to the threshold never excludes it, nor do certain bounds alone."""
    assert forecast_decision(history(-0.5), 0.5) is None
    certain = [Progress(count, 1.0, Interval(0.0, 1 / count)) for count in range(1, 20)]
    assert forecast_decision(certain, 0.01) is None
    assert forecast_width(certain, 0.01) is not None


def test_a_forecast_is_a_phrase():
    """The text has the passes, the time with one unit, and the goal."""
    assert str(Forecast(4000, 120.0, 0.02)) == "about 4,000 passes (2 min) for a width of 0.02"
    assert str(Forecast(1, 0.1)) == "about 1 pass (1 s) for a decision"
    assert [format_duration(seconds) for seconds in (59, 61, 7300, 200_000)] == [
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]
