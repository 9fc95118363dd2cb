"""Bets about a threshold: their error probability, by enumeration, and their costs."""

import math
import random
from itertools import product

import numpy as np
import pytest
from scipy import stats

from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence

STAKES = 64


def wealth(values: tuple[float, ...], number: float, sign: int, threshold: float) -> float:
    """The mean wealth of 64 gamblers with fixed stakes, multiplied value by value."""
    loss = (lambda m: m) if sign > 0 else (lambda m: 1 - m)
    total = 0.0
    for k in range(STAKES):
        stake = (k + 0.5) / STAKES / max(loss(threshold), 2.0**-40)
        stake = min(stake, (STAKES - 0.5) / STAKES / max(loss(number), 2.0**-40))
        total += math.prod(1 + stake * sign * (value - number) for value in values)
    return total / STAKES


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_a_threshold_is_rarely_refuted_if_it_is_the_mean(sign, threshold):
    """Over all sequences of nine bits, a mean at the threshold is ever refuted with d at most."""
    error, refuted, expected = 0.2, 0.0, 0.0
    for bits in product((0.0, 1.0), repeat=9):
        probability = math.prod(threshold if bit else 1 - threshold for bit in bits)
        evidence = ThresholdEvidence(error, sign, threshold)
        has_refuted = False
        for bit in bits:
            evidence.add(bit)
            has_refuted |= evidence.has_refuted_threshold
        refuted += probability * has_refuted
        expected += probability * wealth(bits, threshold, sign, threshold)
    assert expected == pytest.approx(1.0)
    assert 0 < refuted <= error


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_where_the_wealth_reaches_its_target(sign, seed):
    """Scores and bits move the end to the last refuted number, by the products of the bets."""
    chance, error = random.Random(seed), 0.01
    threshold = chance.choice([0.2, 0.5, 0.8])
    values = tuple(chance.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(80))
    evidence = ThresholdEvidence(error, sign, threshold)
    for value in values:
        evidence.add(value)
    evidence.narrow()
    end = evidence.end
    assert 0 < end < 1
    assert wealth(values, end, sign, threshold) >= 1 / error
    assert wealth(values, end + sign * 1e-6, sign, threshold) < 1 / error
    assert evidence.has_refuted_threshold == (sign * (end - threshold) >= 0)
    for _ in range(40):
        # values against the end do not move it back
        evidence.add(0.0 if sign > 0 else 1.0)
    evidence.narrow()
    assert evidence.end == end


@pytest.mark.parametrize(("threshold", "sign", "value"), [(1.0, -1, 0.0), (0.0, 1, 1.0)])
def test_one_value_refutes_a_threshold_at_an_end(threshold, sign, value):
    """One answer that fails excludes the probability 1, and one that passes excludes 0."""
    evidence = ThresholdEvidence(0.001, sign, threshold)
    evidence.add(1.0 - value)
    assert not evidence.has_refuted_threshold
    evidence.add(value)
    assert evidence.has_refuted_threshold


def test_a_threshold_costs_less_than_a_test_of_a_fixed_number():
    """Forty cases with a pass rate of 0.95 need fewer values than exact intervals of fixed size.

    The fixed number is the least with which Clopper's and Pearson's intervals decide all cases with
    probability 0.9, at the same joint confidence.
    """
    threshold, rate, cases, error = 0.8, 0.95, 40, 0.01 / 40 / 2
    fixed = next(
        count
        for count in range(20, 1000)
        if any(
            stats.binom.sf(passed - 1, count, rate) ** cases >= 0.9
            for passed in np.arange(int(threshold * count), count + 1)
            if stats.beta.ppf(error, passed, count - passed + 1) >= threshold
        )
    )
    chance, used = random.Random(0), 0
    for _ in range(cases):
        evidence = ThresholdEvidence(error, 1, threshold)
        while not evidence.has_refuted_threshold:
            evidence.add(float(chance.random() < rate))
            used += 1
    assert used <= 0.7 * fixed * cases
