"""Expected scores from samples: intervals cover the truth, and are as narrow as they promise."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.random_tables import START, Balance, table_model, whole_tree
from scipy.stats import binomtest

from llmchecker.checking.anytime.answer import check_anytime
from llmchecker.checking.anytime.budget import AnswerBudget, SamplingPlan
from llmchecker.checking.anytime.confidence_intervals import (
    compute_mean_interval,
    compute_required_values,
)
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.query_estimate import _estimate_query, build_samplers
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import score_tree
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, Truncation

LENGTH = 3


class Ranged(Balance):
    """How many more a than b a text of the start string and `LENGTH` letters has."""

    def __init__(self) -> None:
        super().__init__("a", "b")
        self.minimum, self.maximum = -LENGTH, LENGTH + 1


RANGED = {"gender": Ranged()}


def truth(model, step: int) -> Fraction:
    """The expected score by enumeration of all texts, in exact numbers."""
    tree = whole_tree(model, LENGTH)
    mass = [Fraction(1)]
    for parent, probability in zip(tree.parent[1:], tree.probability[1:], strict=True):
        mass.append(mass[parent] * Fraction(float(probability)))
    scores = score_tree(RANGED["gender"], tree).tolist()
    there = (tree.step == step) | ((tree.kind == StateKind.END) & (tree.step < step))
    return sum(mass[uid] * scores[uid] for uid in np.flatnonzero(there))


def samplers(model, step: int, alpha: float = 0.6, k: int = 2):
    cut = Truncation(alpha, k, LENGTH)
    tree = build_tree(model, START, cut)
    query = CheckedQuery(parse(f'R{{"gender"}}=? [ I={step} ]'), RANGED, LENGTH)
    scores = {"gender": score_tree(RANGED["gender"], tree)}
    return build_samplers(model, model.encode(START), tree, scores, query, "terminal")


def misses_too_often(misses: int, repetitions: int, left_out: float) -> bool:
    """Whether an interval would miss so often less than once in a million."""
    return binomtest(misses, repetitions, left_out, alternative="greater").pvalue < 1e-6


@pytest.mark.long
def test_intervals_of_expected_scores_cover_the_truth():
    """Over 2,000 seeds on 20 random models the interval of confidence 0.95 misses the expected
    score no more often than a twentieth of the time."""
    misses = 0
    for number in range(20):
        model = table_model(number)
        step = 1 + number % LENGTH
        true = truth(model, step)
        (sampler,) = samplers(model, step)
        for seed in range(100):
            sampling = SamplingPlan(samples=40, confidence=0.95, seed=seed)
            found = _estimate_query([sampler], sampling)
            assert found.low <= found.estimate <= found.high
            misses += not found.low <= true <= found.high
    assert not misses_too_often(misses, 2000, 0.05)


def test_a_refined_expected_score_covers_the_truth_within_the_certain_bounds():
    """A whole inquiry gives an interval inside the certain bounds, and the truth lies in both."""
    misses = 0
    for seed in range(15):
        model = table_model(seed)
        query = CheckedQuery(parse('R{"gender"}=? [ I=2 ]'), RANGED, LENGTH)
        effort = AnswerBudget(passes=60, confidence=0.9, seed=seed)
        verdict = check_anytime(model, START, query, effort).verdict
        true = float(truth(model, 2))
        assert verdict.lower - 1e-9 <= true <= verdict.upper + 1e-9
        assert verdict.lower - 1e-9 <= verdict.low <= verdict.high <= verdict.upper + 1e-9
        misses += not verdict.low - 1e-9 <= true <= verdict.high + 1e-9
    assert not misses_too_often(misses, 15, 0.1)


@pytest.mark.parametrize("n", [1, 7, 100])
def test_more_samples_extend_fewer(n):
    """The first texts of 100 samples are those of any smaller number."""
    (sampler,) = samplers(table_model(2), 3)
    assert sampler.draw_texts(4, 0, 100)[:n] == sampler.draw_texts(4, 0, n)
    assert sampler.score_samples(4, 0, n).tolist() == [
        RANGED["gender"]("", text) for text in sampler.draw_texts(4, 0, n)
    ]


def test_the_number_of_values_suffices_however_they_come_out():
    """With as many values as are asked for, the interval of the most spread ones is narrow
    enough, and so it is in the units of the score."""
    n = compute_required_values(0.2, 0.95, 10**6)
    low, high = compute_mean_interval(np.arange(n) % 2 * 1.0, 0.95)
    assert high - low <= 0.2
    (sampler,) = samplers(table_model(2), 3)
    found = _estimate_query([sampler], SamplingPlan(width=0.5, confidence=0.9))
    assert found.high - found.low <= 0.5


def test_all_known_takes_no_samples():
    """On a tree without `rest` the estimate is the expected score, and the model is not asked."""
    model = table_model(1)
    whole = samplers(model, 3, 1.0, 9)
    found = _estimate_query(whole, SamplingPlan(samples=50))
    assert (found.samples, found.passes, found.satisfying) == (0, 0, None)
    assert found.low <= truth(model, 3) <= found.high <= found.low + 1e-9
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("bounds", [(None, 3), (0, None), (None, None)])
def test_scores_without_a_range_are_not_estimated(bounds):
    """A mean of which one value may be arbitrarily large has no interval, with the reason."""
    query = parse('R{"gender"}=? [ I=2 ]')
    gender = Ranged()
    gender.minimum, gender.maximum = bounds
    reason = CheckedQuery(query, {"gender": gender}, LENGTH).estimation_obstacle
    assert reason.startswith("gender has no least or no greatest score")
    assert CheckedQuery(query, RANGED, LENGTH).estimation_obstacle is None
