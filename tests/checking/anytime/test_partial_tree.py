"""A partial tree: its masses are Storm's bounds, hold the truth, and do not depend on batches."""

import numpy as np
import pytest
from helpers import oracle
from helpers.anytime_checks import SHORT_VISITS, TableServer, plant, serve
from helpers.decided_mass import split_mass
from helpers.random_tables import (
    QUANTIFIERS,
    START,
    WITH_FINAL_SCORES,
    table_model,
    whole_tree,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from llmchecker.checking import bounds
from llmchecker.checking.anytime import partial_tree
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.partial_tree import PartialTree
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.refinement import select_batch
from llmchecker.checking.markov import dtmc
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.monitor import HorizonMonitor, is_linear_time
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import score_tree
from llmchecker.trees.text_tree import StateKind

LENGTH = 3
NAMES = tuple(QUANTIFIERS)


def query_of(formula):
    return parse(f"P=? [ {oracle.written(formula)} ]")


about_texts = oracle.formulas(NAMES, nested=False).filter(
    lambda formula: is_linear_time(query_of(formula).root.path)
)


@pytest.fixture(autouse=True)
def _short_visits(monkeypatch):
    """Visits that leave something to the next one on a vocabulary of five."""
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT", SHORT_VISITS)
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT_AT_HORIZON", SHORT_VISITS)


def find_truth(model, formula, quantifiers) -> float:
    """The probability of a path formula by enumerating all texts."""
    whole = whole_tree(model, LENGTH)
    columns = {name: score_tree(each, whole) for name, each in quantifiers.items()}
    columns |= {"step": whole.step}
    exact = oracle.Tree(whole.parent, whole.probability, whole.kind, columns)
    return float(exact.probability_of(formula))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    formula=about_texts,
    passes=st.integers(1, 30),
    certain=st.booleans(),
    quantifiers=st.sampled_from([QUANTIFIERS, WITH_FINAL_SCORES]),
)
def test_masses_are_the_bounds_of_storm_and_hold_the_truth(
    seed, formula, passes, certain, quantifiers
):
    """D and 1 - V only narrow, contain the truth, and are Storm's bounds of the built tree, also
    where samples have visited it; its scores are those of its texts."""
    model, asked = table_model(seed), CheckedQuery(query_of(formula), quantifiers, LENGTH)
    tree, server = plant(asked, model)
    seen = []
    check = AnytimeCheck(
        tree, asked, AnswerBudget(passes=passes, certain=certain), lambda now: seen.append(now)
    )
    serve(check.run(), server)
    assert tree.passes <= passes
    truth = find_truth(model, formula, quantifiers)
    lower, upper = [now.lower for now in seen], [now.upper for now in seen]
    assert lower == pytest.approx(sorted(lower), abs=1e-12)
    assert upper == pytest.approx(sorted(upper, reverse=True), abs=1e-12)
    ends = tree.satisfied_mass(), 1 - tree.violated_mass()
    assert ends[0] - 1e-12 <= truth <= ends[1] + 1e-12
    built, scores = tree.build_tree()
    for name, quantifier in quantifiers.items():
        is_text = built.kind != StateKind.REST
        assert np.array_equal(scores[name][is_text], score_tree(quantifier, built)[is_text])
    split = split_mass(built, scores, asked.monitors[0])
    assert split.satisfied_mass == pytest.approx(ends[0], abs=1e-12)
    assert split.violated_mass == pytest.approx(tree.violated_mass(), abs=1e-12)
    interval, _ = bounds.compute_bounds(built, scores, asked.query, asked.ranges)
    assert (interval.lower, interval.upper) == pytest.approx(ends, abs=1e-12)
    assert len(dtmc.build_dtmc(built, scores)) == len(built)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), formula=about_texts)
def test_a_tree_without_rest_decides_the_truth(seed, formula):
    """After a refinement without a limit both bounds are the enumerated probability."""
    model, asked = table_model(seed), CheckedQuery(query_of(formula), QUANTIFIERS, LENGTH)
    tree, server = plant(asked, model)
    while len(batch := select_batch(tree)):
        tree.add_children(batch, server.answer(tree.build_request(batch)))
    truth = find_truth(model, formula, QUANTIFIERS)
    assert tree.satisfied_mass() == pytest.approx(truth, abs=1e-12)
    assert tree.violated_mass() == pytest.approx(1 - truth, abs=1e-12)


def test_decided_texts_have_no_children():
    """For F gender > 1 no text has children if the formula holds in it."""
    asked = CheckedQuery(parse("P=? [ F gender > 1 ]"), QUANTIFIERS, LENGTH)
    tree, server = plant(asked, table_model(1))
    while len(batch := select_batch(tree)):
        tree.add_children(batch, server.answer(tree.build_request(batch)))
    deciding = np.flatnonzero((tree.scores[0] > 1) & (tree.kind == StateKind.TEXT))
    assert len(deciding)
    assert not np.isin(tree.parent, deciding).any()


