"""A verdict is compared with what Storm's own front end says about the PRISM file."""

from dataclasses import replace

import numpy as np
import pytest
import trees

from llmchecker import markov_chain, prism, storm
from llmchecker.crosscheck import crosscheck
from llmchecker.errors import CheckFailed
from llmchecker.properties import parse
from llmchecker.text_tree import Kind

TEXT, REST, END = Kind.TEXT, Kind.REST, Kind.END
# 0 ─ 1/2 → 1 ─ 3/4 → 4, 1 ─ 1/4 → rest; 0 ─ 1/4 → end 2; 0 ─ 1/4 → rest 3
TREE = trees.by_hand(
    [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]
)
SCORES = {"gender": np.array([0, 1, 2, 99, -1, 99])}


def verdict(query: str) -> storm.Verdict:
    return storm.check(markov_chain.build(TREE, SCORES), parse(query))


@pytest.fixture
def program(tmp_path):
    """The PRISM file of the tree."""
    prism.write(TREE, SCORES, tmp_path / "w.prism")
    return tmp_path / "w.prism"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("P=? [ F gender > 0 ]", 0.75),
        ("P=? [ F gender < 0 ]", 0.375),
        ("P=? [ G gender >= 0 ]", 0.25),
        ("P>=0.75 [ F gender > 0 ]", True),
        ("P>0.75 [ F gender > 0 ]", False),
        ("E [ F gender < 0 ]", True),
        ("A [ F gender < 0 ]", False),
        ("gender = 0 & !A [ X gender > 0 ]", True),
        ("P=? [ F gender > 0 || X gender <= 1 ]", 1.0),
        ('R{"gender"}=? [ I=1 ]', 1.0),
        ('R{"gender"}=? [ I=2 ]', 0.125),
    ],
)
def test_agreement(query, value, program):
    """Where both routes agree, the outcome says so and has both values."""
    assert crosscheck(verdict(query), program, 6) == {
        "query": query,
        "value": value,
        "states": 6,
        "compared": True,
        "value_of_prism_file": value,
    }


@pytest.mark.parametrize(
    ("query", "change"),
    [
        ("P=? [ F gender > 0 ]", {"value": 0.75 + 1e-11}),
        ("P=? [ F gender > 0 ]", {"value": 0.75 - 1e-11}),
        ("P>=0.75 [ F gender > 0 ]", {"value": False}),
        ("P>0.75 [ F gender > 0 ]", {"value": True}),
        ("E [ F gender < 0 ]", {"value": False}),
        ("P>=0.5 [ F gender > 0 ] & E [ F gender < 0 ]", {"value": False}),
        ("P=? [ F gender > 0 || F gender < 0 ]", {"value": 0.99}),
        ('R{"gender"}=? [ I=1 ]', {"value": 1 + 1e-11}),
        ("P=? [ F gender > 0 ]", {"states_explored": 5}),
        ("P=? [ F gender > 0 ]", {"transitions_explored": 7}),
    ],
)
def test_disagreement(query, change, program):
    """A verdict with another value or size than the PRISM file's fails, and both are named."""
    true = verdict(query)
    tampered = replace(true, **change)
    ((key, wrong),) = change.items()
    with pytest.raises(CheckFailed) as caught:
        crosscheck(tampered, program, 5000)
    message = str(caught.value)
    assert query in message
    assert program.name in message
    assert repr(wrong) in message
    assert repr(getattr(true, key)) in message


def test_a_difference_within_rounding_agrees(program):
    """Values that differ by less than 1e-12 agree."""
    rounded = replace(verdict("P=? [ F gender > 0 ]"), value=0.75 + 9e-13)
    assert crosscheck(rounded, program, 5000)["compared"] is True


def test_a_large_tree_is_not_compared(tmp_path):
    """A tree of more states than the maximum is not compared, and the outcome says so."""
    outcome = crosscheck(verdict("P=? [ F gender > 0 ]"), tmp_path / "not-read.prism", 5)
    assert outcome == {
        "query": "P=? [ F gender > 0 ]",
        "value": 0.75,
        "states": 6,
        "compared": False,
        "reason": "more than 5 states",
    }
