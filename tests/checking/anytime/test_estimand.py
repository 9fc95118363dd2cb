"""The quantity that samples estimate is the answer of the query."""

import pytest
from helpers.anytime_checks import Kind, expected_score, plant, refine, spread_model

from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.path_sampler import split_tree

MANY_A = ("F", None, ("atom", "gender", ">", 1))
NO_D = ("G", None, ("atom", "polarity", ">=", 0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind", [Kind(MANY_A), Kind(NO_D), Kind(MANY_A, NO_D), expected_score(2)], ids=lambda k: k.query
)
def test_the_quotient_of_decided_texts_is_the_enumerated_answer(kind, seed):
    """The means over all texts of a decided tree give the answer that enumeration gives."""
    asked, model = kind.ask(), spread_model(seed)
    tree, server = plant(asked, model)
    while refine(tree, server):
        pass
    estimand = Estimand.from_query(asked)
    part = split_tree(tree)
    assert part.total == pytest.approx(0, abs=1e-12)
    quotient = part.numerator / (part.denominator if estimand.is_ratio else 1)
    assert estimand.to_answer(quotient) == pytest.approx(float(kind.find_truth(model)), abs=1e-12)
