"""The rounds of a check have the sizes that its limits allow."""

import pytest
from helpers.anytime_checks import Kind, plant, spread_model

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
