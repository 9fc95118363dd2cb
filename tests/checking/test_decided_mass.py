"""Sums over the texts of a tree are what Storm computes, and what enumeration finds."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.marks import examples
from helpers.random_tables import (
    QUANTIFIERS,
    RANGES,
    WITH_FINAL_SCORES,
    table_model,
    whole_tree,
)
from helpers.trees import by_hand, kept, scores, text_trees
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import bound_by_storm, bound_by_sums
from llmchecker.checking.check import check_query
from llmchecker.checking.decided_mass import DecidedMass
from llmchecker.checking.markov.rest_abstraction import abstract_rest
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.satisfaction import Satisfaction
from llmchecker.checking.tree_sums import TreeSums
from llmchecker.errors import ImpossibleCondition, InvalidQuery
from llmchecker.properties.logic.monitor import MAX_ATOMS, Monitor, is_linear_time
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.scores import score_tree
from llmchecker.trees.text_tree import StateKind
from llmchecker.utils.interval import Interval

NAMES = tuple(QUANTIFIERS)
EITHER = [QUANTIFIERS, WITH_FINAL_SCORES]
SMALL = dict.fromkeys(NAMES, (-2, 2))


def path_of(formula) -> tuple:
    """The query for a formula of the oracle, and its path."""
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    return query, query.root.path


about_texts = oracle.formulas(NAMES, nested=False).filter(lambda f: is_linear_time(path_of(f)[1]))


def split_whole(scored: ScoredTree, path) -> DecidedMass:
    """The decided mass of a path formula for the whole model."""
    return TreeSums(scored, is_whole_model=True).split_mass(path)


def compare_evaluators(tree, columns, query, ranges) -> None:
    """Compare the sums with Storm: value, least and greatest probability, and what is 0 or 1."""
    scored, path = ScoredTree(tree, columns, ranges), query.root.path
    for is_whole_model, process in (
        (False, scored.build_process(query)),
        (True, abstract_rest(scored, query)),
    ):
        sums = TreeSums(scored, is_whole_model=is_whole_model)
        for minimize in (True, False):
            found = sums.compute_probabilities(path, minimize)
            expected = Satisfaction(process).compute_probabilities(path, minimize)
            assert found.values == pytest.approx(expected.values, abs=1e-12)
            assert found.low == pytest.approx(expected.low, abs=1e-12)
            assert found.high == pytest.approx(expected.high, abs=1e-12)
            assert found.low <= found.values <= found.high
            assert found.is_zero == expected.is_zero
            assert found.is_one == expected.is_one
        assert not sums.is_limited


@examples(200)
@given(data=st.data(), formula=about_texts, ranges=st.sampled_from([RANGES, SMALL]))
def test_the_sums_are_what_storm_computes(data, formula, ranges):
    """Value, D and D + U are Storm's probabilities of the chain and of the decision process, and
    both evaluators know the same to be exactly 0 or 1."""
    tree = data.draw(text_trees())
    columns = data.draw(scores(tree, NAMES))
    query, path = path_of(formula)
    compare_evaluators(tree, columns, query, ranges)
    found = split_whole(ScoredTree(tree, columns, ranges), path)
    parts = found.satisfied, found.violated, found.undecided
    assert sum(part.value for part in parts) == pytest.approx(1, abs=1e-12)


@examples(100)
@given(data=st.data(), formula=about_texts, final=st.integers(-2, 2))
def test_final_scores_decide_the_same_for_storm(data, formula, final):
    """The sums are Storm's also where texts keep a score, and no wider than without."""
    tree = data.draw(text_trees())
    columns = data.draw(scores(tree, NAMES))
    columns["gender"] = kept(tree, columns["gender"], final)
    ranges = {"gender": (-2, 2, final), "polarity": (-2, 2)}
    query, path = path_of(formula)
    compare_evaluators(tree, columns, query, ranges)
    found, wider = (
        split_whole(ScoredTree(tree, columns, limits), path) for limits in (ranges, SMALL)
    )
    assert found.satisfied.value >= wider.satisfied.value - 1e-12
    assert found.violated.value >= wider.violated.value - 1e-12


