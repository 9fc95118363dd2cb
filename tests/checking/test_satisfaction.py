"""No rounding decides a query: not sums of decimals, not whole numbers, not tiny thresholds."""

import numpy as np
import pytest
from helpers import trees

from llmchecker.checking import bounds as bounds_module
from llmchecker.checking import storm
from llmchecker.checking.answer import Answer
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.bounds import compute_bounds as whole_model_bounds
from llmchecker.checking.check import check_query
from llmchecker.checking.crosscheck import crosscheck
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.interval import Interval

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
SEVEN_TWO_ONE = (0.7, 0.2, 0.1)
"""In float64 they add up to less than 1."""


def tenths() -> TextTree:
    """A text with three children of 0.7, 0.2 and 0.1, two of which have three each; one is rest."""
    states = [(0, p, kind) for p, kind in zip(SEVEN_TWO_ONE, (TEXT, TEXT, REST), strict=True)]
    for parent in (1, 2):
        states += [
            (parent, p, kind) for p, kind in zip(SEVEN_TWO_ONE, (TEXT, END, REST), strict=True)
        ]
    return trees.by_hand(states)


SCORES = {"gender": np.array([0, 1, 0, 99, 1, 0, 99, -1, 1, 99])}


def value(query: str) -> float | bool | None:
    return check_chain(ScoredTree(tenths(), SCORES), parse(query)).bounded


def bounds(query: str) -> Interval:
    return whole_model_bounds(ScoredTree(tenths(), SCORES, {"gender": (None, None)}), parse(query))[
        0
    ]


CERTAIN = [
    "X step = 1",
    "F<=1 step = 1",
    'F<=2 (step = 2 | "rest")',
    "step = 0 U<=1 step = 1",
    "G<=1 step <= 1",
    "(step = 0) W (step = 1)",
    'X (F<=1 (step = 2 | "rest"))',
    "(X step = 1) & (F<=3 step >= 1)",
]


@pytest.mark.few(12)
@pytest.mark.parametrize("path", CERTAIN)
@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("A [ {} ]", True),
        ("P>=1 [ {} ]", True),
        ("P<1 [ {} ]", False),
        ("E [ !({}) ]", False),
        ("P<=0 [ !({}) ]", True),
        ("P>0 [ !({}) ]", False),
        ("E [ F (step = 0 & P<1 [ {} ]) ]", False),
        ("P>=1 [ F (step = 0 & A [ {} ]) ]", True),
    ],
)
def test_what_is_certain_is_certain_by_every_route(path, query, holds, tmp_path):
    """0.7 + 0.2 + 0.1 is 1: value, bounds and both files decide certainty on the graph."""
    asked = parse(query.format(path))
    assert value(asked.text) is holds
    assert bounds(asked.text) == Interval(holds, holds)
    write_prism(ScoredTree(tenths(), SCORES), tmp_path / "w.prism")
    write_jani(ScoredTree(tenths(), SCORES), tmp_path / "w.jani")
    checked = check_chain(ScoredTree(tenths(), SCORES), asked)
    for answer in files(asked, tmp_path):
        assert answer.value is holds
        explored = checked.costs.states_explored, checked.costs.transitions_explored
        assert (answer.states, answer.transitions) == explored


def files(query: Query, directory) -> tuple[storm.FileAnswer, storm.FileAnswer]:
    """What Storm says of the PRISM program and of the JANI model."""
    return (
        storm.check_prism(directory / "w.prism", query),
        storm.check_jani(directory / "w.jani", query),
    )


@pytest.mark.parametrize("path", CERTAIN)
def test_a_certain_probability_is_exactly_one(path):
    """A probability that the graph shows to be 1 is 1 to the last bit, and so are its bounds."""
    assert value(f"P=? [ {path} ]") == 1
    assert bounds(f"P=? [ {path} ]") == Interval(1.0, 1.0)
    assert value(f"P=? [ !({path}) ]") == 0
    assert bounds(f"P=? [ !({path}) ]") == Interval(0.0, 0.0)


@pytest.mark.parametrize("comparison", [">=", ">", "<=", "<"])
def test_a_threshold_within_rounding_is_unknown(comparison):
    """0.7 + 0.2 in float64 is not 0.9: whether 0.9 is reached is unknown, and a note says why."""
    tree, asked = tenths(), parse(f'P{comparison}0.9 [ X !"rest" ]')
    verdict = check_query(ScoredTree(tree, SCORES, {"gender": (None, None)}), asked)
    assert verdict.bounded is None
    assert (verdict.lower, verdict.upper) == (False, True)
    assert "rounding" in verdict.notes[0]
    assert verdict.witnesses == ()


def test_an_unknown_inside_leaves_a_number_open_only_where_it_matters():
    """A P inside that rounding leaves open makes a number unknown, unless both give the same."""
    unknown = 'P>=0.9 [ X !"rest" ]'
    assert value(f"P=? [ G (step > 0 | {unknown}) ]") is None
    assert value(f'P=? [ X ("rest" | (step = 0 & {unknown})) ]') == pytest.approx(0.1)
    assert value(f"P=? [ F (step = 1 | {unknown}) ]") == 1


