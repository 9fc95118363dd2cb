"""The PRISM program is the chain, and Storm's own parser reads it."""

import math
import re

import numpy as np
import pytest
import stormpy
from helpers import trees
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.markov import prism
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import UnknownName
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
DRAWN = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 1.0, TEXT)]
GENDER = np.array([4, 5, 6, -99, 3])


def program(source: str, path) -> stormpy.developer.storage.PrismProgram:
    path.write_text(source, encoding="utf-8")
    return stormpy.parse_prism_program(str(path))


def test_a_drawn_tree_is_this_program():
    """A command for each state that goes on and one for leaves, every variable with its range,
    labels and rewards."""
    source = prism._format_prism(ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER}))
    body = [line for line in source.splitlines() if not line.startswith("//")]
    assert body == [
        "dtmc",
        "",
        "module text_generation",
        "  uid : [0..4] init 0;",
        "  step : [0..2] init 0;",
        "  kind : [0..3] init 0;",
        "  gender : [3..6] init 4;",
        "",
        "  [] uid=0 -> 0.5 : (uid'=1) & (step'=1) & (kind'=0) & (gender'=5)"
        " + 0.25 : (uid'=2) & (step'=1) & (kind'=2) & (gender'=6)"
        " + 0.25 : (uid'=3) & (step'=1) & (kind'=1) & (gender'=3);",
        "  [] uid=1 -> 1.0 : (uid'=4) & (step'=2) & (kind'=0) & (gender'=3);",
        "  [] kind != 0 | step = 2 -> true;",
        "endmodule",
        "",
        'label "rest" = kind = 1;',
        'label "end" = kind = 2 | kind = 3;',
        'rewards "gender" kind != 1 : gender; endrewards',
    ]


def test_storm_builds_the_full_shape(tmp_path):
    """Storm reads the full tree of nine tokens and three steps as 911 states."""
    model = stormpy.build_model(
        program(prism._format_prism(ScoredTree(trees.full(9, 3), {})), tmp_path / "w.prism")
    )
    assert (model.nr_states, model.nr_transitions) == (911, 1730)


def test_labels_mark_rest_and_end(tmp_path):
    """The labels hold in the states of their kind."""
    model = stormpy.build_model(
        program(
            prism._format_prism(ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER})),
            tmp_path / "w.prism",
        )
    )
    for name, count in (("rest", 1), ("end", 1)):
        assert model.labeling.get_states(name).get_number_of_set_bits() == count


@pytest.mark.parametrize(
    "start",
    [
        "",
        "two\nlines\r\nand\rmore",
        "a \"quoted\" 'word'",
        "*/ dtmc /* // \\",
        "an emoji 🙂 and 日本語, العربية",
        "controls \x00 \x1b \u2028 \u0085 \ud800",
        "{model} %s {0}",
    ],
)
def test_any_start_string_stays_in_its_comment(start, tmp_path):
    """Whatever the start string holds, the program has the same commands and Storm reads it."""
    path = tmp_path / "w.prism"
    tree = trees.by_hand(DRAWN, start=start)
    prism.write_prism(ScoredTree(tree, {"gender": GENDER}), path)
    plain = prism._format_prism(ScoredTree(trees.by_hand(DRAWN), {"gender": GENDER}))
    source = path.read_text(encoding="utf-8")
    assert source.splitlines()[3:] == plain.splitlines()[3:]
    assert source.splitlines()[2] == f"// start string: {start!r}"
    assert stormpy.build_model(stormpy.parse_prism_program(str(path))).nr_states == 5


@given(st.floats(1e-300, 1, exclude_max=True))
@examples(50)
def test_probabilities_read_back_exactly(tmp_path_factory, probability):
    """A printed probability reads back as the same float64, and Storm misses 2 ulp at most."""
    tree = trees.by_hand([(0, probability, TEXT), (0, 1 - probability, REST)])
    source = prism._format_prism(ScoredTree(tree, {}))
    printed = re.search(r"uid=0 -> (\S+) :", source).group(1)
    assert float(printed) == probability
    path = tmp_path_factory.getbasetemp() / "one.prism"
    model = stormpy.build_model(program(source, path))
    first = next(iter(model.transition_matrix.get_row(0))).value
    assert abs(first - probability) <= 2 * math.ulp(probability)


def test_an_impossible_child_is_dropped_by_storm(tmp_path):
    """A child of probability 0 is written, and Storm does not reach it."""
    tree = trees.by_hand([(0, 1.0, TEXT), (0, 0.0, TEXT)])
    model = stormpy.build_model(
        program(prism._format_prism(ScoredTree(tree, {})), tmp_path / "w.prism")
    )
    assert (model.nr_states, model.nr_transitions) == (2, 2)


def test_quantifier_atoms_are_guarded_against_rest():
    """An atom over a quantifier is asked outside rest only; one over step is asked as it is."""
    query = parse("P=? [ step > 1 U gender + step > -3 ]")
    assert [prism.format_prism_atom(atom) for atom in query.atoms] == [
        "(step > 1)",
        "(kind != 1 & (gender + step) > -3)",
    ]


@pytest.mark.parametrize("name", ["uid", "kind", "module", "F", "two words", "größe", ""])
def test_a_quantifier_that_prism_cannot_name_is_refused(name):
    """PRISM's keywords and the program's own variables are no names for quantifiers."""
    with pytest.raises(UnknownName, match="not the name of a variable in PRISM"):
        prism._format_prism(ScoredTree(trees.by_hand(DRAWN), {name: GENDER}))
