"""Storm's answers on the explicit chain are exact, and the same by way of the PRISM program."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import oracle, trees
from helpers.damage import flipped
from helpers.marks import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmchecker.checking import bounds, storm
from llmchecker.checking.answer import Answer, Sampled
from llmchecker.checking.bounded_value import NO_CONDITION_NOTE, check_chain
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import (
    CheckFailed,
    DamagedFile,
    ImpossibleCondition,
    InvalidQuery,
    UnknownName,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.interval import Interval

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
# 0 ─ 1/2 → 1 ─ 3/4 → 4, 1 ─ 1/4 → rest; 0 ─ 1/4 → end 2; 0 ─ 1/4 → rest 3
DRAWN = [
    (0, 0.5, TEXT),
    (0, 0.25, END),
    (0, 0.25, REST),
    (1, 0.75, TEXT),
    (1, 0.25, REST),
]
GENDER = np.array([0, 1, 2, 99, -1, 99])
NAMES = ("gender", "polarity")
GENERATED = settings(examples(150), suppress_health_check=[HealthCheck.too_slow])


def ask(query: str) -> Answer:
    chain = ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER})
    return check_chain(chain, parse(query))


def as_oracle(tree: TextTree, scores: dict[str, np.ndarray]) -> oracle.Tree:
    columns = {"step": tree.step} | scores
    return oracle.Tree(
        tree.parent.tolist(),
        tree.probability.tolist(),
        tree.kind.tolist(),
        {name: column.tolist() for name, column in columns.items()},
    )


@pytest.mark.parametrize(
    ("path", "probability"),
    [
        ("F gender > 0", Fraction(3, 4)),
        ("F gender < 0", Fraction(3, 8)),
        ("F step = 2 & gender < 0", Fraction(3, 8)),
        ("F gender = 99", 0),
        ("F<=1 gender < 0", 0),
        ("G gender >= 0", Fraction(1, 4)),
        ("G !(gender < 0)", Fraction(5, 8)),
        ("G<=1 gender >= 0", Fraction(3, 4)),
        ("X gender = 1", Fraction(1, 2)),
        ("gender >= 0 U gender < 0", Fraction(3, 8)),
        ("gender = 0 U gender < 0", 0),
        ("gender >= 0 U<=1 gender = 2", Fraction(1, 4)),
        ("gender >= 0 W gender < 0", Fraction(5, 8)),
        ('F "rest"', Fraction(3, 8)),
        ('F "end"', Fraction(1, 4)),
        ("(F gender = 1) & (F gender < 0)", Fraction(3, 8)),
        ("F X gender < 0", Fraction(3, 8)),
        ("F G gender < 0", Fraction(3, 8)),
        ("F P>=0.7 [ X gender < 0 ]", Fraction(1, 2)),
        ("F step = 2", Fraction(1, 2)),
    ],
)
def test_drawn_chain(path, probability):
    """On a chain drawn by hand every value is the fraction that one computes by hand."""
    assert ask(f"P=? [ {path} ]").bounded == pytest.approx(float(probability), abs=1e-15)


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("P>=0.74 [ F gender > 0 ]", True),
        ("P>0.76 [ F gender > 0 ]", False),
        ("P<0.8 [ F gender > 0 ]", True),
        ("P>=1 [ F step > 0 ]", True),
        ("P>0 [ F gender = 99 ]", False),
    ],
)
def test_thresholds_are_answered_yes_or_no(query, holds):
    """A query with a threshold is true or false in the start state."""
    assert ask(query).bounded is holds


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("E [ F gender < 0 ]", True),
        ("A [ F gender < 0 ]", False),
        ("A [ X step = 1 ]", True),
        ("E [ G gender = 0 ]", False),
        ("E [ X (E [ X gender < 0 ]) ]", True),
        ("A [ X (E [ X gender < 0 ]) ]", False),
        ('A [ (F "rest") | (F "end") | (E [ F gender < 0 ]) ]', True),
        ("E [ (F gender = 1) & (G E [ F gender < 0 ]) ]", True),
        ("P>=0.49 [ F E [ X gender < 0 ] ]", True),
        ("(P>=0.74 [ F gender > 0 ]) & (E [ F gender < 0 ])", True),
        ("(P>0.76 [ F gender > 0 ]) | (A [ F gender < 0 ])", False),
        ("!(E [ F gender = 99 ])", True),
        ("E [ F gender < 0 ] => gender > 0", False),
    ],
)
def test_path_quantifiers_and_combinations_are_answered_yes_or_no(query, holds):
    """CTL, CTL* and boolean combinations of state formulas are true or false."""
    assert ask(query).bounded is holds


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("P=? [ X gender = 1 || F gender > 0 ]", Fraction(2, 3)),
        ('P=? [ F "rest" || X gender = 1 ]', Fraction(1, 4)),
        ('P=? [ G gender >= 0 || !(F "rest") ]', Fraction(2, 5)),
        ("P=? [ F gender > 0 || step = 0 ]", Fraction(3, 4)),
        ('R{"gender"}=? [ I=0 ]', 0),
        ('R{"gender"}=? [ I=1 ]', 1),
        ('R{"gender"}=? [ I=2 ]', Fraction(1, 8)),
        ('R{"gender"}=? [ I=9 ]', Fraction(1, 8)),
    ],
)
def test_conditional_probabilities_and_expected_scores(query, value):
    """P of one path formula among the paths of another, and scores weighted, rest as 0."""
    assert ask(query).bounded == pytest.approx(float(value), abs=1e-15)


def test_a_condition_without_probability_has_no_value():
    """A probability among no paths of the bounded process is no value, and a note says so."""
    found = ask("P=? [ F gender > 0 || F gender = 99 ]")
    assert found.bounded is None
    assert found.notes == (NO_CONDITION_NOTE,)


def test_the_size_is_reported_in_full_and_as_explored():
    """A verdict has the whole chain's size, and that of the part where nothing is decided yet."""
    verdict = ask("P=? [ F gender > 0 ]")
    assert (verdict.costs.states, verdict.costs.transitions) == (6, 9)
    assert (verdict.costs.states_explored, verdict.costs.transitions_explored) == (4, 6)


