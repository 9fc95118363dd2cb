"""Refinement, samples and whole answers read the forms of PRISM as an enumeration does."""

from fractions import Fraction

import pytest
from helpers import oracle
from helpers.anytime_checks import RangedBalance
from helpers.random_tables import QUANTIFIERS, READ_QUANTIFIERS, START, table_model, whole_tree

import llmchecker as lc
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import bound_by_storm, compute_bounds
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.scores import score_tree
from llmchecker.utils.interval import Interval

LENGTH = 3
MALE, DULL = ("atom", "gender", ">", 0), ("atom", "polarity", "<=", 0)
EVEN = ("compare", ("mod", "gender", 2), "=", 0)
HALF = ("compare", ("min", ("/", "gender", 2), ("floor", ("/", "step", 2))), ">=", ("/", 1, 2))
PATHS = [
    ("F", (1, 2), MALE),
    ("F", (2, None), MALE),
    ("F", (2, 2), EVEN),
    ("G", (1, None), DULL),
    ("G", (0, 1), ("<=>", MALE, DULL)),
    ("U", (1, 2), DULL, MALE),
    ("U", (2, None), DULL, EVEN),
    ("W", (0, 2), DULL, MALE),
    ("R", (1, None), MALE, DULL),
    ("M", None, MALE, DULL),
    ("F", None, ("?", ("atom", "step", "=", 2), MALE, HALF)),
    ("<=>", ("F", None, MALE), ("G", (0, 1), DULL)),
]


def enumerate_tree(model: lc.TableModel) -> oracle.Tree:
    tree = whole_tree(model, LENGTH)
    scores = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    return oracle.Tree(tree.parent, tree.probability, tree.kind, {"step": tree.step, **scores})


@pytest.mark.few(6)
@pytest.mark.parametrize("path", PATHS, ids=oracle.written)
@pytest.mark.parametrize("quantifiers", [QUANTIFIERS, READ_QUANTIFIERS], ids=["called", "read"])
def test_bounds_and_estimates_hold_the_truth_of_each_form(path, quantifiers):
    """With calls and with transducers lower <= truth <= upper; with all texts the truth is met."""
    query = f"P=? [ {oracle.written(path)} ]"
    for seed in range(3):
        model = table_model(seed)
        truth = enumerate_tree(model).probability_of(path)
        for passes in (5, 4000):
            found = lc.ask(query, model, START, length=LENGTH, passes=passes, **quantifiers)
            assert Fraction(found.lower) <= truth <= Fraction(found.upper)
            assert found.low is None or found.lower <= found.low <= found.high <= found.upper
        assert float(truth) == pytest.approx(found.estimate, abs=1e-9)
        assert str(found.query) == query


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("S=? [ gender > 0 ]", "P=? [ F (G gender > 0) ]"),
        ("S>=0.25 [ gender > 0 ]", "P>=0.25 [ F (G gender > 0) ]"),
        ('R{"gender"}=? [ S ]', f'R{{"gender"}}=? [ I={LENGTH} ]'),
        ('filter(state, P=? [ F gender > 0 ], "init")', "P=? [ F gender > 0 ]"),
    ],
)
def test_a_form_has_the_figures_of_the_form_that_defines_it(query, same):
    """Bounds, estimate and interval of both forms are the same numbers, with few passes too."""
    for seed in range(4):
        one, other = (
            lc.ask(text, table_model(seed), START, length=LENGTH, passes=12, **QUANTIFIERS)
            for text in (query, same)
        )
        assert (one.lower, one.upper, one.low, one.high) == (
            other.lower, other.upper, other.low, other.high
        )  # fmt: skip
        assert one.estimate == other.estimate


def test_a_sum_of_scores_has_certain_bounds_and_no_interval():
    """Refinement bounds the sum of scores that is enumerated; samples give no interval."""
    query, score = 'R{"gender"}=? [ C<=3 ]', RangedBalance(LENGTH)
    for seed in range(4):
        truth = enumerate_tree(table_model(seed)).cumulated("gender", 3)
        widths = []
        for passes in (1, 4000):
            found = lc.ask(
                query, table_model(seed), START, length=LENGTH, passes=passes, gender=score
            )
            assert found.low is None
            assert Fraction(found.lower) <= truth <= Fraction(found.upper)
            widths.append(found.upper - found.lower)
        assert widths[1] < 1e-9 < widths[0]


@pytest.mark.parametrize("query", ["P=? [ (G (F gender > 0)) <=> (F (G gender > 0)) ]"])
def test_what_holds_infinitely_often_holds_from_some_time_on(query):
    """The formula on fairness is certain for every model, by sums and by Storm."""
    tree = whole_tree(table_model(1), LENGTH)
    scores = {"gender": score_tree(QUANTIFIERS["gender"], tree)}
    chain = ScoredTree(tree, scores, collect_ranges({"gender": QUANTIFIERS["gender"]}))
    assert check_chain(chain, parse(query)).bounded == 1
    for bound in (compute_bounds, bound_by_storm):
        assert bound(chain, parse(query))[0] == Interval(1.0, 1.0)


def read_answer(query: str, text: str) -> int | None:
    checked = Property(parse(query), {"gender": QUANTIFIERS["gender"]}, LENGTH)
    return AnswerMonitor(checked, START).evaluate(text, True)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        (f"P=? [ F={LENGTH} gender > 0 ]", "P=? [ F (G gender > 0) ]"),
        (f"P=? [ G>={LENGTH} gender > 0 ]", "P=? [ F (G gender > 0) ]"),
        ("S=? [ gender > 0 ]", "P=? [ F (G gender > 0) ]"),
        (f"P=? [ F<{LENGTH + 1} gender > 0 ]", "P=? [ F gender > 0 ]"),
        ("P=? [ (F gender > 0) <=> S>=1 [ gender > 0 ] ]", None),
        ("P=? [ F[1,2] gender > 0 ]", None),
        ('R{"gender"}=? [ C<=2 ]', None),
    ],
)
def test_whole_answers_decide_the_forms_that_need_no_tokens(query, same):
    """Answers of texts alone have the truth of the defining form; other forms are refused."""
    if same is None:
        with pytest.raises(InvalidQuery, match=r"needs (the division|probabilities)"):
            read_answer(query, "aab")
        return
    for text in ("", "a", "b", "ab", "aab", "cab", "abb"):
        assert read_answer(query, text) == read_answer(same, text)
