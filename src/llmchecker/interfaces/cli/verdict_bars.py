"""The bars of a verdict: its bounds and its estimate, to be drawn."""

from llmchecker.checking.verdict import Verdict
from llmchecker.interfaces.cli.terminal import CERTAIN, ESTIMATE, Bar
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.parser import parse


def build_bars(verdict: Verdict) -> dict[str, Bar]:
    """Build the bars of the probabilities of a verdict; empty for an expected score."""
    if isinstance(parse(verdict.query).root, Expectation):
        return {}
    bars = {}
    # the bounds of a query without =? are truths
    if verdict.decision is None and verdict.lower is not None:
        bars[CERTAIN] = Bar(verdict.lower, verdict.upper)
    if verdict.low is not None:
        bars[ESTIMATE] = Bar(verdict.low, verdict.high)
    return bars
