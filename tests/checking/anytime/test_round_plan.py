"""The rounds of a check have the sizes that its limits allow."""

from types import SimpleNamespace

import pytest
from helpers.anytime_checks import FakeClock, Kind, plant, spread_model

from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.round_plan import RoundPlan
from llmchecker.checking.budget import Budget
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

KIND = Kind(("F", None, ("atom", "gender", ">", 1)), length=5)


def plant_visited() -> ExploredTree:
    """Return a tree with one pass, whose model evaluates 64 texts as fast as one."""
    asked = Property(parse(KIND.query), KIND.quantifiers, KIND.length)
    tree, _ = plant(asked, spread_model(0))
    tree.batch_texts, tree.passes = 64, 1
    return tree


@pytest.mark.parametrize(
    ("affordable", "planned"), [(400, 64), (250, 250), (100, 100), (40, 40), (7, 0)]
)
def test_the_last_round_has_all_samples_that_time_allows(affordable, planned):
    """Where time ends the work, the last round is up to four times as large as others; of a few
    samples there is none."""
    tree = plant_visited()
    passes = (affordable + 0.5) * tree.length / 0.95
    plan = RoundPlan(tree, Budget(seconds=30), lambda batches: passes, refines=True)
    plan.drawn_samples = 64
    # nothing is left to refine, so that samples get all passes
    plan.add_refinement(0)
    assert plan.plan_samples(0) == planned


@pytest.mark.parametrize(
    ("affordable", "lists_vocabulary", "planned"),
    [(0.5, True, 0), (1, True, 16), (2, True, 32), (20, True, 64), (40, True, 32), (1, False, 32)],
)
def test_the_first_round_has_as_many_samples_as_its_batches_may_allow(
    affordable, lists_vocabulary, planned
):
    """Where time allows few rounds, the first has more samples than single texts would allow; a
    server, which continues whole texts, gets half a batch."""
    tree = plant_visited()
    tree.lists_vocabulary = lists_vocabulary
    # until the first 256 samples there is no refinement
    passes = (affordable + 0.01) * tree.length / 0.95
    plan = RoundPlan(tree, Budget(seconds=30), lambda batches: passes, refines=True)
    assert plan.plan_samples(0) == planned


def test_texts_are_visited_one_by_one_where_passes_are_few_and_not_where_time_is_short():
    """Of 60 passes a first batch has at most two, and of a limited time a whole batch."""
    tree = plant_visited()
    few = RoundPlan(tree, Budget(passes=64), lambda batches: None, refines=True)
    assert few.first_batch_texts == 2
    short = RoundPlan(tree, Budget(seconds=30), lambda batches: 63.0, refines=True)
    assert short.first_batch_texts == 64


@pytest.mark.parametrize(
    ("now", "seconds", "shares"),
    [
        # five tokens of 2 seconds need the whole time that is left
        (20, 2.0, []),
        # half of the time is left, of which a batch has a third for itself
        (25, 2.0, [0.4]),
        (22, 2.0, [pytest.approx(0.7)]),
        # the first token of a round may take no time, also after the end of all
        (31, 0.0, []),
        (31, 2.0, [0.4]),
    ],
)
def test_samples_are_dropped_if_time_is_too_short_for_their_tokens(
    monkeypatch, now, seconds, shares
):
    """The last samples go if the time of a token leaves too little time for the others."""
    clock = FakeClock(monkeypatch)
    plan = RoundPlan(plant_visited(), Budget(seconds=30), lambda batches: None, refines=True)
    clock.now, found = now, []
    plan.drop_late_samples(SimpleNamespace(steps_left=5, drop_last=found.append), seconds)
    assert found == shares
