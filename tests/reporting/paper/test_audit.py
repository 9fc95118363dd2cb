"""The audit: whether a tree with its parameters can have the size that is printed."""

from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import trees
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.paper.audit import (
    _find_contradictions,
    _format_uncut_trees,
    _is_possible,
    audit,
    build_audit_table,
)
from llmchecker.reporting.paper.published_table import PublishedRow, read_published_rows
from llmchecker.reporting.table_io import write_table
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation

TABLE2 = Path(__file__).parents[3] / "resources/published/table2.csv"
POSITIVE = parse("P=? [ F gender > 0 ]")
NEGATIVE = parse("P=? [ F gender < 0 ]")
Size = tuple[int, int]


def sizes(alpha: float, k: int, length: int) -> set[Size]:
    """Every size (N, I) of what can be explored of a tree, by building all such trees.

    A state at the horizon loops; any other loops or has its tokens below it, of which each is such
    a tree again, and a `rest`. Trees are built up to the order of siblings.
    """
    if length == 0:
        return {(1, 0)}
    below = sizes(alpha, k, length - 1)
    least = {0: 1, 1: k}.get(alpha, 1)
    most = 1 if alpha == 0 else k
    rests = (1,) if alpha == 1 else (0, 1)
    found = {(1, 0)}
    siblings: set[Size] = {(0, 0)}
    for tokens in range(1, most + 1):
        siblings = {(n + m, i + j) for (n, i), (m, j) in product(siblings, below)}
        if tokens >= least:
            found |= {(1 + n + rest, 1 + i) for n, i in siblings for rest in rests}
    return found


def row(states: int, internal: int, truncation: Truncation, **changed: object) -> PublishedRow:
    """A published row of a size."""
    made = PublishedRow(
        number=1,
        label="Player",
        interest="Gender",
        model="BERT",
        truncation=truncation,
        query=POSITIVE,
        states=states,
        transitions=2 * states - 1 - internal,
        encode_seconds=Decimal(1),
        check_seconds=Decimal("0.5"),
        value=Decimal("0.2500"),
    )
    return replace(made, **changed)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("k", "length"),
    [(1, 1), (1, 4), (2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3), (5, 2)],
)
def test_exactly_the_sizes_that_occur_are_allowed(alpha, k, length):
    """A size passes the limits if and only if some tree with the truncation has it."""
    occurring = sizes(alpha, k, length)
    beyond = max(n for n, _ in occurring) + 3
    box = {(n, i) for n in range(1, beyond) for i in range(-2, beyond + 2)}
    assert occurring < box
    truncation = Truncation(alpha, k, length)
    assert {size for size in box if _is_possible(truncation, *size)} == occurring


@given(st.data())
def test_what_is_explored_of_a_tree_is_consistent(data):
    """Whatever a query decides, the explored size of a tree is allowed by the tree's truncation."""
    tree = data.draw(trees.text_trees(max_length=4, max_children=4))
    stop = data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree)))
    states, transitions = ScoredTree(tree, {}).count_explored(np.array(stop))
    internal = 2 * states - 1 - transitions
    assert _is_possible(Truncation(0.5, 4, tree.truncation.length), states, internal)


@pytest.mark.parametrize(("k", "length"), [(1, 4), (2, 5), (3, 3), (9, 3)])
def test_an_uncut_tree_has_one_size(k, length):
    """A whole tree of k tokens and a rest is allowed with alpha 1, named, and no state larger."""
    tree = trees.full(k, length)
    states, internal = len(tree), int(tree.internal.sum())
    assert _is_possible(Truncation(1.0, k, length), states, internal)
    assert not _is_possible(Truncation(1.0, k, length), states + 1, internal)
    assert not _is_possible(Truncation(1.0, k, length), states - 1, internal)
    assert _format_uncut_trees(states, internal) == f"uncut tree: k={k}, L={length}"
    without_rest = states - internal
    if k > 1:
        named = f"uncut tree without rest: k={k}, L={length}"
        assert named in _format_uncut_trees(without_rest, internal).split("; ")


@pytest.mark.parametrize(
    ("size", "truncation", "sentence"),
    [
        ((11, 11), Truncation(0.5, 9, 2), "10 transitions would leave 11 internal states of 11; "),
        ((11, 0), Truncation(0.5, 9, 2), "11 states have 11 to 20 transitions"),
        ((2, 0), Truncation(0.5, 9, 2), "2 states have 2 to 2 transitions"),
        (
            (13, 11),
            Truncation(0.5, 9, 2),
            "11 internal states are more than the 10 that alpha=0.5, ",
        ),
        (
            (102, 10),
            Truncation(0.5, 9, 2),
            "102 states are more than the 101 that alpha=0.5, k=9, L=2",
        ),
        (
            (10, 2),
            Truncation(0.5, 3, 3),
            "at most k + 1 = 4 children each make at most 9 states, not 10",
        ),
        (
            (6, 5),
            Truncation(0.5, 3, 3),
            "5 internal states within 3 steps make at least 7 states, not 6",
        ),
        (
            (8, 2),
            Truncation(1.0, 3, 3),
            "with k + 1 = 4 children each make exactly 9 states, not 8",
        ),
    ],
)
def test_a_contradiction_is_told_with_its_numbers(size, truncation, sentence):
    """Each limit that is broken is told in a sentence that has both numbers."""
    assert sentence in "; ".join(_find_contradictions(truncation, *size))


