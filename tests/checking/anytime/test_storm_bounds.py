"""Bounds while a check runs, of queries that single texts decide and of those that they do not."""

import itertools
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import oracle
from helpers.random_tables import QUANTIFIERS, START, table_model, whole_tree
from matplotlib import pyplot as plt

import llmchecker as lc
from llmchecker.checking.budget import Budget
from llmchecker.checking.comparison_run import compare_answers
from llmchecker.checking.question import Question
from llmchecker.properties.logic.monitor import MAX_ATOMS
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.scores import score_tree
from llmchecker.utils.interval import Interval

LENGTH = 3
PASSES = 5000
_RISES = ("atom", "gender", ">", 1)
_NESTED = ("F", None, ("&", _RISES, ("P", ">=", Fraction(1, 5), ("X", ("atom", "gender", ">", 2)))))
_MANY: Any = ("F", None, ("atom", "gender", ">", 2))
for _number in range(MAX_ATOMS):
    _MANY = ("|", _MANY, ("F", None, ("atom", "gender", "=", 100 + _number)))
_PATHS = {
    "sums": ("F", None, ("atom", "gender", ">", 1)),
    "nested": _NESTED,
    "nested twice": ("G", None, ("P", "<", Fraction(9, 10), _NESTED)),
    "some path": ("G", None, ("E", ("F", 1, _RISES))),
    "many comparisons": _MANY,
}
_TEXTS = {name: oracle.written(path) for name, path in _PATHS.items()}
_OTHERS = {
    "score without a range": 'R{"gender"}=? [ I=2 ]',
    "combination": f"(P>=0.3 [ {_TEXTS['sums']} ]) & (P<=0.9 [ {_TEXTS['nested']} ])",
    "negation": f"!(P>=0.4 [ {_TEXTS['sums']} ])",
    "conditional": f"P=? [ {_TEXTS['nested']} || F polarity < 1 ]",
}
QUERIES = [f"P=? [ {text} ]" for text in _TEXTS.values()] + [
    *(f"P>={bound} [ {text} ]" for bound in (0.1, 0.6) for text in _TEXTS.values()),
    *_OTHERS.values(),
]


def ask(query: str, seed: int, **options: Any) -> lc.Answer:
    """Return the answer on a random table, for all of whose texts the passes suffice."""
    return lc.ask(query, table_model(seed), START, length=LENGTH, **QUANTIFIERS, **options)


def exact_tree(seed: int) -> oracle.Tree:
    """All texts of a random table, for the oracle."""
    tree = whole_tree(table_model(seed), LENGTH)
    scores = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    return oracle.Tree(tree.parent, tree.probability, tree.kind, {**scores, "step": tree.step})


def contains(outer: Interval, inner: Interval) -> bool:
    """Whether every number of one interval is in another."""
    return outer.lower <= inner.lower and inner.upper <= outer.upper


@pytest.mark.few(20)
@pytest.mark.parametrize(("query", "seed"), list(itertools.product(QUERIES, range(4))))
def test_bounds_while_it_runs_contain_those_of_the_answer(query, seed):
    """Each certain interval of the history, and of watch, contains the answer's: for a threshold
    its probability's, otherwise that of the answer itself."""
    seen = []
    answer = ask(query, seed, passes=PASSES, watch=seen.append)
    is_threshold = query.startswith("P>")
    final = answer.probability if is_threshold else answer.certain
    assert [each.certain for each in answer.history[: len(seen)]] == [e.certain for e in seen]
    assert all(contains(each.certain, final) for each in answer.history)
    assert answer.history[-1].certain == final


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("form", "name", "seed"), list(itertools.product(("P=?", "E", "A"), _PATHS, range(4)))
)
def test_bounds_while_it_runs_contain_the_probability_by_enumeration(form, name, seed):
    """Each certain interval, of E and A too, contains the exact probability of the paths."""
    answer = ask(f"{form} [ {_TEXTS[name]} ]", seed, passes=PASSES)
    exact = exact_tree(seed).probability_of(_PATHS[name])
    for each in answer.history:
        assert each.lower <= exact <= each.upper
    if form == "P=?":
        assert answer.certain.width < 1e-9
    else:
        assert answer.holds == (exact > 0 if form == "E" else exact == 1)


