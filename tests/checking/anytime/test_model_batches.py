"""Batches of requests: the same bits for any size, a kept deadline, any interruption."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.anytime_checks import FakeClock, Kind, copied, plant, spread_model
from helpers.questions import check_anytime
from helpers.random_tables import START

from llmchecker.checking.anytime import model_batches
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.model_batches import BatchSize, BatchTimes
from llmchecker.checking.anytime.path_sampler import SampleRound
from llmchecker.checking.budget import Budget
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

KIND = Kind(("F", None, ("atom", "gender", ">", 1)))
TABLE = spread_model(4)
MODEL = copied(TABLE, 4)
TRUTH = KIND.find_truth(TABLE)


def check(model=MODEL, **limits):
    """The result of a check with a fixed seed."""
    budget = Budget(seed=3, **limits)
    return check_anytime(model, START, KIND.ask(), budget)


def read_bits(result) -> tuple:
    """All of a result that must not depend on batches."""
    verdict, tree = result, result.evidence.scored.tree
    ends = (verdict.lower, verdict.upper, verdict.low, verdict.high, verdict.estimate)
    return *ends, result.passes, verdict.samples, tree.digest


@pytest.mark.parametrize("size", [1, 3, 17])
def test_the_size_of_batches_changes_no_bit(size, monkeypatch):
    """Batches of any size give the same interval, tree and passes."""
    expected = read_bits(check(passes=60))
    monkeypatch.setattr(model_batches, "_UNTIMED_TEXTS", size)
    assert read_bits(check(passes=60)) == expected


def test_a_slow_model_gets_whole_batches():
    """A batch never has fewer texts than the model evaluates in the time of one."""
    size = BatchSize(1, least=16)
    size.update(1, seconds=20.0)
    assert size.texts == 16
    size.update(16, seconds=20.0)
    assert size.texts == 16


def test_the_last_batch_ends_in_time():
    """A batch has no more texts than the last one's speed allows in the remaining time."""
    size = BatchSize(1, least=64)
    size.update(1, seconds=0.5, remaining_seconds=10)
    assert size.texts == 20


@pytest.mark.parametrize("seconds", [1.5, 7, 40])
def test_a_deadline_is_kept(seconds, monkeypatch):
    """On a model of one second a text the work ends at most one text after the deadline."""
    clock = FakeClock(monkeypatch)
    result = check(clock.slow(MODEL), seconds=seconds)
    assert result.passes >= 1
    assert clock.now <= seconds + 1
    assert result.lower <= TRUTH <= result.upper


def test_the_texts_of_a_time_follow_from_the_costs_of_batches():
    """Batches of 2 s and 0.1 s a text: 40 of them in 100 s have 200 texts, one has 980."""
    times = BatchTimes()
    assert times.expect_texts(100, 1) is None
    times.add(10, 3.0)
    # batches of one size do not show what a batch costs itself
    assert times.expect_texts(30, 1) == pytest.approx(100)
    times.add(30, 5.0)
    # scores of texts took half of this time
    times.add_work(3.5)
    times.add(50, 3.5)
    assert times.expect_texts(100, 40) == pytest.approx(200)
    assert times.expect_texts(100, 1) == pytest.approx(980)
    assert times.expect_texts(70, 40) == 0


@pytest.mark.parametrize("moment", [600, pytest.param(900, marks=pytest.mark.long)])
def test_a_machine_that_gets_slow_costs_no_whole_round(moment, monkeypatch):
    """Where no time is left for all samples of a round, its first samples still count."""
    asked = Property(parse("P=? [ F gender > 3 ]"), KIND.quantifiers, 12)

    def count_samples() -> int:
        clock = FakeClock(monkeypatch)
        model = clock.slow(MODEL, lambda now: 1.0 if now < moment else 3.0)
        result = check_anytime(model, START, asked, Budget(seed=3, seconds=1500))
        assert clock.now <= 1503
        return result.samples

    kept = count_samples()
    monkeypatch.setattr(SampleRound, "drop_last", lambda self, share: None)
    assert count_samples() < kept


def test_an_interruption_after_any_batch_gives_a_right_answer():
    """Cancelled at any time, the bounds contain the truth, and so does the interval."""
    for most in range(12):
        asked = iter(range(most))
        result = check_anytime(
            MODEL,
            START,
            KIND.ask(),
            Budget(passes=80, confidence=0.9999),
            is_cancelled=lambda asked=asked: next(asked, None) is None,
        )
        verdict = result
        assert Fraction(verdict.lower) <= TRUTH <= Fraction(verdict.upper)
        if verdict.low is not None:
            assert verdict.lower <= verdict.low <= TRUTH <= verdict.high <= verdict.upper


def test_a_bet_does_not_depend_on_the_time_that_its_round_takes():
    """The expected number of samples is asked before a round, so a slow round bets as a quick
    one does."""
    intervals = []
    for seconds_left in (10.0, 0.0):
        asked = KIND.ask()
        tree, server = plant(asked, MODEL)
        left = [1e3]
        found = AnytimeCheck(
            tree, asked, Budget(seconds=1e9), clock=lambda batches, left=left: left[0]
        )
        while found.samples == 0:
            requests, result = found.advance(), None
            while True:
                try:
                    request = requests.send(result)
                except StopIteration:
                    break
                if tree.passes:
                    left[0] = seconds_left
                result = server.answer(request)
        intervals.append(found.samples.ends)
    assert intervals[0] == intervals[1] != (0.0, 1.0)


def test_a_check_counts_the_texts_that_the_model_evaluates():
    """The passes of a result are the distributions that were computed."""
    evaluated = []

    def distribution(tokens):
        evaluated.append(tokens)
        return MODEL.distribution(tokens)

    model = TableModel(MODEL.vocabulary, distribution, MODEL.end_tokens)
    result = check(model, passes=50)
    assert result.passes == len(evaluated) <= 50
    assert result.history[-1].passes == result.passes
    widths = np.array([progress.width for progress in result.history])
    assert (np.diff(widths) <= 1e-12).all()


def test_an_answer_in_reduced_precision_names_its_spread():
    """The spread that loading measured is a note of the answer, and float32 has none."""
    model = copied(TABLE, 4)
    assert check(model, passes=5).notes == ()
    model.probability_spread = 0.0123
    (note,) = check(model, passes=5).notes
    assert "differs by up to 0.012" in note
