"""Distributions that were computed before: found again, shared by jobs, bounded in size."""

from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
import pytest
from helpers.damage import flipped

from llmchecker.models.transformers.load import load_model
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.selection import Selection
from llmchecker.trees.text_tree import Truncation

START = "The player won because"
TRUNCATIONS = [
    Truncation(0.8, 15, 3),
    Truncation(0.9, 9, 2),
    Truncation(1.0, 3, 4),
    Truncation(0.99, 2000, 1),
]
GB = 2**30


class Counting:
    """A model that counts the texts after which it was asked for a distribution."""

    def __init__(self, model) -> None:
        self.model = model
        self.asked: list[tuple[int, ...]] = []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def open_prefix(self, prompt, deepest=0, **options):
        inner = self.model.open_prefix(prompt, deepest, **options)
        outer = self

        class Counted:
            def map_next(self, function, suffixes, extended=False):
                outer.asked += map(tuple, suffixes.tolist())
                return inner.map_next(function, suffixes, extended)

        return Counted()


def columns(tree) -> list:
    return [tree.parent, tree.token, tree.kind, tree.probability, tree.text]


def assert_same(one, other) -> None:
    assert all(np.array_equal(a, b) for a, b in zip(columns(one), columns(other), strict=True))


def stored(directory, model, limit=GB):
    return DistributionCache(directory, limit).open_distributions("model", model.encode(START))


@pytest.mark.few(2)
@pytest.mark.parametrize("order", list(product(TRUNCATIONS, repeat=2)))
def test_a_tree_is_the_same_from_the_store(order, tmp_path, random_model):
    """After any tree of the same start string, the next has the bits it has without a store."""
    model = load_model(random_model("llama"))
    for truncation in order:
        tree = build_tree(model, START, truncation, distributions=stored(tmp_path, model))
        assert_same(tree, build_tree(model, START, truncation))


def test_no_text_is_asked_for_twice(tmp_path, random_model):
    """A second tree asks only after texts that the first did not reach, and a third after none."""
    model = Counting(load_model(random_model("llama")))
    build_tree(model, START, Truncation(1.0, 4, 4), distributions=stored(tmp_path, model))
    first = model.asked
    assert len(first) == len(set(first))
    model.asked = []
    tree = build_tree(model, START, Truncation(1.0, 6, 3), distributions=stored(tmp_path, model))
    assert not set(model.asked) & set(first)
    assert len(model.asked) < tree.internal.sum()
    model.asked = []
    build_tree(model, START, Truncation(1.0, 6, 3), distributions=stored(tmp_path, model))
    assert model.asked == []


@pytest.mark.long
def test_from_the_store_on_smollm2(tmp_path, smollm2):
    """On the real SmolLM2 a tree that is half stored has the bits of one that is computed."""
    model = load_model(smollm2, threads=2)
    build_tree(model, START, Truncation(0.6, 4, 3), distributions=stored(tmp_path, model))
    tree = build_tree(model, START, Truncation(0.8, 6, 3), distributions=stored(tmp_path, model))
    assert_same(tree, build_tree(model, START, Truncation(0.8, 6, 3)))


def test_models_and_prompts_are_kept_apart(tmp_path, random_model):
    """Another fingerprint or prompt finds nothing."""
    model = load_model(random_model("llama"))
    store = DistributionCache(tmp_path, GB)
    build_tree(
        model,
        START,
        TRUNCATIONS[0],
        distributions=store.open_distributions("model", model.encode(START)),
    )
    suffixes = np.empty((1, 0), dtype=np.int64)
    for fingerprint, prompt, found in (
        ("model", START, 1),
        ("other", START, 0),
        ("model", "The", 0),
    ):
        opened = store.open_distributions(fingerprint, model.encode(prompt))
        assert len(list(opened.select(suffixes, 0.8, 15))) == found