def test_visits_select_every_token_once():
    """All visits of a text select distinct tokens, whose probabilities and `rest` sum to 1."""
    model = table_model(4)
    asked = CheckedQuery(parse("P=? [ F step = 3 & gender > 0 ]"), QUANTIFIERS, LENGTH)
    tree, server = plant(asked, model)
    root = np.array([0])
    for number in range(1, tree.max_visits + 1):
        tree.add_children(root, server.answer(tree.build_request(root)))
        children = tree.find_visit(0, number).children
        tokens = tree.child_tokens(0, number)
        assert len(set(tokens.tolist())) == len(tokens) == children.stop - 1
        share = tree.probability[1 : children.stop].sum() + tree.find_visit(0, number).rest
        assert share == pytest.approx(1)
        assert tree.rest[0] == tree.find_visit(0, number).rest
    assert tree.rest[0] == 0
    assert tree.find_visit(0, tree.max_visits + 1) is None
    assert sorted(tokens.tolist()) == [
        token for token, p in enumerate(server.distribution(())) if p > 0
    ]


def test_unlisted_texts_have_no_mass():
    """A text of unknown probability changes neither the masses nor the built tree."""
    asked = CheckedQuery(parse("P=? [ F gender > 1 ]"), QUANTIFIERS, LENGTH)
    tree, server = plant(asked, table_model(1))
    tree.add_children(np.array([0]), server.answer(tree.build_request(np.array([0]))))
    before = tree.satisfied_mass(), tree.violated_mass(), tree.build_tree()[0].digest
    rows = tree.add_unlisted(np.array([0, 0, 0]), np.array([2, 3, 2]))
    assert rows[0] == rows[2] != rows[1]
    assert np.array_equal(rows, tree.add_unlisted(np.array([0, 0, 0]), np.array([2, 3, 2])))
    assert (tree.mass[rows] == 0).all()
    assert tree.text[rows].tolist() == ["ac", "ad", "ac"]
    assert (tree.satisfied_mass(), tree.violated_mass(), tree.build_tree()[0].digest) == before


def test_the_order_of_selections_does_not_change_the_tree():
    """Selections that arrive in another order, as from a cache, give the same rows."""
    asked = CheckedQuery(parse("P=? [ F step = 3 & gender > 0 ]"), QUANTIFIERS, LENGTH)
    trees = []
    for order in (1, -1):
        tree, server = plant(asked, table_model(7))
        for _ in range(3):
            batch = np.flatnonzero(tree.is_open)
            for part in tree.split_batches(batch):
                tree.add_children(part, server.answer(tree.build_request(part))[::order])
        trees.append(tree.build_tree()[0])
    for name in ("parent", "step", "token", "probability", "kind", "text"):
        assert np.array_equal(*(getattr(tree, name) for tree in trees)), name


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_texts_are_those_of_their_tokens(architecture, random_model, monkeypatch):
    """Every text is what the model makes of all its tokens, whatever bytes they stand for."""
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT", ((1.0, 200), (1.0, 2**31 - 1)))
    model = load_model(random_model(architecture))
    prompt = model.encode("he said")
    tree = PartialTree(model, prompt, [HorizonMonitor(3)], {})
    server = TableServer(model, prompt)
    prefix = model.open_prefix(prompt)
    server.distribution = lambda text: next(
        prefix.map_next(lambda _, found: found.probabilities()[0].tolist(), np.array([text], int))
    )
    for _ in range(2):
        batch = select_batch(tree, 4)
        tree.add_children(batch, server.answer(tree.build_request(batch)))
    uids = np.arange(len(tree))
    assert len(uids) > 300
    paths = [
        (*prompt, *tree.collect_continuations(np.array([uid]))[0].tolist()) for uid in uids.tolist()
    ]
    is_ended = tree.kind == StateKind.END
    whole, unfinished = model.decode(paths), model.decode_unfinished(paths)
    expected = [whole[uid] if is_ended[uid] else unfinished[uid] for uid in uids]
    assert tree.text.tolist() == expected != whole


def test_the_tree_begins_with_the_start_string():
    """A new tree has one undecided text without passes."""
    asked = CheckedQuery(parse("P=? [ F gender > 1 ]"), QUANTIFIERS, LENGTH)
    tree, _ = plant(asked, table_model(1))
    assert (len(tree), tree.passes, tree.text.tolist()) == (1, 0, [START])
    assert (tree.satisfied_mass(), tree.violated_mass()) == (0.0, 0.0)
    assert tree.is_open.tolist() == [True]
