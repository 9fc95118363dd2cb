"""Estimates from a tree that is there: they cover the truth, and a seed gives the same bits."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle
from helpers.random_tables import QUANTIFIERS, RANGES, START, table_model, whole_tree
from scipy.stats import binomtest

from llmchecker.checking.anytime import query_estimate
from llmchecker.checking.anytime.budget import SamplingPlan
from llmchecker.checking.anytime.decided_mass import DecidedMass
from llmchecker.checking.anytime.estimate import EstimateRecord
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.query_estimate import (
    _MAX_PILOT_SAMPLES,
    _MIN_PILOT_SAMPLES,
    _estimate_query,
    build_samplers,
    choose_sample_count,
    estimate_check,
)
from llmchecker.checking.anytime.refinement import RefinementBudget
from llmchecker.checking.anytime.stored_trees import build_refined_tree
from llmchecker.errors import InvalidEstimate
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import score_tree
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import TextTree, Truncation

LENGTH = 3
MORE = ("F", None, ("atom", "gender", ">", 1))
FEWER = ("G", None, ("atom", "polarity", "<", 1))
UNTIL = ("U", 2, ("atom", "gender", ">=", 0), ("atom", "polarity", ">", 0))
ASKED = [(MORE, None), (FEWER, None), (UNTIL, None), (MORE, FEWER), (FEWER, MORE)]
"""Path formulas, some of them given another."""


def query_of(path, given):
    condition = "" if given is None else f" || {oracle.written(given)}"
    return parse(f"P=? [ {oracle.written(path)}{condition} ]")


def scored(tree: TextTree) -> dict[str, np.ndarray]:
    return {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}


def truth(model, path, given) -> Fraction | None:
    """The probability under the whole model, by enumeration of all texts."""
    whole = whole_tree(model, LENGTH)
    columns = {"step": whole.step, **scored(whole)}
    exact = oracle.Tree(whole.parent, whole.probability, whole.kind, columns)
    return exact.probability_of(path) if given is None else exact.conditional(path, given)


def test_intervals_from_the_papers_tree_cover_the_truth():
    """On trees with an alpha and a k of 60 random models the interval of confidence 0.9 misses the
    truth, conditional probabilities included, no more often than a tenth of the time."""
    misses, asked = 0, 0
    for seed in range(60):
        model = table_model(seed)
        tree = build_tree(model, START, Truncation(0.6, 2, LENGTH))
        path, given = ASKED[seed % len(ASKED)]
        true = truth(model, path, given)
        if true is None:
            continue
        query = CheckedQuery(query_of(path, given), QUANTIFIERS, LENGTH)
        samplers = build_samplers(model, model.encode(START), tree, scored(tree), query, "terminal")
        found = _estimate_query(samplers, SamplingPlan(samples=40, confidence=0.9, seed=seed))
        assert found.confidence == 0.9
        assert found.samples <= 40
        misses += not found.low <= true <= found.high
        asked += 1
    assert asked > 50
    assert binomtest(misses, asked, 0.1, alternative="greater").pvalue > 1e-6


@pytest.mark.parametrize("cut", [Truncation(0.6, 2, LENGTH), Truncation(1.0, 9, LENGTH)])
def test_of_several_limits_the_smallest_number_counts(cut):
    """Samples, width and passes each limit the number of samples, which is fixed beforehand; where
    nothing is open no sample is drawn."""
    model = table_model(3)
    tree = build_tree(model, START, cut)

    def estimated(**limits):
        query = CheckedQuery(query_of(MORE, None), QUANTIFIERS, LENGTH)
        samplers = build_samplers(model, model.encode(START), tree, scored(tree), query, "terminal")
        return _estimate_query(samplers, SamplingPlan(**limits))

    if cut.alpha == 1.0:
        assert estimated(samples=50).samples == 0
        return
    few, wide = estimated(passes=30), estimated(width=0.1)
    assert few.samples == 30 // LENGTH
    assert few.passes <= 30
    assert wide.high - wide.low <= 0.1
    assert estimated(samples=7, width=0.1).samples == 7
    assert estimated(samples=10**5, width=0.1) == wide
    assert estimated(passes=30, width=0.001) == few


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "samples, width or passes must say how many samples are drawn"),
        ({"samples": 0}, "samples is 0; it must be at least 1"),
        ({"passes": 0}, "passes is 0; it must be at least 1"),
        ({"width": 2}, "width is 2; it must be from 0 to 1"),
        (
            {"samples": 1, "confidence": 1.0},
            "confidence is 1.0; it must be from 0.001 to 0.999999999",
        ),
        ({"samples": 1, "seed": 2**64}, "seed is 18446744073709551616; it must be from 0"),
    ],
)
def test_an_impossible_sampling_is_refused(limits, message):
    """What cannot be drawn is refused by its name and value."""
    with pytest.raises(InvalidEstimate, match=message):
        SamplingPlan(**limits)


@pytest.fixture(scope="module")
def directory(random_model):
    return random_model("gpt2")


def grower(directory, store, threads: int = 1, memory: int = 2**30) -> TreeBuilder:
    kept = DistributionCache(store, 2**26)
    return TreeBuilder(directory, "causal", "float32", "cpu", threads, memory, "terminal", kept)


QUERY = parse("P=? [ F step = 3 & gender >= 0 ]")
GENDER = {"gender": QUANTIFIERS["gender"]}


def test_the_same_seed_gives_the_same_bits(directory, tmp_path):
    """A refined tree and its estimate are the same with one thread or two, with other memory,
    and with an empty or a full store; the seed alone changes the samples."""
    found = []
    for number, (threads, memory) in enumerate([(1, 2**30), (1, 2**30), (2, 2**22)]):
        asked = grower(directory, tmp_path / f"store{number // 2}", threads, memory)
        path = tmp_path / f"{number}.parquet"
        budget = RefinementBudget(passes=40)
        tree, growth = build_refined_tree(asked, path, "he said", [QUERY], 3, GENDER, budget)
        assert growth.nodes == tree.internal.sum()
        scores = {"gender": score_tree(GENDER["gender"], tree)}
        of_tree = ("check", asked, "he said", tree, scores, QUERY, GENDER)
        record = estimate_check(*of_tree, SamplingPlan(samples=60, seed=7))
        record.write(tmp_path / f"{number}.json")
        assert EstimateRecord.read(tmp_path / f"{number}.json") == record
        other = estimate_check(*of_tree, SamplingPlan(samples=60, seed=8))
        assert replace(
            other.estimate, satisfying=0, estimate=0, low=0, high=0, passes=0
        ) == replace(record.estimate, seed=8, satisfying=0, estimate=0, low=0, high=0, passes=0)
        found.append((path.read_bytes(), TextTree.read(path).digest, record.estimate, record.tree))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == found[0][3]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("A [ F gender > 0 ]", "E and A ask for some path or every path, of which samples say"),
        ("P=? [ F (P>0.5 [ X gender > 0 ]) ]", "single texts do not decide a query with a P, E"),
        ('P=? [ F "rest" ]', "single texts do not decide a query with a P, E or A inside"),
    ],
)
def test_what_samples_cannot_answer_has_a_reason(query, reason, directory, tmp_path):
    """Such a query has no estimate but a note that says why, and no model is loaded for it."""
    asked = grower(directory, tmp_path / "store")
    tree = build_tree(table_model(1), START, Truncation(0.6, 2, LENGTH))
    record = estimate_check(
        "check",
        asked,
        START,
        tree,
        scored(tree),
        parse(query),
        QUANTIFIERS,
        SamplingPlan(samples=9),
    )
    assert record.estimate is None
    assert record.making is None
    assert record.note.startswith(reason)
    assert str(record).startswith("not estimated: ")
    assert not asked.is_loaded
    record.write(tmp_path / "estimate.json")
    assert EstimateRecord.read(tmp_path / "estimate.json") == record


def test_a_tree_is_refined_for_all_of_its_queries():
    """Each path formula has a reading, a conditional two, and an open one stands for what single
    texts do not decide."""
    queries = [query_of(MORE, None), query_of(MORE, FEWER), parse("E [ G gender > 0 ]")]

    def kinds(query):
        return [type(each) for each in CheckedQuery(query, QUANTIFIERS, LENGTH).monitors]

    assert [kinds(query) for query in queries] == [[Monitor], [Monitor] * 2, [Monitor]]
    nested = parse("P=? [ F (P>0.5 [ X gender > 0 ]) ]")
    assert kinds(nested) == [HorizonMonitor]
    (until,) = CheckedQuery(parse('R{"gender"}=? [ I=2 ]'), QUANTIFIERS, LENGTH).monitors
    assert [until.decide(0, step, 0) for step in range(LENGTH + 1)] == [None, None, None, True]
    assert RANGES.keys() == QUANTIFIERS.keys()


class Timed:
    """A sampler of which a sample takes a second on a clock of its own, and three passes."""

    longest = 3
    decided_mass = DecidedMass(0.0, 0.0, np.array([1]), np.array([1.0]), np.array([0]))

    def __init__(self) -> None:
        self.passes, self.clock, self.drawn = 0, 0.0, 0

    def decide_samples(self, seed: int, first: int, behind: int) -> None:
        assert first < behind
        self.drawn += behind - first
        self.clock += behind - first
        self.passes += 3 * (behind - first)


@pytest.mark.parametrize(
    ("seconds", "drawn"),
    [(1, _MIN_PILOT_SAMPLES), (100, _MIN_PILOT_SAMPLES), (10_000, _MAX_PILOT_SAMPLES)],
)
def test_samples_that_tell_how_long_one_takes_leave_time_for_others(monkeypatch, seconds, drawn):
    """Few samples are thrown away where time is short, and those that count fit into the rest."""
    sampler = Timed()
    monkeypatch.setattr(query_estimate.time, "monotonic", lambda: sampler.clock)
    samples = choose_sample_count(sampler, 0.99, 0, seconds=seconds)
    assert sampler.drawn == drawn
    # more than fit one by one, since samples share beginnings
    assert 1 <= samples <= max(1, 1.5 * (seconds - drawn))
