"""A predictor shrinks towards coarser situations, by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from llmchecker.checking.anytime.control_variates import _PRIOR_COUNT, SituationPredictor


def test_a_prediction_shrinks_towards_the_coarser_situation_and_the_mean():
    """Three samples of one situation and none of its sibling: both predictions as fractions."""
    found = SituationPredictor()
    # situation 0 is the coarse one of 1 and 2, situation 3 that of itself
    found.update_situations({1: 0, 2: 0, 3: 3}, 4)
    found.learn(np.array([1, 1, 1]), np.zeros(3, dtype=int), np.array([1.0, 0.0, 1.0]))
    prior, mean = Fraction(_PRIOR_COUNT), Fraction(5, 2) / 4
    assert found.mean == pytest.approx(float(mean))
    coarse = (2 + prior * mean) / (3 + prior)
    predictions = found.predict_all()
    assert predictions[1, 0] == pytest.approx(float((2 + prior * coarse) / (3 + prior)))
    assert predictions[2, 0] == pytest.approx(float(coarse))
    # no sample was in a rest, nor in the other coarse situation
    assert predictions[1, 1] == predictions[3, 0] == pytest.approx(float(mean))


def test_without_samples_every_prediction_is_one_half():
    """Nothing learned predicts 1/2 everywhere, also for situations that come later."""
    found = SituationPredictor()
    for count in (2, 5):
        found.update_situations({1: 0}, count)
        assert (found.predict_all() == 0.5).all()
        assert found.predict_all().shape == (count, 2)


def test_values_of_a_rest_are_learned_apart():
    """The `rest` of a text and the text itself have separate predictions."""
    found = SituationPredictor()
    found.update_situations({0: 0}, 1)
    found.learn(np.array([0, 0]), np.array([0, 1]), np.array([0.0, 1.0]))
    text, rest = found.predict_all()[0]
    assert text < found.mean < rest
