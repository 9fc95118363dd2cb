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


@pytest.mark.parametrize("lists_vocabulary", [True, False])
def test_batches_are_measured_where_each_token_has_one(lists_vocabulary):
    """Where time allows few rounds, texts in process are visited first; a server, which continues
    whole texts and may have nothing left to visit, is asked for samples at once."""
    tree = plant_visited()
    tree.lists_vocabulary = lists_vocabulary
    plan = RoundPlan(tree, Budget(seconds=30), lambda batches: 20.0, refines=True)
    assert (plan.plan_samples(0) == 0) == lists_vocabulary
