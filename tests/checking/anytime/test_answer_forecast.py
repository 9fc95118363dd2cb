"""Forecasts state what a decision or a width needs, as exactly as chance allows."""

import math
import random
from dataclasses import replace
from decimal import Decimal

import pytest
from helpers.forecasts import check_coin, try_coin, try_table

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.answer_forecast import (
    find_samples_to_hold,
    forecast_difference,
    forecast_width,
    round_up,
)
from llmchecker.checking.budget import Budget
from llmchecker.checking.forecast import Forecast, format_duration
from llmchecker.checking.measurement import Threshold
from llmchecker.utils.interval import PROBABILITIES, Interval


def history(exponent: float, rounds: int = 12, centre: float = 0.5) -> list[Progress]:
    """Intervals whose width is passes^exponent, at 100 passes a second."""
    passes = [round(100 * 1.25**number) for number in range(rounds)]
    halves = [count**exponent / 2 for count in passes]
    return [
        Progress(count, count / 100, PROBABILITIES, Interval(centre - half, centre + half), count)
        for count, half in zip(passes, halves, strict=True)
    ]


def bits(ones: int, zeros: int) -> list[bool]:
    """Return bits in a random order."""
    found = [True] * ones + [False] * zeros
    random.Random(0).shuffle(found)
    return found


def test_the_width_of_an_interval_of_samples_falls_with_the_square_root():
    """A tenth of the width needs 100 times the passes, however fast the last rounds narrowed."""
    for exponent in (-0.5, -1.0):
        rounds = history(exponent)
        budget = Budget(passes=500, width=rounds[-1].width / 10)
        forecast = forecast_width(rounds, budget, None)
        # two digits are off by at most 5 %
        assert forecast.passes == pytest.approx(100 * rounds[-1].passes, rel=0.06)
        assert forecast.seconds == pytest.approx(100 * rounds[-1].seconds, rel=0.06)


def test_certain_bounds_narrow_with_their_own_power():
    """Where no sample is drawn, the width goes on as the power of its last rounds."""
    rounds = [Progress(count, 1.0, Interval(0.0, 1 / count)) for count in range(1, 20)]
    forecast = forecast_width(rounds, Budget(width=0.01), None)
    assert forecast.passes == 100


@pytest.mark.parametrize(
    ("rounds", "width"),
    [
        (history(-0.5), 0.0),
        (history(-0.5), 1.0),
        (history(-0.5), 1e-12),
        ([Progress(n, 1.0, Interval(0.0, 0.9)) for n in range(1, 20)], 0.1),
        ([], 0.001),
    ],
)
def test_no_width_has_no_forecast_without_a_trend(rounds, width):
    """A width that is not wanted, reached or out of sight, and bounds that stay, have none."""
    assert forecast_width(rounds, Budget(passes=5, width=width), None) is None


@pytest.mark.parametrize("confidence", [0.9, 0.99, 1 - 0.01 / 40])
@pytest.mark.parametrize("number", ["0.001", "0.0005", "0.02"])
def test_a_rare_event_needs_ln_of_the_error_over_its_probability(number, confidence):
    """No confident method shows P <= p with fewer than about ln(1 / delta) / p samples."""
    limit = find_samples_to_hold(Threshold("<=", Decimal(number)), PROBABILITIES, confidence)
    expected = math.log(1 / (1 - confidence)) / float(number)
    assert limit == pytest.approx(expected, rel=float(number))
    # with this number alone, chance explains that no sample has the event
    probability, error = float(number), 1 - confidence
    assert (1 - probability) ** limit <= error < (1 - probability) ** (limit - 1)
    # the mirrored requirement needs as many
    mirrored = Threshold(">=", 1 - Decimal(number))
    assert abs(find_samples_to_hold(mirrored, PROBABILITIES, confidence) - limit) <= 1


def test_a_decided_part_of_the_mass_makes_the_limit_smaller():
    """If half of the mass is decided to be false, half of the samples can show P <= p."""
    whole = find_samples_to_hold(Threshold("<=", Decimal("0.001")), PROBABILITIES, 0.99)
    half = find_samples_to_hold(Threshold("<=", Decimal("0.001")), Interval(0.0, 0.5), 0.99)
    assert whole == 4603
    assert half == pytest.approx(whole / 2, rel=0.01)
    assert find_samples_to_hold(Threshold("<=", Decimal("0.6")), Interval(0, 0.5), 0.99) is None


@pytest.mark.parametrize("count", [1, 10, 300, 900, 3000])
def test_a_rare_requirement_is_never_promised_with_few_samples(count):
    """P <= 0.001 after answers without the event has a forecast above the 4,603 that it needs."""
    forecast = check_coin(bits(0, count), 0.001, 0.99).forecast
    assert forecast.samples_to_hold == 4603
    assert forecast.unit == "answer"
    assert "to hold it needs at least 4,603 answers" in forecast.requirement
    # only a violation can need fewer
    assert forecast.passes is None or forecast.passes > 4603


