"""Plain samples are judged, counted and bounded as by hand."""

import numpy as np
import plain_sampling
import pytest
from plain_sampling import FORMULAS, Drawn, PlainPool, Proportion

import llmchecker as lc

HE, SHE, IT, END = 1, 2, 3, 4
SCRIPT = [[IT, HE], [SHE, HE], [HE, HE], [IT, IT], [END, END], [SHE, IT]]
"""Two tokens of each sample; the fifth ends at once."""


@pytest.fixture
def pool(monkeypatch):
    """A pool whose batches are the script."""
    model = lc.TableModel(
        ["once", " he", " she", " it", "<end>"], lambda tokens: [0, 0.25, 0.25, 0.25, 0.25], {END}
    )
    drawn = Drawn(np.array(SCRIPT), seconds=2.0)
    monkeypatch.setattr(plain_sampling, "draw", lambda *_, **__: drawn)
    monkeypatch.setattr(plain_sampling, "MAX_SAMPLES", 1)
    return PlainPool(None, model, "once", length=2)


@pytest.mark.parametrize(
    ("scores", "true"),
    [
        ([0, 0, 0], {"prefix"}),
        ([0, 1, 0], {"player"}),
        ([0, 1, 1], {"player", "ltl"}),
        ([0, 1, 2], {"player", "rare", "ltl"}),
        ([0, -1, 0], set()),
    ],
)
def test_formulas_are_true_of_the_texts_that_their_queries_name(scores, true):
    """The scores of a text's beginnings make the formulas true that a reader of the query expects.

    A text stays at its last score, so that `F G` asks for the last score alone.
    """
    assert {name for name, formula in FORMULAS.items() if formula.holds(scores)} == true


@pytest.mark.parametrize(
    ("name", "satisfying"), [("player", 2), ("prefix", 2), ("rare", 1), ("ltl", 2)]
)
def test_samples_that_satisfy_a_formula_are_counted(pool, name, satisfying):
    """Of six samples, as many satisfy each formula as by hand."""
    pool.draw_batch()
    assert pool.count_share(FORMULAS[name], seconds=2) == Proportion(satisfying, 6)


@pytest.mark.parametrize(
    ("name", "passes", "expected"),
    [
        # `it he` needs the start and `it`, `she he` also `she`; `he` decides the third at once
        ("player", 2, Proportion(1, 1, 2)),
        ("player", 3, Proportion(2, 6, 3)),
        # `she` and `he` decide it, and the end does
        ("prefix", 2, Proportion(2, 6, 2)),
        ("ltl", 3, Proportion(1, 2, 3)),
    ],
)
def test_passes_are_distinct_texts_before_a_decision(pool, name, passes, expected):
    """Samples within a number of passes are those whose undecided beginnings are as many."""
    pool.draw_batch()
    found = pool.count_within(FORMULAS[name], passes)
    assert found == expected


@pytest.mark.parametrize(("seconds", "samples"), [(0.1, 1), (1, 3), (1.4, 4), (3, 6)])
def test_samples_are_those_that_fit_into_a_time(pool, seconds, samples):
    """Of six samples of two seconds, the share of the time counts, at least one and at most all."""
    pool.draw_batch()
    assert pool.count_share(FORMULAS["player"], seconds).samples == samples


def test_the_seconds_are_those_of_all_batches(pool):
    """Two batches of two seconds took four."""
    pool.draw_batch()
    pool.draw_batch()
    assert pool.seconds == 4


def test_the_interval_is_that_of_clopper_and_pearson():
    """Without a success the upper end is 1 - (error/2)^(1/n), and the lower end is 0."""
    low, high = Proportion(0, 10).interval(0.99)
    assert low == 0
    assert high == pytest.approx(1 - 0.005 ** (1 / 10))
