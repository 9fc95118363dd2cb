"""A refined tree: its bounds hold after every batch, only narrow, and are those of the tree."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.random_tables import (
    QUANTIFIERS,
    RANGES,
    START,
    WITH_FINAL_SCORES,
    table_model,
    whole_tree,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from llmchecker.checking import bounds
from llmchecker.checking.anytime import refinement
from llmchecker.checking.anytime.decided_mass import split_mass
from llmchecker.checking.anytime.refinement import RefinementBudget, refine
from llmchecker.checking.markov import dtmc
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor, is_linear_time
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.text_tree import StateKind

LENGTH = 3
NAMES = tuple(QUANTIFIERS)
EITHER = [QUANTIFIERS, WITH_FINAL_SCORES]


def query_of(formula):
    return parse(f"P=? [ {oracle.written(formula)} ]")


about_texts = oracle.formulas(NAMES, nested=False).filter(
    lambda formula: is_linear_time(query_of(formula).root.path)
)


def truth(model, formula, quantifiers) -> Fraction:
    """The probability of a path formula by enumerating all texts."""
    whole = whole_tree(model, LENGTH)
    columns = {name: score_tree(each, whole) for name, each in quantifiers.items()}
    return oracle.Tree(
        whole.parent, whole.probability, whole.kind, {"step": whole.step, **columns}
    ).probability_of(formula)


@pytest.fixture
def short_looks(monkeypatch):
    """Looks that leave something to the next one on a vocabulary of five."""
    monkeypatch.setattr(refinement, "_TOKENS_PER_VISIT", ((0.5, 1), (0.9, 2), (1.0, 2**31 - 1)))


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32),
    asked=st.lists(about_texts, min_size=1, max_size=3),
    quantifiers=st.sampled_from(EITHER),
)
def test_the_truth_stays_within_bounds_that_only_narrow(seed, asked, quantifiers):
    """After every batch the true probability lies in the bounds, which lie in the earlier ones;
    in the end nothing is undecided, and they are the true probability."""
    model, ranges = table_model(seed), collect_ranges(quantifiers)
    readings = [Monitor(query_of(f).root.path, LENGTH, ranges) for f in asked]
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement, "_TOKENS_PER_VISIT", ((0.5, 1), (0.9, 2), (1.0, 2**31 - 1)))
        tree = refine(
            model,
            model.encode(START),
            readings,
            quantifiers,
            RefinementBudget(),
            progress=seen.append,
        )
    for number, formula in enumerate(asked):
        true = float(truth(model, formula, quantifiers))
        lows = [refining.lower[number] for refining in seen]
        highs = [refining.upper[number] for refining in seen]
        assert lows == sorted(lows)
        assert highs == sorted(highs, reverse=True)
        assert all(
            low - 1e-12 <= true <= high + 1e-12 for low, high in zip(lows, highs, strict=True)
        )
        assert (lows[-1], highs[-1]) == pytest.approx((true, true), abs=1e-12)
    assert [refining.passes for refining in seen] == sorted({r.passes for r in seen})
    assert tree.truncation.length == LENGTH


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    formula=about_texts,
    passes=st.integers(0, 12),
    quantifiers=st.sampled_from(EITHER),
)
def test_a_refined_tree_is_a_tree_like_any_other(seed, formula, passes, quantifiers):
    """Storm's bounds on the tree are those of the refinement."""
    query, model, ranges = query_of(formula), table_model(seed), collect_ranges(quantifiers)
    reading = Monitor(query.root.path, LENGTH, ranges)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement, "_TOKENS_PER_VISIT", ((0.5, 1), (0.9, 2), (1.0, 2**31 - 1)))
        budget = RefinementBudget(passes=passes)
        tree = refine(
            model, model.encode(START), [reading], quantifiers, budget, progress=seen.append
        )
    assert seen[-1].passes <= passes
    columns = {name: score_tree(each, tree) for name, each in quantifiers.items()}
    found = split_mass(tree, columns, reading)
    interval = bounds.compute_bounds(tree, columns, query, ranges)
    expected = (seen[-1].lower[0], seen[-1].upper[0])
    assert (found.satisfied_mass, 1 - found.violated_mass) == pytest.approx(expected, abs=1e-12)
    assert (interval.lower, interval.upper) == pytest.approx(expected, abs=1e-12)
    assert len(dtmc.build_dtmc(tree, columns)) == len(tree)


def test_decided_texts_are_not_looked_at_again():
    """For F gender > 0 no text below one in which it holds is in the tree."""
    query = parse("P=? [ F gender > 1 ]")
    reading = Monitor(query.root.path, LENGTH, RANGES)
    model = table_model(1)
    tree = refine(model, model.encode(START), [reading], QUANTIFIERS, RefinementBudget())
    scores = score_tree(QUANTIFIERS["gender"], tree)
    deciding = (scores > 1) & (tree.kind == StateKind.TEXT)
    assert deciding.any()
    below = np.isin(tree.parent, np.flatnonzero(deciding))
    assert (tree.kind[below] == StateKind.REST).all()


def test_the_widest_bounds_end_the_refinement():
    """A target width ends it as soon as the bounds are so narrow, and not before."""
    reading = Monitor(parse("P=? [ F gender > 1 ]").root.path, LENGTH, RANGES)
    seen = []
    model, budget = table_model(1), RefinementBudget(width=0.3)
    refine(model, model.encode(START), [reading], QUANTIFIERS, budget, progress=seen.append)
    assert seen[-1].width <= 0.3 < seen[-2].width


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_texts_of_a_refined_tree_are_those_of_their_tokens(architecture, random_model):
    """Every text is what the tokenizer makes of all its tokens, whatever bytes they stand for."""
    model = load_model(random_model(architecture))
    tree = refine(
        model, model.encode("he said"), [HorizonMonitor(3)], {}, RefinementBudget(passes=40)
    )
    paths = {0: model.encode("he said")}
    for uid in range(1, len(tree)):
        paths[uid] = (*paths[tree.parent[uid]], int(tree.token[uid]))
    uids = np.flatnonzero(tree.kind != StateKind.REST)
    assert len(uids) > 1000
    assert tree.text[uids].tolist() == model.decode([paths[uid] for uid in uids.tolist()])


def test_the_tree_is_the_same_for_any_threads_memory_and_store(random_model, tmp_path):
    """One model, looked at with other threads, memory and stored answers, gives the same bits."""
    asked = parse("P=? [ (F gender > 0) | (G step < 3) ]")
    quantifiers = {"gender": create_quantifier("gender", {})}
    reading = Monitor(asked.root.path, 3, {"gender": (None, None)})
    store = DistributionCache(tmp_path, 10**8)
    trees, added = [], []
    for threads, memory, stored in (
        (1, 2**30, None),
        (2, 2**22, None),
        (1, 2**30, "cold"),
        (2, 2**30, "warm"),
    ):
        model = load_model(random_model("llama"), threads=threads, memory_bytes=memory)
        opened = store.open_distributions("model", model.encode("he said")) if stored else None
        budget = RefinementBudget(passes=150)
        trees.append(
            refine(
                model, model.encode("he said"), [reading], quantifiers, budget, distributions=opened
            )
        )
        added.append(opened.added_count if opened else None)
    # an answer with hardly any rest serves no other look, so some are asked for again
    assert added[2] == 150
    assert added[3] < added[2] / 2
    for tree in trees[1:]:
        for name in ("parent", "step", "token", "probability", "kind", "text"):
            assert np.array_equal(getattr(tree, name), getattr(trees[0], name)), name
