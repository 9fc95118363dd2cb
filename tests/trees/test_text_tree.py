"""Text trees as columns and as files."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers.damage import flipped
from helpers.marks import long
from helpers.trees import by_hand, full

from llmchecker.errors import DamagedFile, InvalidTree
from llmchecker.trees.sealed_parquet import read_parquet, write_parquet
from llmchecker.trees.text_tree import NO_TOKEN, StateKind, TextTree, Truncation


def small_tree() -> TextTree:
    """Root, two texts and a rest; the first text ends with probability 1."""
    return TextTree(
        model="table",
        truncation=Truncation(0.75, 2, 2),
        parent=np.array([-1, 0, 0, 0, 1]),
        step=np.array([0, 1, 1, 1, 2]),
        token=np.array([NO_TOKEN, 7, 3, NO_TOKEN, 0]),
        probability=np.array([1, 0.5, 0.25, 0.25, 1]),
        kind=np.array(
            [StateKind.TEXT, StateKind.TEXT, StateKind.END, StateKind.REST, StateKind.END],
            dtype=np.int8,
        ),
        text=np.array(["a\n🙂", 'a\n🙂"b', "a\n🙂c", None, 'a\n🙂"b'], dtype=object),
    )


def test_counts():
    """A tree of 5 states with 2 internal ones has 2 * 5 - 1 - 2 = 7 transitions."""
    tree = small_tree()
    assert len(tree) == 5
    assert tree.internal.tolist() == [True, True, False, False, False]
    assert tree.transitions == 7


def test_file_round_trip(tmp_path):
    """A tree reads back from its file as it was written, texts with any character included."""
    tree = small_tree()
    tree.write(tmp_path / "tree.parquet")
    back = TextTree.read(tmp_path / "tree.parquet")
    assert (back.model, back.truncation) == (tree.model, tree.truncation)
    for column in ("parent", "step", "token", "probability", "kind", "text"):
        assert getattr(back, column).tolist() == getattr(tree, column).tolist()


def test_file_is_open_to_other_tools(tmp_path):
    """pandas reads the file alone: the named columns, kinds in words, no text for rest."""
    small_tree().write(tmp_path / "tree.parquet")
    frame = pd.read_parquet(tmp_path / "tree.parquet")
    columns = ["uid", "parent", "step", "token", "probability", "kind", "text"]
    assert list(frame.columns) == columns
    assert frame["uid"].tolist() == [0, 1, 2, 3, 4]
    assert frame["kind"].tolist() == ["text", "text", "end", "rest", "end"]
    assert frame["text"].isna().tolist() == [False, False, False, True, False]


def test_same_tree_gives_the_same_bytes(tmp_path):
    """Writing a tree twice gives identical files."""
    for name in ("one.parquet", "two.parquet"):
        small_tree().write(tmp_path / name)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


@pytest.mark.parametrize("apart", [101, *long(1)])
def test_every_flipped_bit_of_a_tree_is_found(apart, tmp_path):
    """Whichever bit of a tree's file flips, reading it raises an error that names the file."""
    path = tmp_path / "tree.parquet"
    small_tree().write(path)
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), apart):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(DamagedFile, match=r"tree\.parquet: .* delete it"):
            TextTree.read(path)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("step", [0, 1, 1, 1], "differ in length"),
        ("parent", [-1, 0, 0, 0, 4], "precedes its parent"),
        ("parent", [-1, 0, 0, 0, -1], "precedes its parent"),
        ("parent", [0, 0, 0, 0, 1], "row 0 is not the root"),
        ("parent", [-1, 0, 0, 1, 0], "breadth-first"),
        ("step", [0, 1, 1, 1, 3], "breadth-first"),
        ("parent", [-1, 0, 0, 0, 3], "only texts may have children"),
        ("probability", [1, 0.5, 0.25, 0.2, 1], "state 0: its children have probability 0.95"),
        ("probability", [1, 0.75, 0.5, -0.25, 1], "not a number from 0 to 1"),
        ("probability", [1, float("nan"), 0.25, 0.25, 1], "not a number from 0 to 1"),
        ("probability", [1, 0.5, 0.25, 0.25, float("nan")], "not a number from 0 to 1"),
        ("probability", [1, float("inf"), 0.25, 0.25, 1], "not a number from 0 to 1"),
        ("kind", [0, 0, 0, 1, 2], "state 2: a text of 1 token below L = 2"),
    ],
)
def test_columns_that_form_no_tree_are_refused(column, value, reason):
    """Columns that do not form a tree are refused with the reason."""
    value = np.array(value, dtype=getattr(small_tree(), column).dtype)
    with pytest.raises(InvalidTree, match=reason):
        replace(small_tree(), **{column: value})


