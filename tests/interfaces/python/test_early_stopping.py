"""`EarlyStopping`: what it calls certain is what every way to go on would show."""

import asyncio
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from types import ModuleType, SimpleNamespace

import pytest

import llmchecker as lc

COUNT = 6


@pytest.fixture(autouse=True)
def scorer(monkeypatch):
    """The conversion of scores by inspect_ai, which need not be installed."""
    module = ModuleType("inspect_ai.scorer")
    module.value_to_float = lambda: float
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.scorer", module)


def iter_decisions(values: tuple[int, ...], **limit: float) -> Iterator:
    """Yield the decision after each score of a task."""
    stopping = lc.EarlyStopping(**limit)
    task = SimpleNamespace(dataset=SimpleNamespace(shuffled=True))
    samples = [SimpleNamespace(id=number) for number in range(len(values))]
    asyncio.run(stopping.start_task(task, samples, 1))
    for number, value in enumerate(values):
        scores = {"match": SimpleNamespace(score=SimpleNamespace(value=value))}
        asyncio.run(stopping.complete_sample(number, 1, scores))
        yield stopping.decision


@pytest.mark.parametrize("limit", [{"at_least": 0.5}, {"at_most": 0.25}])
def test_a_decision_is_certain_where_all_continuations_agree(limit):
    """By enumeration: certain is the verdict of all continuations, and nothing else is certain."""
    ((kind, number),) = limit.items()
    for values in product((0, 1), repeat=COUNT):
        for read, decision in enumerate(iter_decisions(values, **limit), 1):
            means = [
                Fraction(sum(values[:read]) + others, COUNT) for others in range(COUNT - read + 1)
            ]
            verdicts = {mean >= number if kind == "at_least" else mean <= number for mean in means}
            is_certain = len(verdicts) == 1
            assert (decision.outcome != "UNKNOWN" and decision.confidence is None) == is_certain
            if is_certain:
                assert decision.outcome == ("HOLDS" if verdicts == {True} else "VIOLATED")
            elif decision.outcome != "UNKNOWN":
                assert decision.confidence == 0.99