def test_an_unknown_value_survives_its_file_and_is_not_compared(tmp_path):
    """The value is null in JSON; the crosscheck says that there is nothing to compare."""
    verdict = check_chain(ScoredTree(tenths(), SCORES), parse('P>0.9 [ X !"rest" ]'))
    verdict.write(tmp_path / "verdict.json")
    assert '"bounded": null' in (tmp_path / "verdict.json").read_text()
    read = Answer.read(tmp_path / "verdict.json")
    assert read == verdict
    none = tmp_path / "none"
    outcome = crosscheck(read, none, none, max_prism_states=100, max_jani_states=100)
    assert outcome["compared"] is False
    assert outcome["reason"] == "the value is unknown"


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("E [ F step*2147483647*2147483647*3 < 0 ]", False),
        ("A [ F step*2147483647*2147483647*3 > 0 ]", True),
        ("A [ G (2147483647*2147483647*2147483647*step >= step) ]", True),
        ("E [ F gender*2147483647*2147483647*2147483647 < 0 ]", True),
        ("A [ G 2147483647*2147483647*2147483647 > 0 ]", True),
        ("P>=1e-400 [ X step = 1 ]", True),
        ("P>=1e-400 [ F gender = 50 ]", False),
        ('P<1e-400 [ X "rest" ]', False),
        ("P>0.99999999999999999999999999999 [ X step = 1 ]", True),
    ],
)
def test_numbers_have_no_limit(query, holds):
    """Whole numbers beyond int64, and thresholds that float64 takes for 0 or 1, are exact."""
    assert value(query) is holds


@pytest.mark.parametrize(
    "query",
    [
        "P=? [ F step*2147483647*2147483647*3 < 0 ]",
        "P>=1e-400 [ X step = 1 ]",
        "P=? [ F P<0.99999999999999999999999999999 [ X step = 1 ] ]",
    ],
)
def test_numbers_that_files_cannot_hold_are_refused_there(query, tmp_path):
    """Storm's front end is not asked what it would read as another question; the run goes on."""
    write_prism(ScoredTree(tenths(), SCORES), tmp_path / "w.prism")
    with pytest.raises(InvalidQuery, match=r"Storm's front end (may|would) round"):
        storm.check_prism(tmp_path / "w.prism", parse(query))
    verdict = check_chain(ScoredTree(tenths(), SCORES), parse(query))
    none = tmp_path / "none"
    files = tmp_path / "w.prism", none
    outcome = crosscheck(verdict, *files, max_prism_states=100, max_jani_states=100)
    assert outcome["compared"] is False
    assert "Storm's front end" in outcome["reason"]


@pytest.mark.parametrize(
    "path",
    [
        "(G (X (F gender = 1))) & (F (G (gender >= 0 U gender = 1)))",
        "((G (F gender = 1)) & (F (G gender >= 0))) | (G (F (gender = 0 & (X gender = 0))))",
        '((G (F gender = 1)) => (G (F step = 2))) & ((F (G gender = 0)) | (G (F "rest")))',
    ],
)
def test_every_kind_of_infinite_behaviour_is_answered(path):
    """Fairness, persistence and their combinations have a value and bounds around it."""
    verdict = check_query(
        ScoredTree(tenths(), SCORES, {"gender": (None, None)}), parse(f"P=? [ {path} ]")
    )
    assert 0 <= verdict.lower <= verdict.bounded <= verdict.upper <= 1
    assert verdict.notes == ()


def test_a_score_that_is_always_zero_is_expected_to_be_zero(tmp_path):
    """By every route, JANI models among them, which then have no rewards at all."""
    zero = {"gender": np.zeros(10, dtype=np.int64)}
    write_prism(ScoredTree(tenths(), zero), tmp_path / "w.prism")
    write_jani(ScoredTree(tenths(), zero), tmp_path / "w.jani")
    asked = parse('R{"gender"}=? [ I=2 ]')
    assert check_chain(ScoredTree(tenths(), zero), asked).bounded == 0
    assert [answer.value for answer in files(asked, tmp_path)] == [0, 0]


@pytest.mark.parametrize(("atoms", "free"), [(10, False), (12, False), (20, True)])
def test_atoms_over_several_quantifiers_are_bounded(atoms, free):
    """Many coupled atoms have bounds in little memory; where there are too many they are wide."""
    scores = SCORES | {"polarity": SCORES["gender"]}
    path = " | ".join(f"gender + polarity = {i}" for i in range(1, atoms + 1))
    query = parse(f"P=? [ F {path} ]")
    ranges = dict.fromkeys(scores, (None, None))
    verdict = check_query(ScoredTree(tenths(), scores, ranges), query)
    # gender and polarity are both 1 in state 1, and in state 8 below state 2
    assert verdict.bounded == pytest.approx(0.7 + 0.2 * 0.2)
    assert verdict.lower == pytest.approx(verdict.bounded)
    assert verdict.upper == pytest.approx(0.7 + 0.1 + 0.2 * 0.3)
    assert bool(verdict.notes) == free


def test_where_only_the_bounds_fail_the_value_is_kept(monkeypatch):
    """The bounds are then those that every answer is within, and a note says why."""

    def fails(*_):
        raise CheckFailed("too large")

    monkeypatch.setattr(bounds_module, "compute_bounds", fails)
    verdict = check_query(ScoredTree(tenths(), SCORES, {}), parse('P=? [ X "rest" ]'))
    assert verdict.bounded == pytest.approx(0.1)
    assert (verdict.lower, verdict.upper) == (0, 1)
    assert verdict.notes == ("the bounds say nothing: too large",)