@given(st.data())
@GENERATED
def test_storm_agrees_with_the_enumeration_of_paths(data):
    """On generated trees and formulas Storm gives the exact value, and the exact yes or no."""
    tree = data.draw(trees.text_trees())
    scores = data.draw(trees.scores(tree, NAMES))
    formula = data.draw(oracle.formulas(NAMES))
    chain = ScoredTree(tree, scores)
    exact = as_oracle(tree, scores).probability_of(formula)
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    assert check_chain(chain, query).bounded == pytest.approx(float(exact), abs=1e-12)
    holds = check_chain(chain, parse(f"P>=0.39 [ {oracle.written(formula)} ]")).bounded
    assert holds is (exact >= Fraction(39, 100))


@pytest.mark.long
@given(st.data())
@GENERATED
def test_path_quantifiers_agree_with_the_enumeration_of_paths(data):
    """E is that some path with a chance satisfies a formula, A that all do, in any combination."""
    tree = data.draw(trees.text_trees())
    scores = data.draw(trees.scores(tree, NAMES))
    formula = data.draw(oracle.state_formulas(NAMES))
    path = data.draw(oracle.formulas(NAMES))
    chain, exact = ScoredTree(tree, scores), as_oracle(tree, scores)
    for asked in (formula, ("E", path), ("A", path)):
        assert check_chain(chain, parse(oracle.written(asked))).bounded is exact.holds(asked, (0,))


@pytest.mark.long
@given(st.data())
@GENERATED
def test_conditions_agree_with_the_enumeration_of_paths(data):
    """A conditional probability is the exact ratio, or none where the condition never holds."""
    tree = data.draw(trees.text_trees())
    scores = data.draw(trees.scores(tree, NAMES))
    path, given_path = (data.draw(oracle.formulas(NAMES, nested=False)) for _ in range(2))
    query = parse(f"P=? [ {oracle.written(path)} || {oracle.written(given_path)} ]")
    exact = as_oracle(tree, scores).conditional(path, given_path)
    value = check_chain(ScoredTree(tree, scores), query).bounded
    if exact is None:
        assert value is None
    else:
        assert value == pytest.approx(float(exact), abs=1e-9)


