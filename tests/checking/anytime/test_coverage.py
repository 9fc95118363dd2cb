"""Intervals with confidence cover the enumerated truth at every time at once, and errors show."""

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers.anytime_checks import (
    SHORT_VISITS,
    Kind,
    TableServer,
    copied,
    expected_score,
    plant,
    serve,
    spread_model,
    truncated,
)
from helpers.random_tables import START
from scipy.stats import binom

from llmchecker.checking.anytime import (
    anytime_check,
    confidence_sequence,
    control_variates,
    partial_tree,
    path_sampler,
)
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.path_sampler import SampleRound, split_tree
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse

ROUNDING = 1e-9
COPIES, PASSES = 2, 24
SEEDS = int(os.environ.get("COVERAGE_SEEDS", "300"))
"""Seeds of each kind and confidence; more of them find smaller errors."""
MANY_A = ("F", None, ("atom", "gender", ">", 1))
NO_D = ("G", None, ("atom", "polarity", ">=", 0))
CERTAIN = ("F", None, ("atom", "step", ">", -1))
LATE = ("F", None, ("&", ("atom", "step", "=", 3), ("atom", "gender", ">", 0)))
FEW = ("F", None, ("&", ("atom", "step", "=", 3), ("atom", "polarity", ">", 1)))
KINDS = {
    "reachability": Kind(MANY_A),
    "until": Kind(("U", 2, ("atom", "gender", ">=", 0), ("atom", "polarity", ">", 0))),
    "safety": Kind(NO_D),
    "ltl": Kind(("F", None, ("G", None, ("atom", "gender", ">", 0)))),
    "conditional": Kind(MANY_A, NO_D),
    "expected": expected_score(3),
    "decided": Kind(CERTAIN),
    "undecided": Kind(LATE),
    "rare": Kind(("F", None, ("atom", "polarity", "<", -3)), length=4),
    "few": Kind(FEW),
    "ended": Kind(("F", None, ("label", "end"))),
}
"""Kinds of queries by name. Until the last token no text decides `undecided`."""

LIMITS = {"rare": (5e-5, 2e-4), "few": (0.02, 0.1), "decided": (1, 1), "expected": (0.5, 2)}
"""Limits of the truth by kind, where they are not 0.1 and 0.9."""


@cache
def find_model(name: str, is_truncated: bool = False) -> TableModel:
    """The first random table whose truth suits the kind: rare, or far from 0 and 1."""
    low, high = LIMITS.get(name, (0.1, 0.9))
    for seed in range(1000):
        model = truncated(spread_model(seed)) if is_truncated else spread_model(seed)
        truth = KINDS[name].find_truth(model)
        if truth is not None and low <= truth <= high:
            return model
    raise AssertionError(f"no table suits {name}")


class Runs:
    """Checks of one query on one model, with a seed each.

    Args:
        model: the table.
        asked: the query.
        truth: its answer.
    """

    def __init__(self, model: TableModel, asked: CheckedQuery, truth: Fraction) -> None:
        self.truth, self.asked, self.model = truth, asked, model
        self.server = TableServer(model, model.encode(START))

    @classmethod
    def of_kind(cls, name: str, is_truncated: bool = False) -> "Runs":
        """Return the runs of a kind on a table that suits it, with several tokens a letter."""
        table, kind = find_model(name, is_truncated), KINDS[name]
        return cls(copied(table, COPIES), kind.ask(), kind.find_truth(table))

    def start(self, seed: int, confidence: float, **limits) -> AnytimeCheck:
        """Return a new check."""
        tree, _ = plant(self.asked, self.model)
        budget = AnswerBudget(confidence=confidence, seed=seed, **limits)
        return AnytimeCheck(tree, self.asked, budget)

    def covers(self, check: AnytimeCheck) -> bool:
        """Return whether the bounds contain the truth for certain, and the interval does."""
        progress = check.compute_progress()
        assert progress.lower - ROUNDING <= self.truth <= progress.upper + ROUNDING
        interval = check.interval
        return interval is None or (interval[0] - ROUNDING <= self.truth <= interval[1] + ROUNDING)

    def covers_always(self, check: AnytimeCheck) -> bool:
        """Return whether the interval contains the truth after each round of a check."""
        is_covered = []
        check._report = lambda progress: is_covered.append(self.covers(check))
        serve(check.run(), self.server)
        return all(is_covered) and self.covers(check)