@examples(100)
@given(
    data=st.data(),
    formula=about_texts,
    condition=about_texts,
    form=st.sampled_from(["P>={p} [ {f} ]", "P<{p} [ {f} ]", "E [ {f} ]", "P=? [ {f} || {g} ]"]),
    percent=st.sampled_from([0, 10, 49, 75, 100]),
)
def test_queries_of_path_formulas_have_the_same_answers(data, formula, condition, form, percent):
    """Thresholds, E and conditionals have the same value and bounds by both evaluators."""
    tree = data.draw(text_trees())
    columns = data.draw(scores(tree, NAMES))
    texts = {"f": oracle.written(formula), "g": oracle.written(condition), "p": percent / 100}
    query = parse(form.format(**texts))
    chain = ScoredTree(tree, columns, SMALL)
    sums = TreeSums(chain, is_whole_model=False)
    found = check_chain(chain, query, sums=sums)
    expected = check_chain(chain, query)
    assert found.bounded == pytest.approx(expected.bounded, abs=1e-12)
    assert found.notes == expected.notes
    try:
        interval, _ = bound_by_storm(chain, query)
    except ImpossibleCondition:
        with pytest.raises(ImpossibleCondition):
            bound_by_sums(chain, query)
        return
    found = bound_by_sums(chain, query)
    ends = interval.lower, interval.upper
    assert (found.lower, found.upper) == pytest.approx(ends, abs=1e-12)


def test_a_limit_of_the_monitors_leaves_the_bounds_to_storm(monkeypatch):
    """Where a monitor gives up, the bounds are Storm's and not wider."""
    tree = by_hand([(0, 0.5, StateKind.TEXT), (0, 0.5, StateKind.REST)], length=1)
    columns, query = {"gender": np.array([0, 1, 99])}, parse("P=? [ F gender >= 0 ]")
    ranges = {"gender": (0, 2)}
    assert bound_by_sums(ScoredTree(tree, columns, ranges), query) == Interval(1.0, 1.0)
    monkeypatch.setattr("llmchecker.properties.logic.monitor._MAX_SITUATIONS", 0)
    query = parse("P=? [ X gender >= 0 ]")
    assert bound_by_sums(ScoredTree(tree, columns, ranges), query) is None
    assert check_query(ScoredTree(tree, columns, ranges), query).certain == Interval(1.0, 1.0)


def test_a_limit_that_one_formula_met_stays_known(monkeypatch):
    """Of the formulas of a query one may meet a limit; those after it do not undo it."""
    tree = by_hand([(0, 0.5, StateKind.TEXT), (0, 0.5, StateKind.REST)], length=1)
    scored = ScoredTree(tree, {"gender": np.array([0, 1, 99])}, {"gender": (0, 2)})
    sums = TreeSums(scored, is_whole_model=True)
    assert not sums.is_limited
    for text, limit in (("X gender >= 0", 0), ("F step = 1", 1_000)):
        monkeypatch.setattr("llmchecker.properties.logic.monitor._MAX_SITUATIONS", limit)
        sums.split_mass(parse(f"P=? [ {text} ]").root.path)
        assert sums.is_limited


def test_children_that_do_not_add_up_to_one_leave_the_value_within_the_bounds():
    """Rounded decimals of a table may lack 5e-10: the value is a sum of what is there."""
    tree = by_hand([(0, 1 - 5e-10, StateKind.END), (0, 1e-14, StateKind.REST)])
    columns, query = {"gender": np.array([0, 1, 99])}, parse("P=? [ F gender = 1 ]")
    found = check_query(ScoredTree(tree, columns, RANGES), query)
    assert found.lower <= found.bounded <= found.upper


def test_bounds_next_to_one_are_not_rounded_to_one():
    """1 - 1e-20 is less than 1, though float64 has no such number."""
    tree = by_hand([(0, 1.0, StateKind.END), (0, 1e-20, StateKind.END)])
    columns, query = {"gender": np.array([0, 0, 1])}, parse("P=? [ G gender = 0 ]")
    interval = bound_by_sums(ScoredTree(tree, columns, RANGES), query)
    assert interval.lower < 1 == interval.upper
    for text, holds in (("P>=1 [ G gender = 0 ]", False), ("P>0 [ F gender = 1 ]", True)):
        assert check_query(ScoredTree(tree, columns, RANGES), parse(text)).certain == Interval(
            holds, holds
        )


@examples(100)
@given(seed=st.integers(0, 2**32), formula=about_texts)
def test_without_rest_all_is_decided_as_enumeration_says(seed, formula):
    """On the tree of all texts nothing is undecided, and D is the probability in fractions."""
    tree = whole_tree(table_model(seed), 3)
    columns = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    _, path = path_of(formula)
    found = split_whole(ScoredTree(tree, columns, RANGES), path)
    exact = oracle.Tree(tree.parent, tree.probability, tree.kind, {"step": tree.step, **columns})
    assert found.undecided.is_empty
    assert Fraction(found.satisfied.value) == pytest.approx(
        exact.probability_of(formula), abs=1e-15
    )


@examples(100)
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
