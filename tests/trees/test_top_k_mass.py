"""The mass of the most probable next tokens, exact on a table and on the prompts of the paper."""

from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from llmchecker.errors import DamagedFile
from llmchecker.models import fingerprint
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from llmchecker.trees import top_k_mass
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.top_k_mass import (
    compute_masses,
    load_or_compute_masses,
    read_masses,
    write_masses,
)

EIGHTHS = {
    (0,): (1, 4, 2, 1),
    (1,): (0, 0, 8, 0),
    (0, 1): (2, 2, 2, 2),
}


def table() -> TableModel:
    """Four tokens; what follows a, b and ab is given in eighths."""
    return TableModel(
        "abcd", lambda tokens: [Fraction(eighth, 8) for eighth in EIGHTHS[tuple(tokens)]]
    )


def test_masses_are_exact():
    """The mass within k is the sum of the k largest probabilities, for every prompt and k."""
    frame = compute_masses(table(), ["a", "b", "ab"], 4)
    assert list(frame.columns) == ["prompt", "k", "mass"]
    assert frame["prompt"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert frame["k"].tolist() == [1, 2, 3, 4] * 3
    eighths = [*(4, 6, 7, 8), *(8, 8, 8, 8), *(2, 4, 6, 8)]
    assert frame["mass"].tolist() == [eighth / 8 for eighth in eighths]


def test_fewer_k_than_tokens():
    """Statistics up to k = 2 are the first two of those up to k = 4."""
    assert compute_masses(table(), ["a"], 2)["mass"].tolist() == [4 / 8, 6 / 8]


def test_k_beyond_the_vocabulary_holds_all_mass():
    """With more tokens than there are, nothing is left out."""
    frame = compute_masses(table(), ["a"], 7)
    assert frame["k"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert frame["mass"].tolist() == [4 / 8, 6 / 8, 7 / 8, 1, 1, 1, 1]


def test_no_prompts():
    """Without prompts there are no rows, but the columns are there."""
    frame = compute_masses(table(), [], 3)
    assert list(frame.columns) == ["prompt", "k", "mass"]
    assert len(frame) == 0


@pytest.mark.parametrize(("architecture", "kind"), [("llama", "causal"), ("bert", "masked")])
def test_threads_change_no_bit_of_a_mass(architecture, kind, random_model):
    """Prompts that are asked three at once have the masses that they have one after the other."""
    prompts = [f"The player {'won and ' * n}she" for n in range(12)]
    one, three = (
        compute_masses(
            load_model(random_model(architecture), kind, threads=n), prompts, 5, threads=n
        )
        for n in (1, 3)
    )
    pd.testing.assert_frame_equal(one, three, check_exact=True)


def opened(model: Path, **changes) -> LazyModel:
    settings = {
        "kind": "causal",
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "memory_bytes": 10**8,
    }
    return LazyModel(model, **settings | changes)


def load_or_compute(
    one: LazyModel, directory: Path, prompts, maximum_k: int
) -> tuple[pd.DataFrame, float]:
    return load_or_compute_masses(one, DistributionCache(directory, 10**8), prompts, maximum_k)


def test_a_model_is_asked_once(tmp_path, random_model):
    """What one process asked, the next finds without loading the model, to the last bit."""
    model = random_model("llama")
    first, second = opened(model), opened(model)
    asked, seconds = load_or_compute(first, tmp_path, ["The player", "She"], 4)
    found, none = load_or_compute(second, tmp_path, ["The player", "She"], 4)
    assert seconds > 0 == none
    assert first.is_loaded
    assert not second.is_loaded
    pd.testing.assert_frame_equal(asked, found, check_exact=True)
    pd.testing.assert_frame_equal(found, compute_masses(first.model, ["The player", "She"], 4))


def test_other_questions_are_asked(tmp_path, random_model, monkeypatch):
    """Other prompts, another k, dtype or model, or changed code: the model is asked again."""
    model = random_model("llama")
    load_or_compute(opened(model), tmp_path, ["The player"], 4)

    def asks(prompts=("The player",), maximum_k=4, model=model, **changes) -> bool:
        one = opened(model, **changes)
        load_or_compute(one, tmp_path, prompts, maximum_k)
        return one.is_loaded

    assert not asks()
    assert not asks(threads=2)
    assert asks(prompts=["The players"])
    assert asks(prompts=["The player", "The player"])
    assert asks(maximum_k=5)
    assert asks(dtype="bfloat16")
    assert asks(model=random_model("mistral"))
    monkeypatch.setattr(fingerprint, "MODEL_MODULES", ("errors.py",))
    assert asks()


def test_a_damaged_file_of_the_store_is_computed_again(tmp_path, random_model, caplog):
    """Stored masses that a flipped bit changed are named in the log, and asked for again."""
    model = random_model("llama")
    expected, _ = load_or_compute(opened(model), tmp_path, ["The player"], 4)
    (path,) = tmp_path.glob("*/masses.parquet")
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 3] ^= 1
    path.write_bytes(contents)
    again, seconds = load_or_compute(opened(model), tmp_path, ["The player"], 4)
    assert seconds > 0
    assert "masses.parquet" in caplog.text
    pd.testing.assert_frame_equal(again, expected, check_exact=True)
    assert load_or_compute(opened(model), tmp_path, ["The player"], 4)[1] == 0


@pytest.mark.parametrize("values", [[0.5, 0.4], [0.5, 1.5], [-0.5, 0.5], [0.5, float("nan")]])
def test_numbers_that_are_no_masses_are_refused(values, tmp_path):
    """Masses that fall with k, or are no probabilities, are refused although nothing is damaged."""
    path = tmp_path / "masses.parquet"
    write_masses(pd.DataFrame({"prompt": [0, 0], "k": [1, 2], "mass": values}), path)
    with pytest.raises(DamagedFile, match=r"masses\.parquet: its numbers are not masses"):
        read_masses(path)


def test_a_file_that_another_job_deletes_is_computed_again(tmp_path, random_model, monkeypatch):
    """A file that goes away while it is read leaves nothing behind that is not a table."""
    model = random_model("llama")
    expected, _ = load_or_compute(opened(model), tmp_path, ["The player"], 4)
    (path,) = tmp_path.glob("*/masses.parquet")
    read = top_k_mass.read_masses

    def read_and_lose(asked: Path) -> pd.DataFrame:
        table = read(asked)
        asked.unlink()
        return table

    monkeypatch.setattr(top_k_mass, "read_masses", read_and_lose)
    again, seconds = load_or_compute(opened(model), tmp_path, ["The player"], 4)
    assert seconds > 0
    pd.testing.assert_frame_equal(again, expected)
    pd.testing.assert_frame_equal(read(path), expected)


def test_stored_masses_count_against_the_limit_of_the_store(tmp_path, random_model):
    """A store too small for them keeps none, and the answer is the same."""
    small = DistributionCache(tmp_path, 10)
    one = opened(random_model("llama"))
    table, _ = load_or_compute_masses(one, small, ["The player"], 4)
    assert not list(tmp_path.glob("*/*"))
    pd.testing.assert_frame_equal(table, load_or_compute_masses(one, small, ["The player"], 4)[0])
