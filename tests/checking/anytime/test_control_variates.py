"""A predictor shrinks towards coarser predictions, by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.anytime_checks import Kind, copied, expected_score, plant, spread_model

from llmchecker.checking.anytime.control_variates import _PRIOR_COUNT, TextPredictor
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.partial_tree import PartialTree

KIND = Kind(("F", None, ("G", None, ("atom", "gender", ">", 0))))
MODEL = copied(spread_model(2), 2)
TEXT, REST = np.zeros(1, dtype=int), np.ones(1, dtype=int)


def grow(kind: Kind) -> tuple[PartialTree, Estimand]:
    """Return a tree of the start string and its children."""
    asked = kind.ask()
    tree, server = plant(asked, MODEL)
    root = np.array([0])
    tree.add_children(root, server.answer(tree.build_request(root)))
    return tree, Estimand.from_query(asked)


def test_without_samples_a_text_is_predicted_as_if_it_ended():
    """The prediction of each text is the truth of the formula if its last letter repeats."""
    tree, estimand = grow(KIND)
    found = TextPredictor(estimand).predict(
        tree, np.arange(len(tree)), np.zeros(len(tree), dtype=int)
    )
    assert set(found) == {0.0, 1.0}
    assert np.array_equal(found == 1, tree.scores[0] > 0)


def test_without_samples_a_score_is_predicted_as_it_is():
    """The prediction of an expected score is the score of the text, scaled to its range."""
    tree, estimand = grow(expected_score(3))
    found = TextPredictor(estimand).predict(
        tree, np.arange(len(tree)), np.zeros(len(tree), dtype=int)
    )
    scores = (tree.scores[0] - estimand.offset) / estimand.size
    assert found == pytest.approx(scores)


def test_a_prediction_shrinks_towards_the_situation_and_the_ended_text():
    """Three samples of one text: its prediction and that of a text in the same situation with
    another last token, as fractions."""
    tree, estimand = grow(KIND)
    numbers, counts = np.unique(tree.situation[1:], return_counts=True)
    number = numbers[counts > 1][0]
    text, sibling = np.flatnonzero(tree.situation == number)[:2]
    predictor = TextPredictor(estimand)
    predictor.learn(tree, np.full(3, text), np.zeros(3, dtype=int), np.array([1.0, 0.0, 1.0]))
    prior, ended = Fraction(_PRIOR_COUNT), Fraction(int(tree.truth_if_ended[0, text]))
    situation = (2 + prior * ended) / (3 + prior)
    own = (2 + prior * situation) / (3 + prior)
    assert predictor.predict(tree, np.array([text]), TEXT)[0] == pytest.approx(float(own))
    assert predictor.predict(tree, np.array([sibling]), TEXT)[0] == pytest.approx(float(situation))
    # no sample was in a rest
    assert predictor.predict(tree, np.array([text]), REST)[0] == float(ended)


def test_texts_of_new_situations_are_predicted_as_if_they_ended():
    """Texts that join the tree after the samples have no samples of their situation."""
    tree, estimand = grow(KIND)
    predictor = TextPredictor(estimand)
    predictor.learn(tree, np.array([0]), TEXT, np.array([1.0]))
    known = tree.situation_count
    uid = int(np.flatnonzero(tree.is_open)[-1])
    _, server = plant(KIND.ask(), MODEL)
    batch = np.array([uid])
    tree.add_children(batch, server.answer(tree.build_request(batch)))
    new = np.flatnonzero(tree.situation >= known)
    assert len(new)
    found = predictor.predict(tree, new, np.zeros(len(new), dtype=int))
    assert np.array_equal(found, tree.truth_if_ended[0, new])