def is_too_often(misses: int, runs: int, confidence: float) -> bool:
    """Return whether so many misses have a probability below 1e-3 if the confidence holds."""
    return binom.sf(misses - 1, runs, 1 - confidence) < 1e-3


def count_misses(runs: Runs, seeds: range, confidence: float, passes: int) -> int:
    """Count the runs whose interval excludes the truth after any of its rounds."""
    checks = (runs.start(seed, confidence, passes=passes) for seed in seeds)
    return sum(not runs.covers_always(check) for check in checks)


@pytest.fixture(autouse=True)
def _small_rounds(monkeypatch):
    """Rounds so small that a few passes have several, and refinements between them."""
    monkeypatch.setattr(anytime_check, "_MIN_ROUND", 8)
    monkeypatch.setattr(anytime_check, "_FIRST_SAMPLES", 0)
    monkeypatch.setattr(anytime_check, "_MIN_REFINEMENT", 1)
    monkeypatch.setattr(anytime_check, "_MIN_MEASURED_SAMPLES", 12)


def peek(runs: Runs) -> Callable[..., SampleRound]:
    """Return an invalid round: the first one's predictor has learned from the same samples."""

    def build(tree, estimand, part, predictor, seed, first, count) -> SampleRound:
        if first == 0:
            twin, server = plant(runs.asked, runs.model)
            root = np.array([0])
            twin.add_children(root, server.answer(twin.build_request(root)))
            samples = SampleRound(twin, estimand, part, predictor, seed, first, count)
            serve(samples.run(), server)
            samples.learn(predictor)
        return SampleRound(tree, estimand, part, predictor, seed, first, count)

    return build


class ShiftingRound(SampleRound):
    """An invalid round: its values count from the tree that the same samples have extended."""

    def run(self) -> Iterator:
        yield from super().run()
        part = split_tree(self._tree, self._estimand)
        self.part = part if part.total > 0 else self.part


def compute_unlimited_wealths(gambler, ratio: float) -> np.ndarray:
    """The wealths without regard to the range of the values."""
    z = gambler.sign * (gambler.numerator - ratio * gambler.denominator)
    return np.log1p(np.maximum(gambler._stakes * z, -0.95)).cumsum(axis=1)


