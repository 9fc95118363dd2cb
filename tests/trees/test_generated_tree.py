"""Large generated trees are of the shape that a model grows, and every route checks them alike."""

import numpy as np
import pytest
from checking import QUERIES, fitted_exponent, measured_check, write_tree
from generated_tree import generated_scores, generated_tree

from llmchecker.checking import storm
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind


@pytest.mark.parametrize("states", [160, 1000, 12_345])
def test_a_generated_tree_is_a_whole_one(states):
    """It has just so many states, and children wherever a text has not reached the horizon."""
    tree = generated_tree(states, seed=1)
    assert len(tree) == states
    assert np.array_equal(
        tree.internal, (tree.kind == StateKind.TEXT) & (tree.step < tree.truncation.length)
    )
    assert [text is None for text in tree.text] == (tree.kind == StateKind.REST).tolist()


def test_the_same_seed_gives_the_same_tree():
    """Trees and scores are those of their seed, and differ between seeds."""
    one, same, other = (generated_tree(1000, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.probability, same.probability)
    assert not np.array_equal(one.probability, other.probability)
    for name, column in generated_scores(one, 1).items():
        assert np.array_equal(column, generated_scores(same, 1)[name])


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_route_agrees_on_a_generated_tree(seed, tmp_path):
    """Chain, PRISM program and JANI model give the same values, and explore the same states."""
    tree = generated_tree(700, seed)
    scores = generated_scores(tree, seed)
    write_prism(ScoredTree(tree, scores), tmp_path / "w.prism")
    write_jani(ScoredTree(tree, scores), tmp_path / "w.jani")
    chain = ScoredTree(tree, scores)
    for query in map(parse, QUERIES):
        checked = check_chain(chain, query)
        for answer in (
            storm.check_prism(tmp_path / "w.prism", query),
            storm.check_jani(tmp_path / "w.jani", query),
        ):
            assert answer.value == pytest.approx(checked.bounded, abs=1e-12)
            assert (answer.states, answer.transitions) == (
                checked.costs.states_explored,
                checked.costs.transitions_explored,
            )


@pytest.mark.long
def test_a_check_is_measured(tmp_path):
    """The measurement in a process of its own says of how many states its figures are."""
    write_tree(tmp_path, 500)
    figures = measured_check(tmp_path, QUERIES[0])
    assert figures["states"] == 500
    assert all(figure > 0 for figure in figures.values())


def test_the_exponent_is_the_power():
    """Figures that grow with the square have the exponent 2."""
    assert fitted_exponent([1e3, 1e4, 1e5], [3e6, 3e8, 3e10]) == pytest.approx(2)