@given(st.data())
@GENERATED
def test_expected_scores_agree_with_the_enumeration_of_paths(data):
    """The expected score counts rest as 0; its bounds count rest as the limits of the range."""
    tree = data.draw(trees.text_trees())
    scores = data.draw(trees.scores(tree, NAMES))
    step = data.draw(st.integers(0, 4))
    low, high = data.draw(st.sampled_from([(-2, 2), (-7, 9), (None, 5), (-5, None)]))
    query = parse(f'R{{"gender"}}=? [ I={step} ]')
    exact = as_oracle(tree, scores)
    value = check_chain(ScoredTree(tree, scores), query).bounded
    assert value == pytest.approx(float(exact.expectation("gender", step)), abs=1e-12)
    found, _ = bounds.compute_bounds(ScoredTree(tree, scores, {"gender": (low, high)}), query)
    resting = exact.probability_of(("F", step, ("label", "rest"))) > 0
    for bound, limit in ((found.lower, low), (found.upper, high)):
        if limit is None and resting:
            assert math.isinf(bound)
        else:
            expected = exact.expectation("gender", step, rest=limit or 0)
            assert bound == pytest.approx(float(expected), abs=1e-12)


def interval(query: str) -> Interval:
    tree, scores, question = trees.by_hand(DRAWN), {"gender": GENDER}, parse(query)
    return bounds.compute_bounds(ScoredTree(tree, scores, {"gender": (None, None)}), question)[0]


@pytest.mark.parametrize(
    ("query", "surely", "perhaps"),
    [
        ("E [ F gender < 0 ]", True, True),
        ("A [ F gender > 0 ]", False, True),
        ("A [ F gender < 0 ]", False, False),
        ("E [ F gender = 50 ]", False, True),
        ("A [ G gender < 50 ]", False, True),
        ("A [ F step = 2 | gender = 2 ]", False, True),
        ("P>=0.5 [ F gender > 0 ] & A [ F gender > 0 ]", False, True),
        ("P>=0.5 [ F gender > 0 ] & A [ F gender < 0 ]", False, False),
        ("P>=0.5 [ F gender > 0 ] & E [ F gender < 0 ]", True, True),
        ("P>=0.5 [ F gender > 0 ] & E [ F gender = 50 ]", False, True),
        ("!(E [ F gender = 50 ])", False, True),
        ("E [ F gender = 50 ] => gender = 0", True, True),
        ("gender = 0 | E [ F gender = 50 ]", True, True),
    ],
)
def test_yes_or_no_is_bounded_by_three_truth_values(query, surely, perhaps):
    """What rest can change is unknown; what it cannot is true or false, combinations included."""
    assert interval(query) == Interval(surely, perhaps)


def test_bounds_of_a_condition():
    """With P(a & b) in [l1, u1] and P(!a & b) in [l2, u2]: from l1/(l1+u2) to u1/(u1+l2)."""
    # X gender = 1: 1/2, or 3/4 if rest scores 1; X gender = 2: 1/4, or 1/2
    found = interval("P=? [ X gender = 1 || X gender > 0 ]")
    assert found.lower == pytest.approx(1 / 2)
    assert found.upper == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("P=? [ F gender < 0 || F gender = 99 ]", (0, 1)),
        ("P=? [ F gender > 0 || F gender = 99 ]", (1, 1)),
        ("P=? [ G gender < 99 || F gender = 99 ]", (0, 0)),
    ],
)
def test_bounds_of_a_condition_that_only_rest_can_satisfy(query, bounds):
    """Without probability in the tree a condition leaves the bounds to logic and to rest."""
    assert interval(query) == Interval(*bounds)


@pytest.mark.parametrize("given", ["X step = 2", "F step = 1 & step = 2", "gender = 1"])
def test_a_condition_that_no_text_satisfies_is_refused(given):
    """A condition of probability 0 under every model that fits the tree is refused by name."""
    with pytest.raises(ImpossibleCondition, match=r"condition has probability 0 for every text"):
        interval(f"P=? [ F gender > 0 || {given} ]")


def every_route(tree: TextTree, scores: dict, query: Query, directory) -> None:
    """Assert that the chain, the PRISM program and the JANI model give one answer of one size."""
    write_prism(ScoredTree(tree, scores), directory / "w.prism")
    write_jani(ScoredTree(tree, scores), directory / "w.jani")
    verdict = check_chain(ScoredTree(tree, scores), query)
    explored = verdict.costs.states_explored, verdict.costs.transitions_explored
    for answer in (
        storm.check_prism(directory / "w.prism", query),
        storm.check_jani(directory / "w.jani", query),
    ):
        if verdict.bounded is None:
            assert answer.value is None
        else:
            assert verdict.bounded == pytest.approx(answer.value, abs=1e-12)
        assert explored == (answer.states, answer.transitions)


