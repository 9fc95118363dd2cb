"""`ask`: a question about a caller's model is answered with and without certainty."""

import pytest

import llmchecker as lc
from llmchecker.errors import ConfigError, InvalidEstimate, InvalidQuery

WORDS = ["once", " he", " she", " it"]
TRUTH = 1 - 0.75**3
"""The chance of at least one he among three words."""


@pytest.fixture(scope="module")
def model():
    return lc.TableModel(WORDS, lambda tokens: [0, 0.25, 0.25, 0.5])


def he(start: str, continuation: str) -> int:
    return continuation.count(" he")


def test_few_passes_leave_an_interval_within_the_bounds(model):
    """With too few passes to look everywhere the truth lies in the bounds and the interval."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=24, he=he)
    assert answer.lower <= answer.low <= answer.estimate <= answer.high <= answer.upper
    assert answer.low <= TRUTH <= answer.high
    assert answer.lower < answer.upper
    assert answer.samples > 0
    assert answer.passes <= 24
    again = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=24, he=he)
    assert (again.low, again.high, again.passes) == (answer.low, answer.high, answer.passes)


def test_enough_passes_give_the_probability(model):
    """Where everything is decided the bounds and the estimate are the probability."""
    answer = lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=1000, he=he)
    assert (answer.lower, answer.upper) == pytest.approx((TRUTH, TRUTH))
    assert (answer.low, answer.estimate, answer.high) == pytest.approx((TRUTH,) * 3)
    assert answer.samples == 0
    assert isinstance(answer.tree, lc.Tree)
    assert "value" not in str(answer)
    assert "certain" in str(answer)


def test_certain_answers_have_no_estimate(model):
    """All work goes into the bounds, and a threshold is decided by them."""
    answer = lc.ask("P>=0.2 [ F he > 0 ]", model, "once", length=3, passes=50, certain=True, he=he)
    assert (answer.lower, answer.upper) == (True, True)
    assert (answer.estimate, answer.low, answer.samples) == (None, None, None)


def test_progress_is_told(model):
    """Sentences tell how far refinement and samples are."""
    told = []
    lc.ask("P=? [ F he > 0 ]", model, "once", length=3, passes=24, he=he, progress=told.append)
    assert told[0] == "refining: width 1 after 0 passes"
    assert told[-1].startswith("sampling: ")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("P=? [ F ", "once"), InvalidQuery, "of the query"),
        (("P=? [ F he > 0 ]", 7), ConfigError, "the start string is 7"),
        (("P=? [ F hee > 0 ]", "once"), InvalidQuery, "hee is neither step nor"),
        (('R{"he"}=? [ I=9 ]', "once"), InvalidQuery, "beyond the horizon"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments, error, message, model):
    """A wrong argument is named before the model is asked."""
    query, start = arguments
    with pytest.raises(error, match=message):
        lc.ask(query, model, start, passes=10, he=he)


def test_a_path_is_no_model_and_an_effort_has_a_range(model):
    """A directory must be loaded first, and an impossible confidence is named."""
    with pytest.raises(ConfigError, match="is not a language model"):
        lc.ask("P=? [ F he > 0 ]", "resources/models/one", "once", he=he)
    with pytest.raises(InvalidEstimate, match="confidence is 2"):
        lc.ask("P=? [ F he > 0 ]", model, "once", confidence=2, he=he)