def test_the_audit_names_the_three_rows():
    """Of the published rows those with 3906, 911 and 499 states contradict themselves, no other."""
    found = [finding for finding in audit(read_published_rows(TABLE2)) if finding.contradictions]
    assert [(f.row.states, f.row.internal_states) for f in found] == [
        (3906, 781),
        (911, 91),
        (499, 71),
    ]
    assert [(f.min_length, f.min_k) for f in found] == [(None, 4), (3, None), (3, 70)]


@pytest.mark.parametrize("states", [3906, 911, 499])
def test_what_would_fit_fits_and_nothing_smaller(states):
    """Every pair that is offered allows the size, and with a smaller k or L none does."""
    (finding,) = (f for f in audit(read_published_rows(TABLE2)) if f.row.states == states)
    asked = finding.row
    assert finding.min_pairs

    def fits(k: int, length: int) -> bool:
        return _is_possible(
            Truncation(asked.truncation.alpha, k, length), asked.states, asked.internal_states
        )

    for k, length in finding.min_pairs:
        assert fits(k, length)
        assert not any(fits(less, length) for less in range(1, k))
        assert not any(fits(k, less) for less in range(1, length))


def test_a_part_is_no_larger_than_the_whole():
    """A row is contradicted by a smaller row with a wider truncation, and by an unequal twin."""
    narrow, wide = Truncation(0.5, 3, 3), Truncation(0.5, 4, 3)
    part, whole = row(12, 4, narrow), row(10, 3, wide, number=2)
    told, silent = audit([part, whole])
    assert told.contradictions == (
        "12 states and 4 internal do not fit into row 2, whose tree contains this one and has 10 "
        "and 3",
    )
    assert silent.contradictions == ()
    for unlike in ({"query": NEGATIVE}, {"model": "Gemma-2B"}, {"label": "Exam"}):
        assert not any(f.contradictions for f in audit([part, replace(whole, **unlike)]))
    twins = audit([part, row(10, 3, narrow, number=2)])
    assert [bool(f.contradictions) for f in twins] == [True, False]
    assert not any(f.contradictions for f in audit([part, replace(part, number=2)]))


def explored(tree: TextTree, stop: np.ndarray, k: int, length: int, uid: int = 0) -> Size:
    """The size of what is explored of a tree that is cut to k tokens a text and `length` steps."""
    children = np.flatnonzero(tree.parent == uid)
    if stop[uid] or tree.step[uid] == length or len(children) == 0:
        return 1, 0
    tokens = [child for child in children if tree.kind[child] != StateKind.REST]
    rests = int(len(children) > len(tokens[:k]))
    below = [explored(tree, stop, k, length, child) for child in tokens[:k]]
    return 1 + rests + sum(n for n, _ in below), 1 + sum(i for _, i in below)


@given(st.data())
def test_a_tree_within_a_tree_is_in_order(data):
    """What is explored of a tree that is cut to fewer tokens or steps fits into the whole's."""
    tree = data.draw(trees.text_trees(max_length=3, max_children=4))
    stop = data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree)))
    steps = tree.truncation.length
    k, length = data.draw(st.integers(1, 4)), data.draw(st.integers(1, steps))
    part = row(*explored(tree, stop, k, length), Truncation(0.5, k, length))
    whole = row(*explored(tree, stop, 4, steps), Truncation(0.5, 4, steps), number=2)
    assert not any(finding.contradictions for finding in audit([part, whole]))


def test_the_audit_is_a_table(tmp_path):
    """The audit has a row for every published one, and Markdown shows its sentences as prose."""
    table = build_audit_table(audit(read_published_rows(TABLE2)))
    assert len(table) == 23
    first, contradictory = table.iloc[0], table.iloc[21]
    assert first["finding"] == "consistent"
    assert pd.isna(first["would_fit"])
    assert (contradictory["most_internal"], contradictory["most_states"]) == (10, 101)
    assert contradictory["children"] == 10.0
    assert contradictory["same_size_as"] == "uncut tree: k=9, L=3"
    write_table(table, [tmp_path / "audit.md"])
    line = (tmp_path / "audit.md").read_text(encoding="utf-8").splitlines()[23]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[8] == "911"
    assert cells[14].startswith("91 internal states are more than the 10 that")
    assert cells[15] == (
        "with k=9 the smallest L is 3; with L=2 no k fits; smallest (k, L) with alpha=1.0: (9, 3)"
    )