@pytest.mark.long
@given(st.data())
@GENERATED
def test_programs_give_the_same_answer(tmp_path_factory, data):
    """By every route the value is the same to 1e-12, and so is what Storm explores."""
    tree = data.draw(trees.text_trees())
    scores = data.draw(trees.scores(tree, NAMES))
    # Storm's reader of decimals errs by an ulp, on which a nested P>=1 may turn.
    formula = data.draw(oracle.formulas(NAMES, nested=False))
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    every_route(tree, scores, query, tmp_path_factory.getbasetemp())


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "path",
    [
        "F gender > 0",
        "F<=1 gender > 0",
        "F<=0 gender > 0",
        "F !(gender > 0)",
        "F gender > 0 => step = 2",
        "F true",
        "F false",
        "F (true | gender > 0)",
        'F "rest"',
        'F !"end"',
        'F (gender > 0 | "rest")',
        "F 1 > 2",
        "gender >= 0 U gender < 0",
        "gender >= 0 U<=2 gender < 0",
        "true U gender > 0",
        "false U gender > 0",
        "!true U gender > 0",
        "gender = 0 U true",
        '"rest" U "end"',
        '!"rest" U gender < 0',
        '(gender = 0 & "rest") U gender < 0',
        "gender = 0 U (X gender < 0)",
        "(X gender < 0) U gender = 0",
        "gender = 0 U P>=0.5 [ F gender > 0 ]",
        "F P>=0.5 [ F gender > 0 ]",
        "G gender > 0",
        "G<=1 gender >= 0",
        "X gender > 0",
        "!(F gender > 0)",
        "F F gender > 0",
        "gender >= 0 W gender < 0",
        "gender >= 0 R gender < 0",
        "step < 1 U gender > 0",
    ],
)
def test_what_storm_explores_for_each_kind_of_query(path, tmp_path):
    """For every operator and operand the explicit route counts what Storm's front end builds."""
    scores = {"gender": GENDER}
    for bound in ("=?", ">=0.6"):
        query = parse(f"P{bound} [ {path} ]")
        every_route(trees.by_hand(DRAWN), scores, query, tmp_path)


@pytest.mark.parametrize(
    "query",
    [
        "E [ F gender > 0 ]",
        "A [ F gender > 0 ]",
        "A [ gender >= 0 U gender < 0 ]",
        "E [ G gender >= 0 ]",
        "A [ F E [ X gender < 0 ] ]",
        "!(E [ F gender > 0 ])",
        "(P>=0.5 [ F gender > 0 ]) & (A [ F gender < 0 ])",
        "gender = 0 & P>=0.5 [ F gender > 0 ]",
        "P>=0.5 [ F gender > 0 ] => true",
        '"rest" | E [ F gender > 0 ]',
        "P=? [ F gender > 0 || F gender < 0 ]",
        "P=? [ F gender > 0 || F step = 1 ]",
        "P=? [ F gender > 0 || F gender = 99 ]",
        'R{"gender"}=? [ I=0 ]',
        'R{"gender"}=? [ I=2 ]',
    ],
)
def test_every_route_for_each_kind_of_query(query, tmp_path):
    """Path quantifiers, combinations, conditions and expected scores are answered by both."""
    every_route(trees.by_hand(DRAWN), {"gender": GENDER}, parse(query), tmp_path)


def test_every_route_on_the_full_shape(tmp_path):
    """On 911 states with probabilities that float64 rounds, the routes differ by under 1e-12."""
    tree = trees.full(9, 3)
    scores = {"gender": np.random.default_rng(0).integers(-9, 3, len(tree)) * (tree.step > 0)}
    for path in ("F gender > 0", "F gender < -7 & step = 3", "G gender <= 0"):
        every_route(tree, scores, parse(f"P=? [ {path} ]"), tmp_path)


