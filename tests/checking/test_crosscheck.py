"""A verdict is compared with what Storm's own front end says about a file of the chain."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import trees

from llmchecker.checking.answer import Answer
from llmchecker.checking.bounded_value import check_chain
from llmchecker.checking.crosscheck import crosscheck
from llmchecker.checking.markov.jani import write_jani
from llmchecker.checking.markov.prism import write_prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import CheckFailed, DamagedFile
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
# 0 ─ 1/2 → 1 ─ 3/4 → 4, 1 ─ 1/4 → rest; 0 ─ 1/4 → end 2; 0 ─ 1/4 → rest 3
TREE = trees.by_hand(
    [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]
)
SCORES = {"gender": np.array([0, 1, 2, 99, -1, 99])}


def verdict(query: str) -> Answer:
    return check_chain(ScoredTree(TREE, SCORES), parse(query))


@pytest.fixture(params=["prism", "jani"])
def language(request):
    """The language that Storm reads."""
    return request.param


@pytest.fixture
def compare(language, tmp_path):
    """Compare a verdict with the file of one language; that of the other cannot be read."""
    files = {"prism": tmp_path / "none", "jani": tmp_path / "none"}
    files[language] = tmp_path / f"w.{language}"
    {"prism": write_prism, "jani": write_jani}[language](ScoredTree(TREE, SCORES), files[language])

    def compare(verdict):
        return crosscheck(
            verdict,
            files["prism"],
            files["jani"],
            max_prism_states=6 if language == "prism" else 5,
            max_jani_states=6,
        )

    return compare


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("P=? [ F gender > 0 ]", 0.75),
        ("P=? [ F gender < 0 ]", 0.375),
        ("P=? [ G gender >= 0 ]", 0.25),
        ("P>=0.74 [ F gender > 0 ]", True),
        ("P>0.76 [ F gender > 0 ]", False),
        ("E [ F gender < 0 ]", True),
        ("A [ F gender < 0 ]", False),
        ("gender = 0 & !A [ X gender > 0 ]", True),
        ("P=? [ F gender > 0 || X gender <= 1 ]", 1.0),
        ("P=? [ F gender > 0 || F gender = 99 ]", None),
        ('R{"gender"}=? [ I=1 ]', 1.0),
        ('R{"gender"}=? [ I=2 ]', 0.125),
    ],
)
def test_agreement(query, value, compare, language):
    """Where both routes agree, the outcome says so and has both values."""
    assert compare(verdict(query)) == {
        "query": query,
        "value": value,
        "states": 6,
        "compared": True,
        "by": language,
        "value_of_file": value,
    }


@pytest.mark.parametrize(
    ("query", "change"),
    [
        ("P=? [ F gender > 0 ]", {"bounded": 0.75 + 1e-11}),
        ("P=? [ F gender > 0 ]", {"bounded": 0.75 - 1e-11}),
        ("P>=0.74 [ F gender > 0 ]", {"bounded": False}),
        ("P>0.76 [ F gender > 0 ]", {"bounded": True}),
        ("E [ F gender < 0 ]", {"bounded": False}),
        ("P>=0.5 [ F gender > 0 ] & E [ F gender < 0 ]", {"bounded": False}),
        ("P=? [ F gender > 0 || F gender < 0 ]", {"bounded": 0.99}),
        ("P=? [ F gender > 0 || F gender = 99 ]", {"bounded": 0.0}),
        ('R{"gender"}=? [ I=1 ]', {"bounded": 1 + 1e-11}),
        ("P=? [ F gender > 0 ]", {"states_explored": 5}),
        ("P=? [ F gender > 0 ]", {"transitions_explored": 7}),
    ],
)
def test_disagreement(query, change, compare, language):
    """A verdict with another value or size than the file's fails, and both are named."""
    true = verdict(query)
    # a change is of the value, or of a size
    sizes = {name: size for name, size in change.items() if name != "bounded"}
    tampered = replace(true, costs=replace(true.costs, **sizes))
    if "bounded" in change:
        tampered = replace(tampered, bounded=change["bounded"])
    ((key, wrong),) = change.items()
    with pytest.raises(CheckFailed) as caught:
        compare(tampered)
    message = str(caught.value)
    assert query in message
    assert f"w.{language}" in message
    assert repr(wrong) in message
    assert repr(getattr(true if key == "bounded" else true.costs, key)) in message


