"""Trees in files: grown again when anything that they depend on changes, and only then."""

import os
import shutil

import numpy as np
import pytest
from helpers.damage import flipped

from llmchecker.errors import ChecksumMismatch, UnusableModel
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.sources.checksums import read_checksums
from llmchecker.models.transformers.load import load_model
from llmchecker.trees import builder
from llmchecker.trees.builder import BuildRecord, TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.shards import Shard
from llmchecker.trees.text_tree import TextTree, Truncation
from llmchecker.utils.atomic_files import compute_sha256, write_json

START = "The player won because"
TRUNCATION = Truncation(0.8, 4, 3)


def silent(step: int, done: int, total: int) -> None:
    """Report nothing."""


@pytest.fixture
def model(tmp_path, random_model):
    """A copy of a model that a test may change."""
    return shutil.copytree(random_model("llama"), tmp_path / "llama")


def grower(model, tmp_path, **changes) -> TreeBuilder:
    settings = {
        "kind": "causal",
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "memory_bytes": 10**8,
    }
    cache = changes.pop("cache", None) or DistributionCache(tmp_path / "store", 10**8)
    return TreeBuilder(LazyModel(model, **{**settings, **changes}), cache)


def test_a_tree_and_its_record_are_written(model, tmp_path):
    """The file holds the tree that `grow` returns, and the record what it took."""
    path = tmp_path / "L3.parquet"
    tree, growth = grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    expected = build_tree(load_model(model), START, TRUNCATION)
    assert np.array_equal(TextTree.read(path).probability, expected.probability)
    assert np.array_equal(tree.text, expected.text)
    assert growth.nodes == growth.computed == expected.internal.sum()
    assert path.with_suffix(".json").is_file()
    again = grower(model, tmp_path).build(tmp_path / "again.parquet", START, TRUNCATION, silent)[1]
    assert (again.nodes, again.computed) == (growth.nodes, 0)
    assert isinstance(again, BuildRecord)


def test_a_tree_is_known_by_all_that_it_depends_on(model, tmp_path, monkeypatch):
    """Another text, bound, dtype, end of sequence, decoding, model or code makes another tree."""
    path = tmp_path / "L3.parquet"
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    for same in ({}, {"threads": 1, "memory_bytes": 10**6, "device": "cuda"}):
        assert grower(model, tmp_path, **same).is_cached(path, START, TRUNCATION)
    for other in ("The player", Chat((("user", START),)), Chat((("system", ""), ("user", START)))):
        assert not grower(model, tmp_path).is_cached(path, other, TRUNCATION)
    for truncation in (Truncation(0.7, 4, 3), Truncation(0.8, 5, 3), Truncation(0.8, 4, 2)):
        assert not grower(model, tmp_path).is_cached(path, START, truncation)
    for change in (
        {"dtype": "bfloat16"},
        {"end_of_sequence": "ordinary"},
        {"decoding": Decoding(top_p=0.9)},
        {"decoding": "as_published"},
    ):
        assert not grower(model, tmp_path, **change).is_cached(path, START, TRUNCATION)
    monkeypatch.setattr(builder, "TREE_MODULES", ("errors.py",))
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    monkeypatch.undo()
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)


@pytest.mark.parametrize("lost", ["L3.parquet", "L3.json"])
def test_a_tree_without_its_record_is_not_known(model, tmp_path, lost):
    """Both files must be there, and the record must be one."""
    path = tmp_path / "L3.parquet"
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    (tmp_path / lost).unlink()
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    (tmp_path / "L3.json").write_text('{"nodes": 3}')
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)


def test_a_tree_of_damaged_weights_does_not_count_once_they_are_mended(model, tmp_path):
    """A tree grown from weights with a flipped bit is not taken for that of the right ones.

    Size and time of the file are those of before.
    """
    path, weights = tmp_path / "L3.parquet", model / "model.safetensors"
    whole, times = weights.read_bytes(), weights.stat()

    def put(contents: bytes) -> None:
        weights.write_bytes(contents)
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))

    right, _ = grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    # the last byte holds the sign and most of the exponent of a float32
    put(flipped(whole, 8 * len(whole) - 4))
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    wrong, growth = grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    assert wrong.digest != right.digest
    assert growth.makings[0]["files"]["model.safetensors"] == compute_sha256(weights)
    put(whole)
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    assert grower(model, tmp_path).build(path, START, TRUNCATION, silent)[0].digest == right.digest


