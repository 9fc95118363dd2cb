"""Betting: the wealth is a supermartingale, its intervals only narrow, and ratios are ordered."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.anytime import confidence_sequence
from llmchecker.checking.anytime.confidence_sequence import (
    _MAX_LOSS,
    ConfidenceSequence,
    Values,
    predict_variances,
)


def build_values(numerator, denominator=None, low=0.0, high=1.0, earlier=(), size=1.0) -> Values:
    """Values of a mean in [low, high], or of a ratio, with the variances that they predict."""
    numerator = np.array(numerator, dtype=float)
    ones = np.ones(len(numerator))
    denominator = ones if denominator is None else np.array(denominator, dtype=float)
    variances = predict_variances(np.array(earlier), numerator)
    return Values(numerator, denominator, low, high, size, variances, planned=2.0 * len(numerator))


def compute_wealths(gambler, ratios: np.ndarray) -> np.ndarray:
    """(2, n, m): both parts of the wealth after each value at each ratio."""
    return np.concatenate(list(gambler._iter_wealths(ratios)), axis=1)


PROBABILITIES = (0.05, 0.5, 0.9)
VALUES = ((0.0, 1.0), (-0.3, 1.1), (0.4, 0.5))
THRESHOLDS = (None, 0.1, 0.8)
# every pair of a probability, two values and a threshold
PAIRS = [
    (PROBABILITIES[i], *VALUES[j], THRESHOLDS[(i + j) % 3]) for i in range(3) for j in range(3)
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("probability", "small", "large", "threshold"), PAIRS)
def test_the_expected_wealth_never_rises(probability, small, large, threshold):
    """Over all sequences of six two-point values the mean wealth of each gambler at the true mean
    is at most 1, however its stakes follow from earlier values."""
    mean = probability * large + (1 - probability) * small
    totals = np.zeros((2, 2, 6))
    for sequence in product((0, 1), repeat=6):
        weight = probability ** sum(sequence) * (1 - probability) ** (6 - sum(sequence))
        values = [large if drawn else small for drawn in sequence]
        found = ConfidenceSequence(0.9, threshold)
        found.narrow_interval(build_values(values[:3], low=-0.5, high=1.2))
        found.narrow_interval(build_values(values[3:], low=-0.5, high=1.2, earlier=values[:3]))
        for number, gambler in enumerate(found._gamblers):
            totals[number] += weight * compute_wealths(gambler, np.array([mean]))[:, :, 0]
    assert totals == pytest.approx(np.ones((2, 2, 6)), abs=1e-9)


@pytest.mark.parametrize("threshold", [None, 0.1, 0.8])
def test_later_values_do_not_change_earlier_bets(threshold):
    """The wealth after three values is the same whatever the other three are."""
    found = []
    for last in ([0.0, 0.0, 0.0], [1.0, 0.2, 0.9]):
        sequence = ConfidenceSequence(0.9, threshold)
        sequence.narrow_interval(build_values([0.3, 0.9, 0.1, *last]))
        ratios = np.array([0.2, 0.4])
        found.append([compute_wealths(each, ratios)[:, :3] for each in sequence._gamblers])
    assert np.array_equal(*found)


def test_a_round_gives_the_wealth_of_its_parts():
    """A round of 64 values gives the wealth of rounds of 8, 8, 16 and 32 values."""
    values = build_values(np.random.default_rng(0).beta(1, 8, 64))
    together, apart = ConfidenceSequence(0.99), ConfidenceSequence(0.99)
    together.narrow_interval(values)
    for start, stop in ((0, 8), (8, 16), (16, 32), (32, 64)):
        columns = (values.numerator, values.denominator, values.variances)
        numerator, denominator, variances = (column[start:stop] for column in columns)
        planned = values.planned - start
        apart.narrow_interval(Values(numerator, denominator, 0.0, 1.0, 1.0, variances, planned))
    ratios = np.linspace(0.05, 0.3, 6)
    for whole, parts in zip(together._gamblers, apart._gamblers, strict=True):
        assert np.array_equal(compute_wealths(whole, ratios), compute_wealths(parts, ratios))
    assert together.interval[0] > 0


@given(
    rounds=st.lists(
        st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    ),
    is_ratio=st.booleans(),
)
def test_intervals_narrow_and_wealth_follows_the_ratio(rounds, is_ratio):
    """No end moves outwards, and the wealth of each gambler falls towards its side."""
    found, earlier = ConfidenceSequence(0.8), []
    ends = (0.0, 1.0)
    for pairs in rounds:
        numerator, denominator = np.array(pairs).T
        denominator = denominator if is_ratio else None
        found.narrow_interval(build_values(numerator, denominator, earlier=earlier))
        earlier += numerator.tolist()
        low, high = (gambler.end for gambler in found._gamblers)
        assert ends[0] <= low
        assert high <= ends[1]
        ends = low, high
        for gambler in found._gamblers:
            wealths = compute_wealths(gambler, np.linspace(0.01, 0.99, 30))
            steps = gambler.sign * np.diff(wealths, axis=2)
            assert (steps <= 1e-9 * wealths[:, :, :-1]).all()
    assert found.interval == tuple(sorted(ends))


def test_no_value_of_the_range_makes_the_wealth_negative():
    """After values that promise large stakes, one at the end of the range leaves some wealth."""
    for sign, last in ((0, -0.25), (1, 1.5)):
        found = ConfidenceSequence(0.9)
        found.narrow_interval(build_values([0.5] * 30 + [last], low=-0.25, high=1.5))
        wealths = compute_wealths(found._gamblers[sign], np.array([0.3, 0.5, 0.7]))
        factors = wealths[:, -1] / wealths[:, -2]
        assert (factors >= 1 - _MAX_LOSS - 1e-9).all()
        assert (factors < 1).all()


def test_an_end_is_where_the_wealth_reaches_its_target():
    """At the last refuted ratio the wealth once was 1/d, and a little beyond it never was."""
    found = ConfidenceSequence(0.9)
    found.narrow_interval(build_values(np.random.default_rng(0).random(200)))
    for gambler in found._gamblers:

        def largest_wealth(ratio, gambler=gambler):
            planned, any_time = compute_wealths(gambler, np.array([ratio]))[:, :, 0]
            return (0.9 * planned + 0.1 * any_time).max()

        step = (found.estimate - gambler.end) / 1000
        assert largest_wealth(gambler.end) >= 20 > largest_wealth(gambler.end + step)
    low, high = found.interval
    assert 0.3 < low < found.estimate < high < 0.7


def test_the_estimate_weights_values_by_their_precision():
    """A ratio of sums over variances; without values it is 1/2."""
    found = ConfidenceSequence(0.9)
    assert (found.estimate, len(found), found.interval) == (0.5, 0, (0.0, 1.0))
    variances = np.array([0.5, 0.25])
    found.narrow_interval(
        Values(np.array([0.2, 0.6]), np.array([0.4, 1.0]), 0, 1, 1.0, variances, 2)
    )
    assert found.estimate == pytest.approx((2 * 0.2 + 4 * 0.6) / (2 * 0.4 + 4 * 1.0))


@given(st.lists(st.floats(0, 1), max_size=5), st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_a_predicted_variance_depends_on_earlier_values_only(earlier, values):
    """Other values from some position on leave the predictions up to there as they are."""
    found = predict_variances(np.array(earlier), np.array(values))
    changed = predict_variances(np.array(earlier), np.array([*values[:-1], 1 - values[-1]]))
    assert np.array_equal(found, changed)
    assert (found > 0).all()


def test_blocks_of_values_change_no_interval(monkeypatch):
    """However many values are in memory at once, the wealths and the interval are the same bits."""
    numbers = np.random.default_rng(3).random(50)

    def find_interval() -> tuple[float, float]:
        sequence = ConfidenceSequence(0.8)
        for start in (0, 20):
            part = numbers[start : start + 30]
            sequence.narrow_interval(build_values(part, earlier=numbers[:start]))
        return sequence.interval

    whole = find_interval()
    monkeypatch.setattr(confidence_sequence, "_BLOCK", 7)
    assert find_interval() == whole
    assert whole[0] > 0


@pytest.mark.filterwarnings("error")
def test_a_lost_wealth_keeps_what_it_refuted():
    """A wealth that falls below the least float is no error, and an earlier refutation stays."""
    numbers = np.concatenate([np.ones(60), np.zeros(1500)])
    at_once, in_turn = ConfidenceSequence(0.8), ConfidenceSequence(0.8)
    whole = build_values(numbers)
    at_once.narrow_interval(replace(whole, planned=60.0))
    for part in (slice(0, 60), slice(60, None)):
        columns = (whole.numerator[part], whole.denominator[part])
        later = replace(whole, numerator=columns[0], denominator=columns[1], planned=60.0)
        in_turn.narrow_interval(replace(later, variances=whole.variances[part]))
    # bets on ones that never come again
    assert at_once.interval[1] >= 0.9
    assert in_turn.interval[1] >= 0.9
    equal = ConfidenceSequence(0.95)
    equal.narrow_interval(build_values(np.zeros(300)))
    assert equal.interval[0] == 0
    assert equal.interval[1] < 0.03