def test_another_parquet_file_is_refused(tmp_path):
    """A parquet file of something else is refused by its path, whoever wrote it."""
    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(DamagedFile, match=r"other\.parquet: .* has no checksum"):
        TextTree.read(path)
    write_parquet(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidTree, match=r"other\.parquet: not a text tree"):
        TextTree.read(path)


def test_a_shard_is_not_taken_for_a_tree(tmp_path):
    """Texts without children are let pass in a shard only, and its file is read as a shard only."""
    lone = small_tree()
    part = replace(lone, kind=np.array([0, 0, 0, 1, 2], dtype=np.int8), is_shard=True)
    for tree, path in ((part, tmp_path / "part.parquet"), (lone, tmp_path / "tree.parquet")):
        tree.write(path)
        assert TextTree.read(path, is_shard=tree.is_shard).digest == tree.digest
        with pytest.raises(InvalidTree, match=r"holds (one shard of a tree|a whole tree)"):
            TextTree.read(path, is_shard=not tree.is_shard)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("model", "other"),
        ("truncation", Truncation(0.5, 2, 2)),
        ("token", [NO_TOKEN, 7, 4, NO_TOKEN, 0]),
        ("probability", [1, 0.5, 0.25 + 2**-53, 0.25, 1]),
        ("kind", [0, 0, 2, 1, 0]),
        ("text", ["a\n🙂", 'a\n🙂"b', "a\n🙂d", None, 'a\n🙂"b']),
    ],
)
def test_trees_that_differ_have_different_digests(column, value, tmp_path):
    """The digest changes with any column and is that of the tree that is read back."""
    tree = small_tree()
    old = getattr(tree, column)
    value = np.array(value, dtype=old.dtype) if isinstance(old, np.ndarray) else value
    assert replace(tree, **{column: value}).digest != tree.digest
    tree.write(tmp_path / "tree.parquet")
    assert TextTree.read(tmp_path / "tree.parquet").digest == tree.digest


@pytest.mark.parametrize("tree", [small_tree(), full(2, 3)])
def test_the_digest_is_the_sha256_of_all_columns(tree):
    """The digest is that of plain bytes: header, columns, lengths of texts, texts."""
    truncation = tree.truncation
    header = [tree.model, truncation.alpha, truncation.k, truncation.length, False]
    columns = [tree.parent, tree.step, tree.token, tree.probability, tree.kind]
    lengths = [-1 if text is None else len(text) for text in tree.text]
    expected = hashlib.sha256(json.dumps(header).encode())
    for column in (*columns, np.array(lengths)):
        expected.update(column.tobytes())
    expected.update("".join(text or "" for text in tree.text).encode())
    assert tree.digest == expected.hexdigest()


def test_a_file_without_a_digest_of_its_columns_is_read(tmp_path):
    """Without the digest in the file's metadata, that of the columns is computed."""
    tree = small_tree()
    path = tmp_path / "tree.parquet"
    tree.write(path)
    table, metadata = read_parquet(path)
    write_parquet(table, path, {k: v for k, v in metadata.items() if k != "digest"})
    assert TextTree.read(path).digest == tree.digest


def test_stored_texts_are_indexed_like_an_array(tmp_path):
    """Texts of a file have the indices, the order and the length of the array that was written."""
    tree = small_tree()
    tree.write(tmp_path / "tree.parquet")
    stored = TextTree.read(tmp_path / "tree.parquet").text
    assert len(stored) == 5
    assert [stored[uid] for uid in (0, -1, np.int64(3))] == [tree.text[0], tree.text[-1], None]
    for index in (slice(1, 4), [4, 0], tree.kind == StateKind.END):
        assert stored[index].tolist() == tree.text[index].tolist()
    assert list(stored) == stored.tolist() == np.asarray(stored).tolist() == tree.text.tolist()


def test_path_probabilities_are_products():
    """A state's path has the product of the probabilities on it."""
    tree = by_hand(
        [
            (0, 0.5, StateKind.TEXT),
            (0, 0.5, StateKind.REST),
            (1, 0.25, StateKind.TEXT),
            (1, 0.75, 1),
        ]
    )
    assert tree.path_probability.tolist() == [1, 0.5, 0.5, 0.125, 0.375]
