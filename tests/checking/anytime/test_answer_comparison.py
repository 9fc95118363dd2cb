"""Comparisons of two random models agree with the difference of their enumerated answers."""

import math
from fractions import Fraction

import pytest
from helpers import oracle
from helpers.random_tables import QUANTIFIERS, START, table_model, whole_tree

import llmchecker as lc
from llmchecker.checking.budget import Budget
from llmchecker.checking.comparison import Comparison
from llmchecker.checking.comparison_run import compare_answers
from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.question import Question
from llmchecker.errors import InterruptedCheck, InvalidQuery
from llmchecker.interfaces.python.scorers import resolve_scorers
from llmchecker.properties.scores import score_tree
from llmchecker.utils.interval import Interval

LENGTH = 4
PATH = ("F", None, ("atom", "gender", ">", 1))
QUERY = f"P=? [ {oracle.written(PATH)} ]"


def enumerated(model: lc.TableModel) -> Fraction:
    """The probability of the path formula, from all texts of a model."""
    tree = whole_tree(model, LENGTH)
    scores = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    columns = {"step": tree.step, **scores}
    return oracle.Tree(tree.parent, tree.probability, tree.kind, columns).probability_of(PATH)


def compared(first: lc.TableModel, versus: lc.TableModel, **limits) -> Comparison:
    asked = resolve_scorers(QUERY, LENGTH, {"gender": QUANTIFIERS["gender"]})
    sides = (Question(model, START, asked, Budget(**limits)) for model in (first, versus))
    return compare_answers(*sides)


def find_greater(difference: Fraction) -> ComparisonOutcome:
    if difference == 0:
        return ComparisonOutcome.EQUAL
    return ComparisonOutcome.FIRST if difference > 0 else ComparisonOutcome.VERSUS


@pytest.mark.few(2)
@pytest.mark.parametrize("passes", [1, 3, 20, 80])
def test_the_difference_is_within_bounds_and_interval(passes):
    """Certain bounds hold the difference, in both orders; what is certain is right."""
    for seed in range(0, 12, 2):
        models = table_model(seed), table_model(seed + 1)
        truth = enumerated(models[0]) - enumerated(models[1])
        for sign, (first, versus) in ((1, models), (-1, models[::-1])):
            found = compared(first, versus, passes=passes, seed=seed)
            assert found.lower <= sign * truth <= found.upper
            assert found.passes <= passes
            assert found.passes == found.first.passes + found.versus.passes
            if found.low is not None:
                assert found.lower <= found.low <= found.high <= found.upper
            if found.is_certain:
                assert found.outcome == find_greater(sign * truth)


def test_finished_trees_decide_with_certainty():
    """With passes for all texts the bounds are the difference up to rounding."""
    for seed in range(0, 8, 2):
        models = table_model(seed), table_model(seed + 1)
        truth = enumerated(models[0]) - enumerated(models[1])
        for sign, (first, versus) in ((1, models), (-1, models[::-1])):
            found = compared(first, versus, passes=5000)
            assert found.lower <= sign * truth <= found.upper
            assert found.upper - found.lower < 1e-12
            if abs(truth) > 1e-9:
                assert (found.outcome, found.is_certain) == (find_greater(sign * truth), True)


def test_equal_answers_that_are_exact_are_equal():
    """Two models that surely satisfy the query are certainly equal."""
    models = [lc.TableModel(["a", "b"], lambda tokens, p=p: [p, 1 - p]) for p in (0.25, 0.5)]
    asked = resolve_scorers("P=? [ F step = 1 ]", 2, {})
    sides = [Question(model, "a", asked, Budget(passes=50)) for model in models]
    found = compare_answers(*sides)
    assert (found.lower, found.upper) == (0, 0)
    assert (found.outcome, found.is_certain) == (ComparisonOutcome.EQUAL, True)


@pytest.mark.long
@pytest.mark.slow
def test_the_interval_covers_the_difference_with_its_confidence():
    """Over 80 seeds the interval of confidence 0.8 misses the difference in at most 20 %."""
    models = table_model(3), table_model(8)
    truth = enumerated(models[0]) - enumerated(models[1])
    misses = sampled = 0
    for seed in range(80):
        found = compared(*models, passes=40, confidence=0.8, seed=seed)
        if found.low is None:
            continue
        sampled += 1
        misses += not found.low <= truth <= found.high
    assert sampled > 60
    assert misses <= 0.2 * sampled


def test_the_width_of_the_difference_ends_the_work():
    """The work ends soon after the interval of the difference is as narrow as wanted."""
    models = table_model(2), table_model(5)
    found = compared(*models, width=0.5, passes=5000)
    assert found.high - found.low <= 0.5
    assert found.passes < compared(*models, passes=5000).passes
    assert found.forecast is None


def test_both_sides_have_independent_samples():
    """A model against itself draws other samples on each side."""
    model = table_model(2)
    found = compared(model, model, passes=60)
    assert found.first.sampled.seed != found.versus.sampled.seed
    assert found.first.sampled.confidence == pytest.approx(0.995)


def test_a_watch_ends_the_work():
    """A true return ends the comparison, whose intervals are those of the last call."""
    models, calls = (table_model(2), table_model(5)), []
    asked = resolve_scorers(QUERY, LENGTH, {"gender": QUANTIFIERS["gender"]})
    sides = [Question(model, START, asked, Budget(passes=5000)) for model in models]

    def watch(progress):
        calls.append(progress)
        return len(calls) == 4

    found = compare_answers(*sides, watch=watch)
    assert len(calls) == 4
    assert found.passes == calls[-1].passes


def test_a_model_that_fails_leaves_the_difference_so_far():
    """The error of a failing model holds a comparison whose bounds are right."""
    good, calls = table_model(2), []

    def distribution(tokens):
        calls.append(tokens)
        if len(calls) > 6:
            raise OSError("the device is gone")
        return good.distribution(tokens)

    bad = lc.TableModel([*"abcd", "."], distribution, frozenset([4]))
    with pytest.raises(InterruptedCheck, match="table: the model failed: OSError") as caught:
        compared(good, bad, passes=2000)
    found = caught.value.result
    assert found.lower <= 0 <= found.upper
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("P>=0.5 [ F gender > 1 ]", "a comparison needs a number; write =\\?"),
        ("A [ F gender > 1 ]", "a comparison needs a number"),
        ('R{"gender"}=? [ I=3 ]', "gender has no least or no greatest score"),
    ],
)
def test_a_query_without_a_limited_number_is_refused(query, message):
    """Thresholds, E and A have no difference, nor has an expected score without a range."""
    asked = resolve_scorers(query, LENGTH, {"gender": QUANTIFIERS["gender"]})
    side = Question(table_model(2), START, asked, Budget(passes=10))
    with pytest.raises(InvalidQuery, match=message):
        compare_answers(side, side)


def test_differences_are_rounded_outwards():
    """The exact difference of the ends is within the interval, which is at most a float wider."""
    found = Interval(0.1, 0.3) - Interval(0.2, 1e-20)
    assert Fraction(found.lower) <= Fraction(0.1) - Fraction(1e-20)
    assert found.upper >= Fraction(0.3) - Fraction(0.2)
    unlimited = Interval(-math.inf, 1.0) - Interval(0.0, 1.0)
    assert unlimited == Interval(-math.inf, 1.0)
