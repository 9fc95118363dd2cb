"""Probabilities below every rounding error are not taken for 0 or 1."""

import pytest
from helpers.anytime_checks import plant, serve
from helpers.random_tables import Balance, ReadBalance

import llmchecker as lc
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.budget import Budget
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

ENDS = 512
"""The number of end tokens, as many as a visit lists at most."""
HIDDEN = 1e-22
"""A probability that no sum of likely tokens shows."""


def hidden_model() -> TableModel:
    """A model that writes "sx", and next to never "sya".

    The token "x" is the first of those that a visit of "s" does not list, and "y" the second.
    """
    x, y, a, s = range(ENDS, ENDS + 4)

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        weights = [0.0] * (ENDS + 4)
        if not tokens:
            weights[s] = 1.0
        elif tokens == (s,):
            weights[x], weights[y] = 1 / (ENDS + 2), HIDDEN
            weights[:ENDS] = [(1 - weights[x]) / ENDS] * ENDS
        else:
            weights[a if tokens[-1] == y else 0] = 1.0
        return weights

    return TableModel([*("." * ENDS), *"xyas"], distribution, frozenset(range(ENDS)))


def vanishing_model() -> TableModel:
    """A model whose text "aa" has the probability 1e-400, which float64 computes as 0."""
    return TableModel(["a", "x"], lambda tokens: [1e-200, 1 - 1e-200])


CASES = [
    ("P<=0 [ F score > {n} ]", False),
    ("P>0 [ F score > {n} ]", True),
    ("P>=1 [ G score <= {n} ]", False),
    ("P<1 [ G score <= {n} ]", True),
    ("E [ F score > {n} ]", True),
    ("A [ G score <= {n} ]", False),
]


@pytest.mark.few(8)
@pytest.mark.parametrize("quantifier", [Balance("a", "z"), ReadBalance("a", "z")])
@pytest.mark.parametrize(("query", "truth"), CASES)
@pytest.mark.parametrize(
    ("model", "count"), [(hidden_model(), 0), (vanishing_model(), 1)], ids=["hidden", "vanishing"]
)
def test_an_improbable_text_decides_a_threshold_of_0_or_1(query, truth, model, count, quantifier):
    """However few passes there are no answer contradicts the text, and enough passes find it."""
    for passes in (1, 3, 8, 40):
        found = lc.ask(query.format(n=count), model, "", length=3, passes=passes, score=quantifier)
        assert found.lower <= truth <= found.upper
    assert found.holds is truth
    assert found.passes < passes


@pytest.mark.parametrize(("listed", "holds"), [(2, None), (3, True)])
def test_unlisted_tokens_cost_no_passes(listed, holds):
    """Where a model lists few tokens a threshold of 0 stays open, and the work ends as soon as only
    rounding is undecided."""
    model = TableModel(["a", "b", "c"], lambda tokens: [0.5, 0.5, 1e-17])
    model.listed_tokens = listed
    asked = Property(parse("P<=0 [ F score > 5 ]"), {"score": ReadBalance("a", "z")}, length=2)
    tree, server = plant(asked, model, listed_tokens=3)
    check = AnytimeCheck(tree, asked, Budget(passes=1000))
    serve(check.run(), server)
    # the first round asks for whole continuations
    assert tree.passes < 50
    found = check.bound_answer()
    assert (found.lower, found.upper) == ((0.0, 1.0) if holds is None else (1.0, 1.0))


def test_a_condition_that_underflows_can_hold():
    """The only texts that satisfy a condition have a probability of 0 in float64, and its
    quotients are 1 and 0."""
    for path, value in (("F score > 1", 1.0), ("G score <= 1", 0.0)):
        query = f"P=? [ {path} || F score > 1 ]"
        found = lc.ask(query, vanishing_model(), "", length=3, score=ReadBalance("a", "z"))
        assert (found.lower, found.upper) == (value, value)


def test_bounds_of_drawn_tokens_hold_the_rest():
    """A rest that drawn tokens seem to exhaust keeps the upper bound above the truth."""
    for passes in (3, 10, 20):
        found = lc.ask(
            "P=? [ F score > 0 ]",
            hidden_model(),
            "",
            length=3,
            passes=passes,
            score=Balance("a", "z"),
        )
        assert found.lower <= HIDDEN <= found.upper