def test_a_file_that_was_cut_is_found(compare, language, tmp_path):
    """A file that lost its end is named, although what is left may be a chain all the same."""
    path, query = tmp_path / f"w.{language}", verdict("P=? [ F gender > 0 ]")
    whole = path.read_bytes()
    for end in (len(whole) - 1, whole[:-1].rindex(b"\n") + 1, 0):
        path.write_bytes(whole[:end])
        with pytest.raises(DamagedFile, match=rf"w\.{language}: .* delete it"):
            compare(query)


def test_a_difference_within_rounding_agrees(compare):
    """Values that differ by less than 1e-12 agree."""
    rounded = replace(verdict("P=? [ F gender > 0 ]"), bounded=0.75 + 9e-13)
    assert compare(rounded)["compared"] is True


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("P=? [ F<=2147483647 gender > 0 ]", 0.75),
        ("P=? [ G<=2147483647 gender >= 0 ]", 0.25),
        ("P=? [ gender = 0 U<=2147483647 gender > 0 ]", 0.75),
        ("P=? [ F (step = 1 & P>=0.7 [ F<=2147483647 gender < 0 ]) ]", 0.5),
        ("A [ F<=2147483647 gender < 0 ]", False),
    ],
)
def test_a_bound_beyond_the_horizon_is_the_horizon(query, value, compare):
    """Storm takes no more steps for a bound than the tree has, and both routes agree."""
    assert compare(verdict(query))["value_of_file"] == value


def test_a_large_tree_is_not_compared(tmp_path):
    """A tree of more states than both maxima is not compared, and the outcome says so."""
    unread = tmp_path / "not-read"
    asked = verdict("P=? [ F gender > 0 ]")
    outcome = crosscheck(asked, unread, unread, max_prism_states=4, max_jani_states=5)
    assert outcome == {
        "query": "P=? [ F gender > 0 ]",
        "value": 0.75,
        "states": 6,
        "compared": False,
        "reason": "more than 5 states",
    }


def test_a_file_that_is_written_again_is_read_again(tmp_path):
    """A chain at the same path with other probabilities is compared with its own values."""
    unread, path = tmp_path / "none", tmp_path / "w.jani"
    limits = {"max_prism_states": 1, "max_jani_states": 6}
    other = trees.by_hand(
        [(0, 0.25, TEXT), (0, 0.25, END), (0, 0.5, REST), (1, 0.75, TEXT), (1, 0.25, REST)]
    )
    for tree, value in ((TREE, 0.75), (other, 0.5), (TREE, 0.75)):
        scored = ScoredTree(tree, SCORES)
        write_jani(scored, path)
        for query in ("P=? [ F gender > 0 ]", "P=? [ F gender < 0 ]"):
            found = check_chain(scored, parse(query))
            outcome = crosscheck(found, unread, path, **limits)
            assert outcome["value_of_file"] == found.bounded
            assert found.bounded == value or "<" in query


@pytest.mark.long
def test_a_large_chain_is_compared(tmp_path):
    """A query on 50,000 states has the value and the explored size of Storm's front end."""
    from generated_tree import generated_scores, generated_tree

    tree = generated_tree(50_000, seed=1, length=5)
    scored = ScoredTree(tree, {"gender": generated_scores(tree, seed=1)["gender"]})
    write_jani(scored, tmp_path / "w.jani")
    limits = {"max_prism_states": 5_000, "max_jani_states": 500_000}
    found = check_chain(scored, parse("P=? [ F gender > 0 ]"))
    outcome = crosscheck(found, tmp_path / "none", tmp_path / "w.jani", **limits)
    assert outcome["compared"]
