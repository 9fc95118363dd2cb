"""The interval of a mean of probabilities misses it rarely, at every honest stop."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.marks import long

from llmchecker.checking.anytime.mean_evidence import SCALES, MeanEvidence, Member, bound_sums

ROWS, ROUND = 25, 8


def bound_mean(members: list[Member], error_probability: float) -> tuple[float, float]:
    """An interval of the mean of all members, from the bounds of their sum."""
    lows, highs = bound_sums(members, error_probability)
    return lows[-1] / len(members), highs[-1] / len(members)


def log_wealth(evidence: MeanEvidence, mean: float, sign: int) -> np.ndarray:
    """(scales,) the logarithm of what the evidence multiplies a wealth by."""
    sums = evidence.low_sums if sign > 0 else evidence.high_sums
    return sign * SCALES * (np.array(sums) - np.array(evidence.used) * mean) - evidence.penalties


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("chance", [0.5, 0.03, 0.9])
@pytest.mark.parametrize("limits", [(0.0, 1.0), (0.2, 0.5), (-0.5, 1.5)])
def test_the_expected_wealth_never_rises(sign, chance, limits):
    """Over all outcomes of two rounds, also of an interrupted one, the mean wealth is at most 1."""
    low, high = limits
    mean = low + chance * (high - low)
    expected = np.zeros(len(SCALES))
    for bits in itertools.product((0, 1), repeat=6):
        probability = math.prod(chance if bit else 1 - chance for bit in bits)
        values = low + np.array(bits) * (high - low)
        evidence = MeanEvidence().add_round(values[:3], 3, low, high, 6.0)
        # a stop after the first round if it was good, and a second round that its own end stops
        if bits[:3] != (1, 1, 1):
            known = 3 if bits[5] else 1
            evidence = evidence.add_round(values[3 : 3 + known], 3, low, high, 3.0)
        expected += probability * np.exp(log_wealth(evidence, mean, sign))
    assert (expected <= 1 + 1e-12).all()


def draw_member(random: np.random.Generator, probability: float, has_stops: bool = True) -> Member:
    """A member after rounds whose range shrinks, and which its values may end early."""
    evidence, low, high = MeanEvidence(), 0.0, 1.0
    for round_number in range(12):
        share = (probability - low) / (high - low)
        values = low + (random.random(ROUND) < share) * (high - low)
        planned = float(ROUND * (12 - round_number))
        known = ROUND
        # a limit ends rounds with many successes early
        if has_stops and values.sum() > 0.95 * high * ROUND:
            known = int(random.integers(ROUND))
        evidence = evidence.add_round(values[:known], ROUND, low, high, planned)
        if known < ROUND or (has_stops and values.max() == low):
            break
        low, high = low + (probability - low) / 16, high - (high - probability) / 16
    return Member(low, high, evidence)


def count_misses(
    seeds: int, *, has_stops: bool = True, is_shared: bool = False, penalty: float = 1.0
) -> int:
    """How often an interval with error probability 0.1 misses the mean of 25 probabilities."""
    misses = 0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        probabilities = np.full(ROWS, 0.3) if is_shared else random.random(ROWS) * 0.6
        members = []
        for number, probability in enumerate(probabilities):
            own = np.random.default_rng([seed, 0 if is_shared else number])
            member = draw_member(own, probability, has_stops)
            evidence = replace(
                member.evidence, penalties=tuple(penalty * np.array(member.evidence.penalties))
            )
            members.append(replace(member, evidence=evidence))
        low, high = bound_mean(members, 0.1)
        misses += not low <= probabilities.mean() <= high
    return misses


@pytest.mark.parametrize("count", [50, *long(200)])
def test_the_interval_misses_the_mean_rarely(count):
    """With and without stops by the values, at most a tenth of the intervals miss the mean."""
    assert count_misses(count) <= count // 10
    assert count_misses(count, has_stops=False) <= count // 10


@pytest.mark.long
def test_shared_random_numbers_fail_that_test():
    """Rows that share their random numbers do not average out, and the interval misses often."""
    assert count_misses(200, has_stops=False, is_shared=True) > 40


@pytest.mark.long
def test_missing_penalties_fail_that_test():
    """Without the penalties the interval misses often."""
    assert count_misses(200, has_stops=False, penalty=0.0) > 40


def test_more_rows_narrow_the_interval():
    """With 16 times the rows the interval is at most 0.4 as wide: deviations average out."""

    def width(rows: int) -> float:
        random = np.random.default_rng(1)
        members = [draw_member(random, 0.4, has_stops=False) for _ in range(rows)]
        low, high = bound_mean(members, 0.01)
        assert low <= 0.4 <= high
        return high - low

    assert width(16 * 16) < 0.4 * width(16)


def test_without_samples_the_certain_bounds_remain():
    """Rows without samples contribute their certain bounds, and no more."""
    low, high = bound_mean([Member(0.25, 0.25, None), Member(0.5, 1.0, None)], 0.1)
    assert low <= 0.375
    assert high >= 0.625
    assert low == pytest.approx(0.375, abs=0.02)
    assert high == pytest.approx(0.625, abs=0.02)


def test_json_keeps_every_bit():
    """Evidence that was stored as JSON gives the same interval."""
    member = draw_member(np.random.default_rng(3), 0.4)
    content = json.loads(json.dumps(vars(member.evidence)))
    assert MeanEvidence.from_json(content) == member.evidence
    with pytest.raises(ValueError, match=r"evidence\.used: "):
        MeanEvidence.from_json(content | {"used": [1.0]})