def test_a_deep_sum_is_exact():
    """A value that takes 200 steps is exact to 1e-12: Storm does not stop iterating early."""
    states = []
    for step in range(200):
        before = 0 if step == 0 else 2 * step - 1
        states += [(before, 63 / 64, TEXT), (before, 1 / 64, REST)]
    tree = trees.by_hand(states)
    verdict = check_chain(ScoredTree(tree, {}), parse('P=? [ F "rest" ]'))
    assert verdict.bounded == pytest.approx(float(1 - Fraction(63, 64) ** 200), abs=1e-12)


def test_a_row_short_of_one_is_computed_as_it_is():
    """Storm takes a row that sums to 1 - 2^-40 and computes with the tree's own numbers."""
    short = 0.5 - 2**-40
    tree = trees.by_hand([(0, 0.5, TEXT), (0, short, REST)])
    verdict = check_chain(ScoredTree(tree, {}), parse('P=? [ F "rest" ]'))
    assert verdict.bounded == short


def test_an_impossible_child_is_counted_by_neither_route(tmp_path):
    """A child of probability 0 changes neither the value nor the size, by either route."""
    tree = trees.by_hand([(0, 1.0, TEXT), (0, 0.0, END), (1, 1.0, TEXT)])
    every_route(tree, {}, parse("P=? [ F step = 2 ]"), tmp_path)


def test_a_verdict_is_read_as_it_was_written(tmp_path):
    """Every field of a verdict survives its JSON file, for values and for yes and no."""
    for query, certain in (
        ("P=? [ F gender > 0 ]", Interval(0.25, 0.5)),
        ("P>=0.5 [ F gender > 0 ]", Interval(False, True)),
        ('R{"gender"}=? [ I=1 ]', Interval(-math.inf, 0.5)),
    ):
        verdict = replace(ask(query), certain=certain, notes=("It is hard.",))
        sampled = Sampled(Interval(0.25, 0.5), 0.3, 0.99, 20, 7)
        verdict = verdict.with_samples(sampled)
        verdict.write(tmp_path / "verdict.json")
        assert Answer.read(tmp_path / "verdict.json") == verdict


def test_a_verdict_names_its_versions_and_seconds():
    """A verdict says which Storm gave it and how long it took."""
    chain = ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER})
    verdict = check_chain(chain, parse("P=? [ F gender > 0 ]"), encode_seconds=2.5)
    assert verdict.costs.encode_seconds == 2.5
    assert verdict.costs.check_seconds > 0
    assert verdict.versions.keys() == {"storm", "stormpy", "llmchecker"}
    assert verdict.versions["storm"].startswith("2.")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"query": 1}'])
def test_a_file_that_is_no_verdict_is_refused(content, tmp_path):
    """A file that no verdict was written to, and one of something else, are named."""
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(DamagedFile, match=r"v\.json: damaged or from an older version"):
        Answer.read(tmp_path / "v.json")
    write_json_with_digest({"query": 1}, tmp_path / "v.json")
    with pytest.raises(DamagedFile, match=r"v\.json: damaged .* the format None, not "):
        Answer.read(tmp_path / "v.json")


def test_a_verdict_of_which_a_bit_flipped_is_refused(tmp_path):
    """Whichever bit of a verdict's file changes, it is not read, and the file is named."""
    path = tmp_path / "v.json"
    ask("P=? [ F gender > 0 ]").write(path)
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 13):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(DamagedFile, match=r"v\.json"):
            Answer.read(path)


def test_a_query_over_an_unscored_quantifier_is_refused(tmp_path):
    """By either route a query over a variable that is not there fails with its name."""
    with pytest.raises(UnknownName, match="polarity"):
        ask("P=? [ F polarity > 0 ]")
    write_prism(ScoredTree(trees.by_hand(DRAWN), {}), tmp_path / "w.prism")
    with pytest.raises(InvalidQuery, match="Storm does not read"):
        storm.check_prism(tmp_path / "w.prism", parse("P=? [ F polarity > 0 ]"))


def test_a_program_that_storm_does_not_read_is_reported(tmp_path, capfd):
    """A broken program is a failed check with its cause, and Storm prints nothing itself."""
    path = tmp_path / "broken.prism"
    path.write_text("dtmc\nmodule")
    with pytest.raises(CheckFailed, match="broken") as caught:
        storm.check_prism(path, parse("P=? [ F step = 1 ]"))
    assert caught.value.__cause__ is not None
    assert capfd.readouterr() == ("", "")