def test_an_interrupted_growth_keeps_what_it_computed(tmp_path, random_model):
    """What was computed before an interruption is not computed again."""

    def interrupt(step, done, total):
        if step == 3:
            raise KeyboardInterrupt

    model = Counting(load_model(random_model("llama")))
    with pytest.raises(KeyboardInterrupt):
        build_tree(
            model, START, TRUNCATIONS[0], progress=interrupt, distributions=stored(tmp_path, model)
        )
    before = model.asked
    model.asked = []
    build_tree(model, START, TRUNCATIONS[0], distributions=stored(tmp_path, model))
    assert () not in model.asked
    assert len(model.asked) < len(before)


def selection_of(rows: int) -> Selection:
    values = np.tile(0.5 ** np.arange(1, 33), (rows, 1))
    counts = np.full(rows, 2)
    return Selection(np.tile(np.arange(32), (rows, 1)), values, counts, np.full(rows, 0.25))


def add_many(directory, number: int) -> None:
    store = DistributionCache(directory, GB)
    for part in range(10):
        opened = store.open_distributions("model", (1, 2))
        opened.add(np.array([[number, part]]), selection_of(1))
        opened.save()


@pytest.mark.long
def test_two_jobs_at_once(tmp_path):
    """What several processes add at the same time is all found."""
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(add_many, [tmp_path] * 4, range(4)))
    suffixes = np.array(list(product(range(4), range(10))))
    opened = DistributionCache(tmp_path, GB).open_distributions("model", (1, 2))
    ((rows, selection),) = opened.select(suffixes, 0.7, 9)
    assert rows.tolist() == list(range(40))
    assert selection.counts.tolist() == [2] * 40


def test_size_is_bounded_and_the_oldest_go_first(tmp_path):
    """Beyond the limit the least recently used files are deleted, and the newest stay."""
    sizes = []
    for number in range(6):
        limit = GB if not sizes else 3 * max(sizes)
        opened = DistributionCache(tmp_path, limit).open_distributions("model", (number,))
        opened.add(np.arange(100)[:, np.newaxis], selection_of(100))
        opened.save()
        files = list(tmp_path.rglob("*.parquet"))
        sizes = [file.stat().st_size for file in files]
        assert sum(sizes) <= 3 * max(sizes)
    assert len(files) == 3
    last = DistributionCache(tmp_path, GB).open_distributions("model", (5,))
    assert len(list(last.select(np.array([[7]]), 0.5, 1))) == 1


def test_no_space_stores_nothing(tmp_path):
    """With a limit of 0 no file stays."""
    opened = DistributionCache(tmp_path, 0).open_distributions("model", (1,))
    opened.add(np.array([[1]]), selection_of(1))
    opened.save()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_damaged_file_is_dropped(tmp_path, caplog):
    """Whichever bit of a stored file flips, it is named in the log, deleted, and not used."""
    opened = DistributionCache(tmp_path, GB).open_distributions("model", (1, 2))
    opened.add(np.array([[7]]), selection_of(1))
    opened.save()
    (file,) = tmp_path.rglob("*.parquet")
    whole = file.read_bytes()
    for bit in range(0, 8 * len(whole), 7):
        file.write_bytes(flipped(whole, bit))
        caplog.clear()
        opened = DistributionCache(tmp_path, GB).open_distributions("model", (1, 2))
        assert not list(opened.select(np.array([[7]]), 0.5, 1)), bit
        assert file.name in caplog.text
        assert not file.exists()


@pytest.mark.parametrize(
    "values",
    [[0.5, float("nan")], [float("inf"), 0.5], [0.25, 0.5], [0.5, -0.25], [0.75, 0.5], [1.5, 0.0]],
)
def test_numbers_that_are_no_distribution_are_dropped(values, tmp_path, caplog):
    """Stored numbers that are no probabilities, rise or add up to more than 1 are not used."""
    opened = DistributionCache(tmp_path, GB).open_distributions("model", (1, 2))
    one = np.array([values])
    opened.add(np.array([[7]]), Selection(np.array([[0, 1]]), one, np.array([1]), 1 - one[:, 0]))
    opened.save()
    (file,) = tmp_path.rglob("*.parquet")
    opened = DistributionCache(tmp_path, GB).open_distributions("model", (1, 2))
    assert not list(opened.select(np.array([[7]]), 0.25, 1))
    assert f"{file}: its numbers are not distributions" in caplog.text
    assert not file.exists()
