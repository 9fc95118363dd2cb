"""A tree becomes the chain that the bounded text generation process is."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import trees
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import InvalidTree, UnknownName
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
DRAWN = [
    (0, 0.5, TEXT),
    (0, 0.25, END),
    (0, 0.25, REST),
    (1, 0.75, TEXT),
    (1, 0.25, REST),
]
GENDER = np.array([0, 1, 2, 99, -1, 99])


def drawn() -> ScoredTree:
    return ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER})


def satisfying(formula: str) -> list[int]:
    return np.flatnonzero(drawn().evaluate(parse(f"P=? [ {formula} ]").root.path)).tolist()


def nowhere(chain: ScoredTree) -> np.ndarray:
    return np.zeros(len(chain), dtype=bool)


def test_a_drawn_tree_becomes_its_chain():
    """Children are successors with the tree's probabilities, and each terminal loops with 1."""
    chain = drawn()
    assert chain.transitions.entry_offsets.tolist() == [0, 3, 5, 6, 7, 8, 9]
    assert chain.transitions.columns.tolist() == [1, 2, 3, 4, 5, 2, 3, 4, 5]
    assert chain.transitions.values.tolist() == [0.5, 0.25, 0.25, 0.75, 0.25, 1, 1, 1, 1]
    assert np.flatnonzero(chain.is_rest).tolist() == [3, 5]
    assert np.flatnonzero(chain.is_end).tolist() == [2]
    assert chain.variables["step"].tolist() == [0, 1, 1, 1, 2, 2]


def test_the_full_shape_of_the_published_table():
    """Nine of nine tokens and a rest over three steps are 911 states and 1730 transitions."""
    tree = trees.full(9, 3)
    chain = ScoredTree(tree, {})
    assert (len(tree), tree.transitions) == (911, 1730)
    assert chain.count_explored(nowhere(chain)) == (911, 1730)


@given(trees.text_trees())
def test_rows_are_distributions_and_transitions_are_counted(tree):
    """Every row sums to 1, and there are 2N - 1 - I transitions."""
    chain = ScoredTree(tree, {})
    sums = np.add.reduceat(chain.transitions.values, chain.transitions.entry_offsets[:-1])
    assert np.all(sums == 1)
    assert (
        len(chain.transitions.columns)
        == 2 * len(tree) - 1 - tree.internal.sum()
        == tree.transitions
    )
    assert chain.count_explored(nowhere(chain)) == (len(tree), tree.transitions)


@given(trees.text_trees(), st.data())
def test_exploration_is_a_walk_that_does_not_leave_stop_states(tree, data):
    """What is explored is what a depth-first walk from the start string visits."""
    stop = np.array(data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree))))
    states = transitions = 0
    pending = [0]
    while pending:
        state = pending.pop()
        children = [] if stop[state] else np.flatnonzero(tree.parent == state).tolist()
        states, transitions = states + 1, transitions + max(1, len(children))
        pending += children
    assert ScoredTree(tree, {}).count_explored(stop) == (states, transitions)


@pytest.mark.parametrize(
    ("formula", "states"),
    [
        ("gender > 0", [1, 2]),
        ("gender <= 0", [0, 4]),
        ("!(gender > 0)", [0, 3, 4, 5]),
        ("gender > 0 => step = 1", [0, 1, 2, 3, 4, 5]),
        ("step = 1", [1, 2, 3]),
        ("gender < step", [4]),
        ("gender > 0 & step = 1 | gender < 0", [1, 2, 4]),
        ('"rest" | "end"', [2, 3, 5]),
        ("true", [0, 1, 2, 3, 4, 5]),
        ("false", []),
    ],
)
def test_quantifier_atoms_are_false_in_rest(formula, states):
    """An atom over a quantifier never holds in rest, whatever its column holds there."""
    assert satisfying(formula) == states


def test_the_score_of_rest_is_nothing():
    """What the column of a quantifier holds in rest is not read as a score."""
    assert drawn().find_scores("gender").tolist() == [0, 1, 2, 0, -1, 0]
    with pytest.raises(UnknownName, match=r"variable polarity: .* its variables are step, gender"):
        drawn().find_scores("polarity")


def test_an_unknown_variable_is_named():
    """An atom over a variable that was not scored names it and what there is."""
    with pytest.raises(UnknownName, match=r"variable polarity: .* its variables are step, gender"):
        satisfying("polarity > 0")


@pytest.mark.parametrize(
    "scores",
    [{"gender": GENDER[1:]}, {"gender": GENDER * 0.5}, {"step": GENDER}],
    ids=["too few", "not whole", "named step"],
)
def test_bad_scores_are_refused(scores):
    """Scores that are not one integer a state, or that hide the step, make no chain."""
    with pytest.raises(InvalidTree):
        ScoredTree(trees.by_hand(DRAWN), scores)


def test_a_text_that_just_stops_is_refused():
    """A shard, some texts of which go on in other shards, makes no chain."""
    tree = trees.by_hand([(0, 0.5, TEXT), (0, 0.5, REST)])
    shard = replace(tree, truncation=replace(tree.truncation, length=2), is_shard=True)
    with pytest.raises(InvalidTree, match="state 1: a text of 1 token"):
        ScoredTree(shard, {})


def test_an_impossible_child_is_not_reachable():
    """A child of probability 0 has no transition, and neither it nor its children count."""
    tree = trees.by_hand([(0, 1.0, END), (0, 0.0, TEXT), (2, 1.0, TEXT)])
    chain = ScoredTree(tree, {})
    assert np.all(chain.transitions.values > 0)
    assert chain.count_explored(nowhere(chain)) == (2, 2)


def test_probabilities_are_never_renormalised():
    """A row that sums to 1 within rounding only keeps the very numbers of the tree."""
    short = 0.5 - 2**-40
    chain = ScoredTree(trees.by_hand([(0, 0.5, TEXT), (0, short, REST)]), {})
    assert chain.transitions.values.tolist() == [0.5, short, 1, 1]
