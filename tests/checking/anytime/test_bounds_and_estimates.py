"""Certain bounds, estimates and verdicts of random models agree with the enumerated truth."""

import random
from fractions import Fraction

import pytest
from helpers import oracle
from helpers.random_tables import QUANTIFIERS, START, table_model, whole_tree

import llmchecker as lc
from llmchecker.errors import ImpossibleCondition
from llmchecker.properties.scores import score_tree

LENGTH = 3
PATHS = [
    ("F", None, ("atom", "gender", ">", 1)),
    ("G", None, ("atom", "polarity", "<", 1)),
    ("U", 2, ("atom", "gender", ">=", 0), ("atom", "polarity", ">", 0)),
    ("F", None, ("atom", "step", ">", -1)),
    ("G", None, ("atom", "step", "<", 0)),
]
THRESHOLDS = ["<=1", ">=1", ">0", "<=0", ">=0.5", "<0.25"]


def _rounded_model(seed: int) -> lc.TableModel:
    """A model of tenths, which float64 rounds."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        weights = [0.1, 0.1, 0.2, 0.3, 0.3]
        random.Random(repr((seed, tokens))).shuffle(weights)
        return weights

    return lc.TableModel([*"abcd", "."], distribution, frozenset([4]))


def enumerated(model, path) -> Fraction:
    """The probability of a path formula, from all texts of a model."""
    tree = whole_tree(model, LENGTH)
    scores = {name: score_tree(each, tree) for name, each in QUANTIFIERS.items()}
    columns = {"step": tree.step, **scores}
    return oracle.Tree(tree.parent, tree.probability, tree.kind, columns).probability_of(path)


@pytest.mark.few(5)
@pytest.mark.parametrize("path", PATHS, ids=oracle.written)
@pytest.mark.parametrize("passes", [4, 40, 4000])
def test_bounds_hold_the_truth_and_the_estimate(path, passes):
    """As fractions lower <= truth <= upper and lower <= low <= estimate <= high <= upper."""
    for seed in range(8):
        model = table_model(seed) if seed % 2 else _rounded_model(seed)
        truth = enumerated(model, path)
        query = f"P=? [ {oracle.written(path)} ]"
        found = lc.ask(query, model, START, length=LENGTH, passes=passes, **QUANTIFIERS)
        assert Fraction(found.lower) <= truth <= Fraction(found.upper)
        ends = [found.lower, found.low, found.estimate, found.high, found.upper]
        # few passes may leave no complete sample
        assert passes == 4 or None not in ends
        assert (found.low is None) == (found.estimate is None) == (found.high is None)
        ends = [end for end in ends if end is not None]
        assert ends == sorted(ends)


@pytest.mark.few(4)
@pytest.mark.parametrize("path", PATHS, ids=oracle.written)
@pytest.mark.parametrize("passes", [4, 4000])
def test_a_threshold_has_the_same_verdict_by_certainty_and_by_estimate(path, passes):
    """The verdict of an estimate never contradicts the certain one, which is the true one."""
    for seed, threshold in enumerate(THRESHOLDS):
        model = table_model(seed)
        comparison, number = threshold.rstrip("0.125"), Fraction(threshold.lstrip("<>="))
        truth = enumerated(model, path)
        meets = {
            "<=": truth <= number, ">=": truth >= number, "<": truth < number, ">": truth > number
        }[comparison]  # fmt: skip
        query = f"P{threshold} [ {oracle.written(path)} ]"
        found = lc.ask(query, model, START, length=LENGTH, passes=passes, **QUANTIFIERS)
        assert found.lower <= meets <= found.upper
        assert found.low is None or 0 <= found.low <= found.high <= 1
        # bounds may decide a threshold before the first sample
        if found.lower == found.upper and found.low is not None:
            assert found.estimate is meets


def test_a_conditional_is_exact_only_after_a_text_has_met_its_condition():
    """What every text satisfies is certain under any condition, unless no text can meet it."""
    query, scorer = "P=? [ F step > 0 || F b > 0 ]", lambda start, text: text.count("b")
    fair = lc.TableModel("ab", lambda tokens: (0.5, 0.5))
    found = lc.ask(query, fair, "a", length=3, passes=50, b=scorer)
    assert (found.lower, found.upper, found.passes) == (1, 1, 1)
    never = lc.TableModel("ab", lambda tokens: (1.0, 0.0))
    with pytest.raises(ImpossibleCondition, match="its condition has probability 0"):
        lc.ask(query, never, "a", length=3, passes=50, b=scorer)