def test_bounds_of_a_score_without_a_range_are_infinite_until_they_are_known():
    """Before the texts are known, a score without a range has no limits; then it has its mean."""
    answer = ask('R{"gender"}=? [ I=2 ]', 1, passes=PASSES)
    exact = exact_tree(1).expectation("gender", 2)
    assert answer.history[0].certain == Interval(-float("inf"), float("inf"))
    assert all(each.lower <= exact <= each.upper for each in answer.history)
    assert answer.certain.width < 1e-9


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "bound", "seed"),
    list(itertools.product(_PATHS, (Fraction(1, 10), Fraction(1, 2), Fraction(4, 5)), range(4))),
)
def test_a_threshold_is_decided_as_its_probability_by_enumeration(name, bound, seed):
    """With passes for every text, each threshold apart from the probability is decided."""
    exact = exact_tree(seed).probability_of(_PATHS[name])
    for comparison, is_met in ((">=", exact >= bound), ("<", exact < bound)):
        query = f"P{comparison}{float(bound)} [ {_TEXTS[name]} ]"
        answer = ask(query, seed, passes=PASSES, certain=True)
        assert answer.holds == is_met
        assert answer.probability.lower <= exact <= answer.probability.upper


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "passes"),
    list(itertools.product(("nested", "nested twice", "many comparisons"), (1, 4, 9))),
)
def test_an_unknown_threshold_has_used_its_passes(name, passes):
    """UNKNOWN has used the budget, and P=? with as many passes has bounds around the threshold."""
    for bound in (0.05, 0.2, 0.9):
        answer = ask(f"P>={bound} [ {_TEXTS[name]} ]", 2, passes=passes, certain=True)
        if answer.holds is None:
            assert answer.passes == passes
            number = ask(f"P=? [ {_TEXTS[name]} ]", 2, passes=passes, certain=True)
            assert number.lower < bound <= number.upper


def test_a_difference_while_it_runs_contains_the_final_one():
    """The bounds of the difference of two nested probabilities contain the exact difference."""
    query = f"P=? [ {_TEXTS['nested']} ]"
    asked = Property(parse(query), QUANTIFIERS, LENGTH)
    budget = Budget(passes=PASSES)
    found = compare_answers(*(Question(table_model(seed), START, asked, budget) for seed in (1, 2)))
    one, other = (exact_tree(seed).probability_of(_NESTED) for seed in (1, 2))
    assert all(each.lower <= one - other <= each.upper for each in found.history)
    assert found.history[-1].width < 1e-9


@pytest.mark.parametrize("passes", [1, 6, 12, 20, PASSES])
def test_a_score_without_a_range_and_a_wanted_width_has_an_answer(passes):
    """Whatever part of the history has no limits, a wanted width has an answer, whose bounds
    contain the exact mean."""
    answer = ask('R{"gender"}=? [ I=3 ]', 3, passes=passes, width=0.01)
    exact = exact_tree(3).expectation("gender", 3)
    assert answer.lower <= exact <= answer.upper
    assert answer.passes == passes or answer.certain.width <= 0.01


@pytest.mark.parametrize("query", [_OTHERS["score without a range"], _OTHERS["combination"]])
def test_a_plot_shows_the_finite_bounds_of_the_history(query):
    """The area of the certain bounds ends at those of the answer, and has finite corners."""
    plt.switch_backend("agg")
    answer = ask(query, 1, passes=PASSES)
    (area,) = answer.plot().collections
    corners = area.get_paths()[0].vertices
    assert np.isfinite(corners).all()
    at_last = corners[corners[:, 0] == answer.passes, 1]
    assert (at_last.min(), at_last.max()) == pytest.approx(
        (float(answer.lower), float(answer.upper))
    )
    plt.close("all")


def test_the_status_of_a_nested_query_shows_bounds_of_its_probability():
    """Each line of the status names certain bounds that contain the exact probability."""
    lines: list[str] = []
    ask(f"P=? [ {_TEXTS['nested']} ]", 1, passes=PASSES, progress=lines.append)
    exact = exact_tree(1).probability_of(_NESTED)
    assert lines
    for line in lines:
        lower, upper = re.findall(r"certain \[([\d.e-]+), ([\d.e-]+)\]", line)[0]
        assert float(lower) <= exact <= float(upper)