def skewed_runs() -> Runs:
    """Half of the mass on one text that satisfies the query, and half on 32 that violate it."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        if len(tokens) == 1:
            return [1 / 2] + [1 / 64] * 32
        return [1.0] + [0.0] * 32 if tokens[1] == 0 else [0.0] * 32 + [1.0]

    path = ("F", None, ("&", ("atom", "step", "=", 2), ("atom", "gender", ">", 0)))
    asked = Kind(path, length=2).ask()
    return Runs(TableModel(["a"] + ["b"] * 32, distribution), asked, Fraction(1, 2))


def lottery_runs() -> Runs:
    """4,000 equally likely tokens, half of which win; the next token reveals which."""
    count = 4000
    vocabulary = [*map(chr, range(200, 200 + count)), *"lwa"]

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        weights = [0.0] * len(vocabulary)
        if len(tokens) == 1:
            weights[:count] = [1 / count] * count
        else:
            weights[count + tokens[1] * 7919 % count % 2] = 1.0
        return weights

    asked = CheckedQuery(parse("P=? [ F win > 0 ]"), {"win": _Win()}, 2)
    return Runs(TableModel(vocabulary, distribution), asked, Fraction(1, 2))


class _Win:
    """1 after the token w."""

    minimum = maximum = None

    def __call__(self, start: str, continuation: str) -> int:
        return int(continuation.endswith("w"))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", KINDS)
def test_intervals_cover_the_truth_after_every_round(name):
    """Of few seeds no more miss the truth after any round than the confidence allows."""
    for confidence in (0.9, 0.99):
        misses = count_misses(Runs.of_kind(name), range(12), confidence, PASSES)
        assert not is_too_often(misses, 12, confidence)


@pytest.mark.long
@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("name", KINDS)
def test_intervals_of_many_seeds_cover_the_truth_after_every_round(name, confidence):
    """Over many seeds no more runs miss the truth after any round than the confidence allows."""
    misses = count_misses(Runs.of_kind(name), range(SEEDS), confidence, PASSES)
    assert not is_too_often(misses, SEEDS, confidence)


@pytest.mark.long
@pytest.mark.parametrize("name", ["reachability", "few"])
@pytest.mark.parametrize("variant", ["truncated", "listed", "short visits", "width", "clock"])
def test_intervals_cover_the_truth_for_every_model_and_stop(name, variant, monkeypatch):
    """Cut decoding, a server that lists three tokens, visits that leave a `rest`, a width, and a
    clock that reads the samples."""
    if variant == "short visits":
        monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT", SHORT_VISITS)
        monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT_AT_HORIZON", SHORT_VISITS)
    runs, misses = Runs.of_kind(name, variant == "truncated"), 0
    if variant == "listed":
        runs.model.listed_tokens = 3
    for seed in range(150):
        width = 0.3 if variant == "width" else 0.0
        check = runs.start(seed, 0.9, passes=PASSES, width=width)
        if variant == "clock":
            # the time is over as soon as the estimate is too large
            check._clock = lambda check=check: (
                0 if check.samples and check.estimate > runs.truth else PASSES - check.tree.passes
            )
        misses += not runs.covers_always(check)
    assert not is_too_often(misses, 150, 0.9)


def test_stakes_without_the_range_are_detected(monkeypatch):
    """If a gambler may lose more than all of its wealth, too many intervals miss."""
    monkeypatch.setattr(confidence_sequence._Gambler, "_log_wealths", compute_unlimited_wealths)
    assert is_too_often(count_misses(Runs.of_kind("few"), range(100), 0.9, 40), 100, 0.9)


def test_a_tree_that_changes_within_a_round_is_detected(monkeypatch):
    """If the decided mass depends on the samples of the round, too many intervals miss."""
    monkeypatch.setattr(anytime_check, "_MIN_ROUND", 24)
    assert not is_too_often(count_misses(skewed_runs(), range(20), 0.9, 40), 20, 0.9)
    monkeypatch.setattr(anytime_check, "SampleRound", ShiftingRound)
    assert is_too_often(count_misses(skewed_runs(), range(20), 0.9, 40), 20, 0.9)


@pytest.mark.long
def test_predictions_from_the_same_round_are_detected(monkeypatch):
    """If control variates have learned from the round's own values, too many intervals miss: the
    values then hardly vary about their mean."""
    monkeypatch.setattr(anytime_check, "_MIN_ROUND", 1000)
    limits = np.array([(1.0, 1.0)])
    monkeypatch.setattr(anytime_check, "CORRECTION_LIMITS", limits)
    monkeypatch.setattr(path_sampler, "CORRECTION_LIMITS", limits)
    # a prediction that nothing shrinks equals the only value that it has learned from
    monkeypatch.setattr(control_variates, "_PRIOR_COUNT", 1e-6)
    every_token = ((1.0, 2**31 - 1),)
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT", every_token)
    monkeypatch.setattr(partial_tree, "_TOKENS_PER_VISIT_AT_HORIZON", every_token)
    runs = lottery_runs()
    assert not is_too_often(count_misses(runs, range(8), 0.9, 2200), 8, 0.9)
    monkeypatch.setattr(anytime_check, "SampleRound", peek(runs))
    assert is_too_often(count_misses(runs, range(8), 0.9, 2200), 8, 0.9)
