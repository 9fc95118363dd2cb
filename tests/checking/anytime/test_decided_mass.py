"""What a tree decides of a path formula is what Storm bounds, and what enumeration finds."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.decided_mass import split_mass
from helpers.random_tables import (
    QUANTIFIERS,
    RANGES,
    WITH_FINAL_SCORES,
    table_model,
    whole_tree,
)
from helpers.trees import kept, scores, text_trees
from hypothesis import given, settings
from hypothesis import strategies as st

from llmchecker.checking import bounds
from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.monitor import MAX_ATOMS, Monitor, is_linear_time
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.scores import score_tree

NAMES = tuple(QUANTIFIERS)
EITHER = [QUANTIFIERS, WITH_FINAL_SCORES]
SMALL = dict.fromkeys(NAMES, (-2, 2))


def path_of(formula) -> tuple:
    """The query for a formula of the oracle, and its path."""
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    return query, query.root.path


about_texts = oracle.formulas(NAMES, nested=False).filter(lambda f: is_linear_time(path_of(f)[1]))


@settings(max_examples=200)
@given(data=st.data(), formula=about_texts, ranges=st.sampled_from([RANGES, SMALL]))
def test_the_decided_mass_is_what_storm_bounds(data, formula, ranges):
    """D and D + U are the least and the greatest probability of Storm's decision process."""
    tree = data.draw(text_trees())
    columns = data.draw(scores(tree, NAMES))
    query, path = path_of(formula)
    found = split_mass(tree, columns, Monitor(path, tree.truncation.length, ranges))
    interval, _ = bounds.compute_bounds(tree, columns, query, ranges)
    assert found.satisfied_mass == pytest.approx(interval.lower, abs=1e-12)
    assert found.satisfied_mass + found.undecided_mass == pytest.approx(interval.upper, abs=1e-12)
    assert found.satisfied_mass + found.violated_mass + found.undecided_mass == pytest.approx(
        1, abs=1e-12
    )


@settings(max_examples=200)
@given(data=st.data(), formula=about_texts, final=st.integers(-2, 2))
def test_final_scores_decide_the_same_for_storm(data, formula, final):
    """D and D + U are Storm's bounds also where texts keep a score, and no wider than without."""
    tree = data.draw(text_trees())
    columns = data.draw(scores(tree, NAMES))
    columns["gender"] = kept(tree, columns["gender"], final)
    ranges = {"gender": (-2, 2, final), "polarity": (-2, 2)}
    query, path = path_of(formula)
    found = split_mass(tree, columns, Monitor(path, tree.truncation.length, ranges))
    interval, _ = bounds.compute_bounds(tree, columns, query, ranges)
    assert found.satisfied_mass == pytest.approx(interval.lower, abs=1e-12)
    assert found.satisfied_mass + found.undecided_mass == pytest.approx(interval.upper, abs=1e-12)
    wider = split_mass(tree, columns, Monitor(path, tree.truncation.length, SMALL))
    assert found.satisfied_mass >= wider.satisfied_mass - 1e-12
    assert found.violated_mass >= wider.violated_mass - 1e-12


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), formula=about_texts)
def test_without_rest_all_is_decided_as_enumeration_says(seed, formula):
    """On the tree of all texts nothing is undecided, and D is the probability in fractions."""
    tree = whole_tree(table_model(seed), 3)
    columns = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    _, path = path_of(formula)
    found = split_mass(tree, columns, Monitor(path, 3, RANGES))
    exact = oracle.Tree(tree.parent, tree.probability, tree.kind, {"step": tree.step, **columns})
    assert found.undecided_mass == 0
    assert Fraction(found.satisfied_mass) == pytest.approx(exact.probability_of(formula), abs=1e-15)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), formula=about_texts, quantifiers=st.sampled_from(EITHER))
def test_every_continuation_of_a_decided_text_has_the_same_truth(seed, formula, quantifiers):
    """Where a text of some model is decided, no text of that model that begins with it differs."""
    tree = whole_tree(table_model(seed), 3)
    columns = {name: score_tree(each, tree) for name, each in quantifiers.items()}
    reading = Monitor(path_of(formula)[1], 3, collect_ranges(quantifiers))
    exact = oracle.Tree(tree.parent, tree.probability, tree.kind, {"step": tree.step, **columns})
    words = reading.compute_letters({"step": tree.step, **columns}, tree.kind == 2)
    for path, _ in exact.paths(0):
        truth, pending = exact.holds(formula, path), reading.initial_obligation
        for step, state in enumerate(path[:-1]):
            pending = reading.progress(pending, int(words[state]))
            assert reading.decide(pending, step + 1, int(words[state])) in (None, truth)
        assert reading.holds_under_stutter(pending, int(words[path[-1]])) == truth


@pytest.mark.parametrize(
    "path",
    ["F (P>0.5 [ X gender > 0 ])", "G (E [ F gender > 0 ])", 'F "rest"', "A [ F gender > 0 ]"],
)
def test_what_no_single_text_decides_is_refused(path):
    """A nested P, E or A, or "rest", is not read along texts."""
    with pytest.raises(InvalidQuery, match="single texts do not decide"):
        Monitor(parse(f"P=? [ {path} ]").root.path, 3, RANGES)


def test_more_comparisons_than_bits_are_refused():
    """One atom more than an integer has bits is refused by their number."""
    atoms = " & ".join(f"gender > {i}" for i in range(MAX_ATOMS + 1))
    with pytest.raises(InvalidQuery, match=f"{MAX_ATOMS + 1} comparisons"):
        Monitor(parse(f"P=? [ F ({atoms}) ]").root.path, 3, RANGES)


def test_a_bounded_formula_counts_the_steps_that_are_left():
    """After one step without a hit F<=2 is F<=1: of a text that is as it was, one step is left."""
    reading = Monitor(parse("P=? [ F<=2 gender > 0 ]").root.path, 5, RANGES)
    miss = int(
        reading.compute_letters(
            {"step": np.array([0]), "gender": np.array([0])}, np.array([False])
        )[0]
    )
    first = reading.progress(reading.initial_obligation, miss)
    second = reading.progress(first, miss)
    assert reading.decide(first, 1, miss) is None
    assert reading.decide(second, 2, miss) is None
    assert reading.decide(reading.progress(second, miss), 3, miss) is False
