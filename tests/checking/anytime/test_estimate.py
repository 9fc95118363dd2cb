"""An estimate never contradicts the certain answer that it stands with."""

import pytest

from llmchecker.checking.answer import Answer, Sampled
from llmchecker.properties.logic.parser import parse
from llmchecker.utils.interval import Interval

ABOVE = 1.0000000000000002


def estimated(query: str, lower, upper, low: float, high: float, samples: int = 0) -> Answer:
    """The answer with samples whose ends are given."""
    certain = Answer(parse(query), 1, Interval(lower, upper))
    return certain.with_samples(Sampled(Interval(low, high), low, 0.99, samples))


@pytest.mark.parametrize("samples", [0, 10])
@pytest.mark.parametrize(("low", "high"), [(ABOVE, ABOVE), (0.5, 0.4999), (0.1, 0.2), (0.9, 1.0)])
def test_an_estimate_lies_within_the_certain_bounds(low, high, samples):
    """lower <= low <= estimate <= high <= upper, whatever rounding did to the sums."""
    for lower, upper in ((1.0, 1.0), (0.3, 0.6), (0.0, 1.0)):
        found = estimated("P=? [ F g > 0 ]", lower, upper, low, high, samples)
        assert lower <= found.low <= found.estimate <= found.high <= upper


@pytest.mark.parametrize(
    ("query", "truth"), [("P<=1 [ F g > 0 ]", True), ("P>1 [ F g > 0 ]", False)]
)
def test_a_certain_verdict_is_the_estimated_one(query, truth):
    """A threshold query with a certain answer has the same answer as estimate."""
    found = estimated(query, truth, truth, ABOVE, ABOVE)
    assert found.estimate is truth
    assert found.low <= found.high <= 1
