"""A tree grown in parts is the tree grown in one piece, uid for uid."""

from dataclasses import fields

import numpy as np
import pytest
from helpers.random_models import CAUSAL
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import InvalidBound, InvalidTree
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation

START = "The player won because"


def in_parts(model, start, truncation, count) -> list[TextTree]:
    return [
        build_tree(model, start, truncation, shard=Shard(number, count)) for number in range(count)
    ]


def assert_same(one: TextTree, other: TextTree) -> None:
    for field in fields(TextTree):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name


@pytest.mark.few(3)
@pytest.mark.parametrize("architecture", CAUSAL)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "truncation", [Truncation(0.3, 9, 4), Truncation(1.0, 4, 3), Truncation(0.9, 500, 1)]
)
def test_same_tree_on_random_models(architecture, count, truncation, random_model):
    """However many parts, with few texts for each or many, the tree has the same bits."""
    model = load_model(random_model(architecture))
    assert_same(
        merge_shards(in_parts(model, START, truncation, count)),
        build_tree(model, START, truncation),
    )


@pytest.mark.long
def test_same_tree_on_smollm2(smollm2):
    """On the real SmolLM2 two parts make the tree, and neither computes all of it."""
    model, truncation = load_model(smollm2, threads=2), Truncation(0.8, 5, 4)
    parts, whole = in_parts(model, START, truncation, 2), build_tree(model, START, truncation)
    assert_same(merge_shards(parts), whole)
    assert all(part.internal.sum() < whole.internal.sum() for part in parts)


def weighted(weights):
    """A model whose tokens always have the same weights; the last ends a text."""
    total = sum(weights)
    vocabulary = [chr(ord("a") + token) for token in range(len(weights))]
    distribution = [weight / total for weight in weights]
    return TableModel(vocabulary, lambda _: distribution, frozenset({len(weights) - 1}))


@given(
    weights=st.lists(st.integers(1, 50), min_size=2, max_size=5),
    alpha=st.sampled_from([0.0, 0.6, 0.9, 1.0]),
    k=st.integers(1, 4),
    length=st.integers(1, 6),
    count=st.integers(1, 7),
)
def test_same_tree_on_generated_models(weights, alpha, k, length, count):
    """Trees that end early, have one text a level, or fewer texts than parts are the same too."""
    model, truncation = weighted(weights), Truncation(alpha, k, length)
    assert_same(
        merge_shards(in_parts(model, "a", truncation, count)), build_tree(model, "a", truncation)
    )


@given(masses=st.lists(st.floats(1e-6, 1), min_size=1, max_size=60), count=st.integers(1, 9))
def test_parts_hold_every_text_once(masses, count):
    """The parts follow one another, and none holds more than its share and one text."""
    masses = np.array(masses)
    parts = [Shard(number, count).select_texts(masses) for number in range(count)]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == len(masses)
    for part in parts:
        assert masses[part].sum() <= masses.sum() / count + masses.max() + 1e-9


def test_parts_of_different_trees_are_refused():
    """Parts that do not agree above the split are named."""
    one = in_parts(weighted([5, 3, 1]), "a", Truncation(1.0, 3, 3), 2)
    other = in_parts(weighted([3, 5, 1]), "a", Truncation(1.0, 3, 3), 2)
    with pytest.raises(InvalidTree, match="shard 2 of 2: of another tree than shard 1"):
        merge_shards([one[0], other[1]])


def test_a_part_is_a_tree():
    """A part has the states of the tree that it does not expand, as texts that go no further."""
    part = in_parts(weighted([5, 3, 1]), "a", Truncation(1.0, 2, 5), 2)[1]
    assert part.parent[0] == -1
    assert np.any((part.kind == StateKind.TEXT) & ~part.internal & (part.step < 5))


@pytest.mark.parametrize(("number", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_impossible_parts_are_refused(number, count):
    """The number of a part lies between 0 and their count."""
    with pytest.raises(InvalidBound):
        Shard(number, count)
