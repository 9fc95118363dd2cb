"""Scores as files."""

import numpy as np
import pandas as pd
import pytest
from helpers import trees
from helpers.damage import flipped
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import ConfigError, DamagedFile, InvalidTree
from llmchecker.properties.scores import (
    read_all_scores,
    score_texts,
    score_tree,
    write_scores,
)
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
DRAWN = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]


class Refusing:
    """A quantifier that fails in one of the ways in which quantifiers fail."""

    minimum, maximum = 0, 1

    def __init__(self, how):
        self.how = how

    def __call__(self, start, continuation):
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (2, "quantifier 'rude': score of 'w': 2 is outside the range 0 to 1; correct either"),
        (0.5, "quantifier 'rude': score of 'w': 0.5 is not an integer"),
        (
            2**63,
            "quantifier 'rude': score of 'w': it has more than 64 bits; return a smaller one",
        ),
        (ConfigError("too long"), "quantifier 'rude': too long"),
        (ZeroDivisionError("by zero"), "quantifier 'rude': it raised ZeroDivisionError: by zero"),
        (SystemExit(3), "quantifier 'rude': it raised SystemExit: 3"),
    ],
)
def test_a_failure_to_score_names_the_quantifier(how, message):
    """Whatever goes wrong while a quantifier of a query scores, it is named as the query does."""
    with pytest.raises(ConfigError) as caught:
        score_texts(Refusing(how), "w", ["w"], "rude")
    assert str(caught.value) == message
    with pytest.raises(ConfigError, match=r"^quantifier 'rude'"):
        score_tree(Refusing(how), trees.by_hand(DRAWN), "rude")


@pytest.mark.parametrize("error", [MemoryError(), DamagedFile("changed"), KeyboardInterrupt()])
def test_what_is_no_fault_of_a_quantifier_is_raised_as_it_is(error):
    """A machine without memory, a damaged file and an interrupt are told as what they are."""
    with pytest.raises(type(error)) as caught:
        score_texts(Refusing(error), "w", ["w"], "rude")
    assert caught.value is error


def test_a_file_is_open_to_other_tools(tmp_path):
    """pandas reads the file alone: uid and score, and no score where the state is rest."""
    values = np.array([0, -3, 2**40, 7, 5, 7])
    write_scores(values, trees.by_hand(DRAWN), tmp_path / "gender.parquet")
    frame = pd.read_parquet(tmp_path / "gender.parquet", dtype_backend="pyarrow")
    assert list(frame.columns) == ["uid", "score"]
    assert frame["uid"].tolist() == [0, 1, 2, 3, 4, 5]
    assert frame["score"].isna().tolist() == [False, False, False, True, False, True]
    assert frame["score"].dropna().tolist() == [0, -3, 2**40, 5]


@given(st.data())
def test_scores_read_back(tmp_path_factory, data):
    """Of every tree the scores of the texts read back as they were."""
    tree = data.draw(trees.text_trees())
    values = data.draw(trees.scores(tree, ["gender"], most=2**40))["gender"]
    path = tmp_path_factory.getbasetemp() / "gender.parquet"
    write_scores(values, tree, path)
    back = read_all_scores(tree, [path])["gender"]
    assert back.dtype == np.int64
    known = tree.kind != StateKind.REST
    assert back[known].tolist() == values[known].tolist()


def test_several_quantifiers_by_name(tmp_path):
    """A file is named after its quantifier."""
    tree = trees.by_hand(DRAWN)
    paths = [tmp_path / "gender.parquet", tmp_path / "polarity.parquet"]
    for number, path in enumerate(paths, start=1):
        write_scores(np.full(len(tree), number), tree, path)
    back = read_all_scores(tree, paths)
    assert list(back) == ["gender", "polarity"]
    assert set(back["polarity"][tree.kind != StateKind.REST]) == {2}


@pytest.mark.parametrize(
    "other",
    [
        DRAWN[:3],
        [*DRAWN[:3], (1, 0.75, TEXT), (1, 0.25, END)],
        [*DRAWN[:3], (1, 0.5, TEXT), (1, 0.5, REST)],
    ],
    ids=["fewer states", "other kinds", "other probabilities"],
)
def test_scores_of_another_tree_are_refused(other, tmp_path):
    """Scores that cannot be of this tree are refused, and the message says what to do."""
    path = tmp_path / "gender.parquet"
    write_scores(np.zeros(len(other) + 1, dtype=int), trees.by_hand(other), path)
    with pytest.raises(
        InvalidTree, match=r"gender\.parquet: not the scores .* delete the file to score"
    ):
        read_all_scores(trees.by_hand(DRAWN), [path])


@pytest.mark.long
def test_every_flipped_bit_of_scores_is_found(tmp_path):
    """Whichever bit of a file of scores flips, reading it raises an error that names the file."""
    tree, path = trees.by_hand(DRAWN), tmp_path / "gender.parquet"
    write_scores(np.arange(len(tree)), tree, path)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(DamagedFile, match=r"gender\.parquet: .* delete it"):
            read_all_scores(tree, [path])
