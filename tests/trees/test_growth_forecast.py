"""What a tree comes to is told from its first levels, and one that is too large is not grown."""

import logging

import pytest
from helpers.random_tables import table_model

import llmchecker
from llmchecker.errors import ConfigError
from llmchecker.models.table_model import TableModel
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.growth_forecast import GrowthLimits, GrowthMonitor
from llmchecker.trees.text_tree import Truncation

LETTERS = "abcdefgh"
UNIFORM = TableModel(list(LETTERS), lambda tokens: [1 / 8] * 8, frozenset())


def watch(truncation: Truncation, **limits) -> GrowthMonitor:
    seconds = iter(range(1000))
    return GrowthMonitor(
        "one", truncation, GrowthLimits(**limits), clock=lambda: float(next(seconds))
    )


def test_a_full_tree_is_foretold_exactly(caplog):
    """Where every text has as many children, the states and passes expected are those that come."""
    truncation = Truncation(1.0, 8, 5)
    with caplog.at_level(logging.INFO):
        tree = build_tree(UNIFORM, "a", truncation, monitor=watch(truncation))
    # 1 + 8 + … + 8^5 states, 1 + … + 8^4 passes
    assert len(tree) == 37449
    assert "about 37,000 states, 4,700 passes" in caplog.text


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({"max_states": 10**6}, "expansion.most_states allows 1,000,000 states"),
        ({"max_states": 10**30, "max_seconds": 600.0}, "expansion.most_hours allows 600 s"),
        (
            {"max_states": 10**30, "max_seconds": 10**30, "max_memory_bytes": 10**9},
            "the model's mem_mb allows 1,000,000,000 bytes",
        ),
    ],
)
def test_a_tree_that_would_be_too_large_is_refused_while_it_is_small(limits, key):
    """The message names the tree, what is expected of it, the key that forbids it and its value."""
    truncation = Truncation(1.0, 8, 12)
    asked = []
    model = TableModel(
        list(LETTERS), lambda tokens: asked.append(tokens) or [1 / 8] * 8, frozenset()
    )
    with pytest.raises(ConfigError) as caught:
        build_tree(model, "a", truncation, monitor=watch(truncation, **limits))
    assert key in str(caught.value)
    assert "tree of one, alpha=1.0, k=8, L=12: expected" in str(caught.value)
    assert "about 79,000,000,000 states, 9,800,000,000 passes" in str(caught.value)
    assert len(asked) <= 1 + 8 + 64 + 512


def test_a_tree_within_its_limits_is_the_same():
    """Watching a tree grow changes nothing of it."""
    for seed in range(20):
        model, truncation = table_model(seed), Truncation(0.9, 3, 4)
        watched = build_tree(model, "a", truncation, monitor=watch(truncation))
        plain = build_tree(model, "a", truncation)
        assert watched.digest == plain.digest


def test_the_library_grows_no_tree_beyond_its_limit():
    """A caller of the library meets the same limit, and may name another."""
    with pytest.raises(ConfigError, match="most_states"):
        llmchecker.grow(UNIFORM, "a", alpha=1.0, k=8, length=30)
    assert len(llmchecker.grow(UNIFORM, "a", alpha=1.0, k=8, length=2, most_states=73)) == 73
    with pytest.raises(ConfigError, match="most_states"):
        llmchecker.grow(UNIFORM, "a", alpha=1.0, k=8, length=2, most_states=72)
