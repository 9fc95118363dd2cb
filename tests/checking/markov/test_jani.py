"""The JANI model is the chain, and Storm's own parser reads it."""

import json
import math

import numpy as np
import pytest
import stormpy
from helpers import trees
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.markov import jani
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import UnknownName
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
DRAWN = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 1.0, TEXT)]
GENDER = np.array([4, 5, 6, -99, 3])


def model(source: str, path) -> stormpy.models.SparseDtmc:
    path.write_text(source, encoding="utf-8")
    return stormpy.build_model(stormpy.parse_jani_model(str(path))[0])


def value(name: str, number: int | bool) -> dict:
    return {"ref": name, "value": number}


def test_a_drawn_tree_is_this_model():
    """A location with its values and an edge for each state, every variable with its range."""
    source = json.loads(jani._format_jani(ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER})))
    assert [
        (v["name"], v["type"]["lower-bound"], v["type"]["upper-bound"])
        for v in source["variables"][:2]
    ] == [("step", 0, 2), ("gender", 0, 6)]
    assert [v["name"] for v in source["variables"][2:]] == ["rest", "end"]
    (automaton,) = source["automata"]
    assert automaton["initial-locations"] == ["s0"]
    assert automaton["locations"] == [
        {"name": "s0", "transient-values": [value("gender", 4)]},
        {"name": "s1", "transient-values": [value("step", 1), value("gender", 5)]},
        {
            "name": "s2",
            "transient-values": [value("step", 1), value("gender", 6), value("end", True)],
        },
        {"name": "s3", "transient-values": [value("step", 1), value("rest", True)]},
        {"name": "s4", "transient-values": [value("step", 2), value("gender", 3)]},
    ]
    leads = [
        {d["location"]: d.get("probability", {"exp": 1})["exp"] for d in edge["destinations"]}
        for edge in automaton["edges"]
    ]
    assert leads == [
        {"s1": 0.5, "s2": 0.25, "s3": 0.25},
        {"s4": 1.0},
        {"s2": 1},
        {"s3": 1},
        {"s4": 1},
    ]


def test_storm_builds_the_full_shape(tmp_path):
    """Storm reads the full tree of nine tokens and three steps as 911 states."""
    built = model(jani._format_jani(ScoredTree(trees.full(9, 3), {})), tmp_path / "w.jani")
    assert (built.nr_states, built.nr_transitions) == (911, 1730)


@pytest.mark.parametrize(
    "start",
    ["", "two\nlines\r\nand\rmore", 'a "quoted" \\ one', '"}], "x": [{', "🙂 \x00 \u2028 \ud800"],
)
def test_any_start_string_stays_in_the_description(start, tmp_path):
    """Whatever the start string holds, all but the description is the same and Storm reads it."""
    source = jani._format_jani(ScoredTree(trees.by_hand(DRAWN, start=start), {"gender": GENDER}))
    plain = jani._format_jani(ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER}))
    assert model(source, tmp_path / "w.jani").nr_states == 5
    described, other = json.loads(source), json.loads(plain)
    assert repr(start) in described.pop("metadata")["description"]
    other.pop("metadata")
    assert described == other


@given(st.floats(1e-300, 1, exclude_max=True))
@examples(50)
def test_probabilities_read_back_exactly(tmp_path_factory, probability):
    """A printed probability reads back as the same float64, and Storm misses 2 ulp at most."""
    tree = trees.by_hand([(0, probability, TEXT), (0, 1 - probability, REST)])
    source = jani._format_jani(ScoredTree(tree, {}))
    edge = json.loads(source)["automata"][0]["edges"][0]
    assert edge["destinations"][0]["probability"]["exp"] == probability
    built = model(source, tmp_path_factory.getbasetemp() / "one.jani")
    first = next(iter(built.transition_matrix.get_row(0))).value
    assert abs(first - probability) <= 2 * math.ulp(probability)


def test_an_impossible_child_is_dropped_by_storm(tmp_path):
    """A child of probability 0 is written, and Storm does not reach it."""
    tree = trees.by_hand([(0, 1.0, TEXT), (0, 0.0, TEXT)])
    built = model(jani._format_jani(ScoredTree(tree, {})), tmp_path / "w.jani")
    assert (built.nr_states, built.nr_transitions) == (2, 2)


def test_quantifier_atoms_are_guarded_against_rest():
    """An atom over a quantifier is asked outside rest only; one over step is asked as it is."""
    query = parse("P=? [ step > 1 U gender + step > -3 ]")
    assert [jani.format_jani_atom(atom) for atom in query.atoms] == [
        "(step > 1)",
        "(!rest & (gender + step) > -3)",
    ]


@pytest.mark.parametrize("name", ["rest", "end", "module", "F", "two words", "größe", ""])
def test_a_quantifier_that_cannot_be_a_variable_is_refused(name):
    """Keywords and the model's own variables are no names for quantifiers."""
    with pytest.raises(UnknownName, match="not the name of a variable in JANI"):
        jani._format_jani(ScoredTree(trees.by_hand(DRAWN), {name: GENDER}))
