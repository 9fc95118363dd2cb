"""The bars of an answer: its bounds and its estimate, to be drawn."""

from llmchecker.checking.answer import Answer
from llmchecker.interfaces.cli.terminal import CERTAIN, ESTIMATE, Bar
from llmchecker.properties.logic.ast import Expectation


def build_bars(answer: Answer) -> dict[str, Bar]:
    """Build the bars of the probabilities of an answer; empty for an expected score."""
    if isinstance(answer.query.root, Expectation):
        return {}
    bars = {}
    # the bounds of a query without =? are truths
    if answer.query.is_numeric:
        bars[CERTAIN] = Bar(answer.lower, answer.upper)
    if answer.sampled is not None:
        bars[ESTIMATE] = Bar(answer.low, answer.high)
    return bars