@pytest.mark.parametrize("count", [20, 300, 2000])
def test_an_estimate_at_the_threshold_has_no_single_number(count):
    """If as many answers satisfy the formula as the threshold says, no end is promised."""
    forecast = check_coin(bits(count // 2, count // 2), 0.5, 0.99).forecast
    assert forecast.passes is None
    assert forecast.most_passes is None
    assert forecast.least_passes > count


@pytest.mark.few(4)
@pytest.mark.parametrize("count", [30, 100, 1000])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.45, 0.5])
def test_no_forecast_is_at_or_below_what_was_used(count, share):
    """All passes of a forecast are more than the answers so far."""
    answer = check_coin(bits(int(count * share), count - int(count * share)), 0.5, 0.999999)
    if answer.holds is None:
        numbers = (answer.forecast.passes, answer.forecast.least_passes)
        assert all(each > count for each in numbers if each is not None)


def test_the_sides_of_a_comparison_need_four_times_for_half_of_the_distance():
    """A difference of half of the half-width has four times the samples within its range."""
    rounds = history(-0.5, centre=0.0)
    forecast = forecast_difference(rounds, rounds[-1].width / 4, 0.99)
    assert forecast.least_passes <= 4 * rounds[-1].passes <= forecast.most_passes
    assert forecast_difference(rounds, None, 0.99) is None
    assert forecast_difference(rounds, 0.0, 0.99).passes is None


@pytest.mark.parametrize("number", [1, 9, 10, 99, 100, 101, 4603, 99_999])
def test_rounding_upwards_keeps_two_digits(number):
    """A number rounded up is no smaller, and at most a tenth larger."""
    rounded = round_up(number)
    assert number <= rounded <= 1.1 * number
    assert len(str(rounded).rstrip("0")) <= 2


def check_trials(trials: list) -> None:
    """Check that numbers are within a factor of two, and that ranges contain what was needed."""
    forecasts = [trial.answer.forecast for trial in trials]
    for trial, forecast in zip(trials, forecasts, strict=True):
        numbers = (forecast.passes, forecast.least_passes, forecast.most_passes)
        assert all(number > trial.used for number in numbers if number is not None)
    single = [trial for trial in trials if trial.answer.forecast.passes is not None]
    assert len(single) >= 0.1 * len(trials)
    assert sum(trial.is_near for trial in single) >= 0.8 * len(single)
    ranges = [trial for trial in trials if trial.answer.forecast.least_passes is not None]
    assert sum(trial.is_in_range for trial in ranges) >= 0.7 * len(ranges)


def test_forecasts_of_few_questions_hold():
    """Of random coins and tables, four of five forecasts are within a factor of two."""
    trials = [*map(try_coin, range(8)), *map(try_table, range(5))]
    check_trials([trial for trial in trials if trial is not None and trial.needed < math.inf])


@pytest.mark.long
@pytest.mark.parametrize(("attempt", "count"), [(try_coin, 60), (try_table, 60)])
def test_forecasts_of_many_questions_hold(attempt, count):
    """Of random coins and of tables alone, four of five forecasts are within a factor of two."""
    trials = [trial for seed in range(count) if (trial := attempt(seed)) is not None]
    check_trials(trials)


def test_a_forecast_is_a_phrase():
    """The text has the passes, the time with one unit, and the goal."""
    assert str(Forecast(4000, 120.0, 0.02)) == "about 4,000 passes (2 min) for a width of 0.02"
    assert str(Forecast(1, 0.1)) == "about 1 pass (1 s) for a decision"
    wide = Forecast(None, 30.0, least_passes=900, most_passes=4000, unit="answer")
    assert str(wide) == "about 900 to 4,000 answers (from 30 s) for a decision"
    assert wide.requirement == "about 900 to 4,000 answers would decide it"
    rare = Forecast(None, 9.0, least_passes=900, samples_to_hold=4603, passes_to_hold=140_000)
    assert rare.requirement == (
        "a violation may show after about 900 passes or more; to hold it needs at least 4,603 "
        "samples (about 140,000 passes)"
    )
    assert str(replace(rare, passes_to_hold=None, samples_to_hold=800)).startswith(
        "about 900 passes or more (from 9 s) for a decision; "
    )
    unseen = Forecast(None, None, samples_to_hold=4603)
    assert str(unseen) == "to hold it needs at least 4,603 samples"
    assert [format_duration(seconds) for seconds in (59, 61, 7300, 200_000)] == [
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]