def test_damaged_weights_that_were_fetched_grow_nothing(model, tmp_path):
    """A tree of the weights that were fetched stays; a new one is refused and leaves no file."""
    path, weights = tmp_path / "L3.parquet", model / "model.safetensors"
    write_json({"files": read_checksums(model)}, model / "source.json")
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    weights.write_bytes(flipped(weights.read_bytes(), 4 * weights.stat().st_size))
    assert grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    with pytest.raises(ChecksumMismatch, match=r"model\.safetensors: its sha256 is"):
        grower(model, tmp_path).build(tmp_path / "L4.parquet", START, Truncation(0.8, 4, 4), silent)
    assert not (tmp_path / "L4.parquet").exists()


def test_weights_are_not_asked_where_a_server_is_configured(model, tmp_path):
    """A model directory of an earlier configuration is named, and not taken for the server's."""
    served = grower(model, tmp_path, kind="served", dtype="as served", device="server")
    with pytest.raises(UnusableModel, match="llama: not fetched from the"):
        served.build(tmp_path / "tree.parquet", START, TRUNCATION, silent)
    assert list(tmp_path.glob("tree*")) == []


def test_a_damaged_tree_is_grown_again(model, tmp_path, caplog):
    """A tree of which a bit has flipped does not count as grown, and the log says so."""
    path = tmp_path / "L3.parquet"
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, 4 * len(whole)))
    assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
    assert "L3.parquet" in caplog.text
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    assert path.read_bytes() == whole


def test_a_tree_whose_record_is_damaged_is_grown_again(model, tmp_path, caplog):
    """A record of which a bit has flipped vouches for no tree, and the log names it."""
    path = tmp_path / "L3.parquet"
    grower(model, tmp_path).build(path, START, TRUNCATION, silent)
    record = path.with_suffix(".json")
    whole = record.read_bytes()
    for bit in range(3, 8 * len(whole), 701):
        record.write_bytes(flipped(whole, bit))
        assert not grower(model, tmp_path).is_cached(path, START, TRUNCATION)
        assert "L3.json" in caplog.text
    record.write_bytes(whole)
    assert grower(model, tmp_path).is_cached(path, START, TRUNCATION)


def test_shards_in_files_make_the_tree(model, tmp_path):
    """Three parts, each grown with a store of its own, make the file of the tree of one piece."""
    parts = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        store = DistributionCache(tmp_path / str(number), 10**8)
        grower(model, tmp_path, cache=store).build(
            part, START, TRUNCATION, silent, Shard(number, 3)
        )
    whole, merged = tmp_path / "whole.parquet", tmp_path / "merged.parquet"
    _, growth = grower(model, tmp_path).build(whole, START, TRUNCATION, silent)
    _, together = grower(model, tmp_path).merge(merged, START, parts)
    assert merged.read_bytes() == whole.read_bytes()
    assert (together.nodes, together.fingerprint) == (growth.nodes, growth.fingerprint)
    assert len(together.makings) == len(parts)
    assert grower(model, tmp_path).is_cached(merged, START, TRUNCATION)


def test_decodings_share_neither_trees_nor_stored_distributions(model, tmp_path):
    """Grown with one store, each decoding has the tree of its own, and its record names it; all ask
    one loaded network."""
    plainly = grower(model, tmp_path)
    settings = (None, Decoding(temperature=0.5), Decoding(top_k=2), Decoding(do_sample=False))
    for number, decoding in enumerate(settings):
        path = tmp_path / f"{number}.parquet"
        asked = plainly.with_decoding(decoding)
        tree, growth = asked.build(path, START, TRUNCATION, silent)
        plain = load_model(model) if decoding is None else load_model(model).with_decoding(decoding)
        assert tree.digest == build_tree(plain, START, TRUNCATION).digest
        assert growth.computed == growth.nodes
        assert asked.lazy_model.model.network is plainly.lazy_model.model.network
        recorded = None if decoding is None else decoding.settings
        assert growth.makings[0]["decoding"] == recorded
        assert not grower(model, tmp_path, decoding=settings[number - 1]).is_cached(
            path, START, TRUNCATION
        )
