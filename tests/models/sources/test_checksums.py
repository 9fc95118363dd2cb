"""Checksums of a model's files: believed while nothing is computed, compared when it is loaded."""

import hashlib
import os
import shutil
import threading

import numpy as np
import pytest
import torch
from helpers.damage import flipped

from llmchecker.errors import ChecksumMismatch, DamagedFile, UnusableModel
from llmchecker.models.sources import checksums as checksums_module
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.checksums import check_checksums, load_checked, read_checksums
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.transformers.load import load_model
from llmchecker.utils import file_state
from llmchecker.utils.atomic_files import read_json, write_json


@pytest.fixture
def fetched(tmp_path, random_model):
    """A model whose files were recorded when they came."""
    directory = shutil.copytree(random_model("llama"), tmp_path / "fetched")
    write_json({"files": read_checksums(directory)}, directory / "source.json")
    return directory


@pytest.fixture
def linked(tmp_path, random_model):
    """A model that was fetched from a directory on this machine, and that directory."""
    original = shutil.copytree(random_model("llama"), tmp_path / "original")
    fetch_checkpoint(ModelSource(parse_source(f"path:{original}")), tmp_path / "linked")
    return tmp_path / "linked", original


def damage(path, bit: int) -> None:
    """Flip a bit as a failing disk does: neither size nor time of the file tell it."""
    times = path.stat()
    path.write_bytes(flipped(path.read_bytes(), bit))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_all_files_of_a_model_have_their_checksums(fetched):
    """Both ways tell the sha256 of every file but the record and what is hidden."""
    (fetched / ".snakemake_timestamp").touch()
    (fetched / "more").mkdir()
    (fetched / "more/template.jinja").write_text("{{ text }}")
    expected = {
        str(path.relative_to(fetched)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in fetched.rglob("*")
        if path.is_file() and path.name not in (".snakemake_timestamp", "source.json")
    }
    assert "model.safetensors" in expected
    assert read_checksums(fetched) == check_checksums(fetched) == expected


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_flipped_bit_of_a_fetched_file_is_found_when_the_model_is_loaded(fetched, name):
    """A model of which a file changed after it was fetched does not load, and the file is named."""
    load_model(fetched)
    damage(fetched / name, 8 * ((fetched / name).stat().st_size - 2))
    with pytest.raises(ChecksumMismatch, match=rf"{name}: its sha256 is .*delete the dir"):
        load_model(fetched)


def test_a_fetched_file_that_is_gone_is_missed(fetched):
    """transformers would do without generation_config.json, and end texts elsewhere."""
    (fetched / "generation_config.json").unlink()
    with pytest.raises(ChecksumMismatch, match=r"generation_config\.json is missing"):
        load_model(fetched)


@pytest.mark.parametrize(
    "content", [b"", b'{"files": {"model.safe', b"[" * 100_000, b"{}", b'{"files": [1, 2]}']
)
def test_a_damaged_record_is_named_and_not_taken_for_none(fetched, content):
    """Without a record nothing could be compared, so one that is damaged stops the model."""
    (fetched / "source.json").write_bytes(content)
    for checksums in (read_checksums, check_checksums, load_model):
        with pytest.raises(DamagedFile, match=r"source\.json"):
            checksums(fetched)


def test_what_is_fetched_is_not_read_to_know_it(fetched):
    """Until a model is loaded its record is believed, so that asking costs no reading."""
    before = read_checksums(fetched)
    damage(fetched / "model.safetensors", 5000)
    assert read_checksums(fetched) == before


def test_a_link_is_known_by_what_it_leads_to(linked):
    """The checksum of a linked file is that of its content, whatever its size, time and record."""
    directory, original = linked
    damage(original / "model.safetensors", 8 * ((original / "config.json").stat().st_size))
    content = hashlib.sha256((original / "model.safetensors").read_bytes()).hexdigest()
    recorded = read_json(directory / "source.json")["files"]["model.safetensors"]
    assert content != recorded
    for found in (read_checksums(directory), check_checksums(directory)):
        assert found["model.safetensors"] == content


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "generation_config.json", "tokenizer.json"]
)
def test_a_job_refuses_a_link_to_other_bytes_than_the_recorded_ones(linked, name, monkeypatch):
    """A changed original is named, whatever its size and time, with and without loading."""
    directory, original = linked
    monkeypatch.setenv("LLMCHECKER_JOB", "1")
    assert load_model(directory).files == read_checksums(directory)
    damage(original / name, 8 * 100)
    for use in (read_checksums, check_checksums, load_model):
        with pytest.raises(ChecksumMismatch, match=rf"original/{name}: .* changed after .*again"):
            use(directory)


def test_a_job_refuses_a_link_to_a_missing_file(linked, monkeypatch):
    """transformers would do without generation_config.json, and end texts elsewhere."""
    directory, original = linked
    monkeypatch.setenv("LLMCHECKER_JOB", "1")
    (original / "generation_config.json").unlink()
    for use in (read_checksums, load_model):
        with pytest.raises(ChecksumMismatch, match=r"generation_config\.json: .* changed after"):
            use(directory)


def test_a_link_is_read_only_after_a_change(linked, monkeypatch):
    """The checksums of gigabytes cost a look at their metadata while nothing changes."""
    directory, original = linked
    moments = record_as_old(directory)
    monkeypatch.setattr(file_state, "_known_states", {})
    monkeypatch.setattr(file_state, "compute_sha256", lambda path: pytest.fail(f"{path} was read"))
    assert read_checksums(directory) == moments
    monkeypatch.undo()
    damage(original / "model.safetensors", 8 * 100)
    content = hashlib.sha256((original / "model.safetensors").read_bytes()).hexdigest()
    assert read_checksums(directory) == moments | {"model.safetensors": content}


def record_as_old(directory):
    """Let the record be of a moment long after the last change of the originals."""
    record = read_json(directory / "source.json")
    for state in record["originals"].values():
        state["read"] += 60 * 10**9
    write_json(record, directory / "source.json")
    return record["files"]


def test_a_file_that_changes_while_it_is_loaded_is_refused(linked):
    """Weights are read for the network and for their checksum; both must be of the same bytes."""
    directory, original = linked

    def load() -> None:
        content = (original / "config.json").read_bytes()
        (original / "config.json").write_bytes(content)

    with pytest.raises(ChecksumMismatch, match="changed while they were loaded"):
        load_checked(directory, load)


def test_a_loaded_network_does_not_follow_its_file(tmp_path, random_model):
    """Weights that are overwritten in place do not change a network that was loaded before."""
    directory = shutil.copytree(random_model("llama"), tmp_path / "model")
    model, prompt = load_model(directory), [1, 5]
    (before,) = probabilities_after(model, prompt)
    weights = directory / "model.safetensors"
    with weights.open("r+b") as file:
        file.seek(weights.stat().st_size // 2)
        file.write(bytes(weights.stat().st_size // 2))
    assert np.array_equal(probabilities_after(model, prompt)[0], before)
    assert not np.array_equal(probabilities_after(load_model(directory), prompt)[0], before)


def probabilities_after(model, prompt):
    with torch.no_grad():
        return model.network(input_ids=torch.tensor([prompt])).logits[:, -1].softmax(-1).numpy()


def test_a_loaded_model_tells_the_checksums_of_what_was_loaded(linked):
    """The checksums that a model carries are of the bytes that it was loaded from."""
    directory, original = linked
    model, before = load_model(directory), read_checksums(directory)
    with (original / "config.json").open("a") as file:
        file.write(" ")
    assert model.files == before != read_checksums(directory)


def test_weights_are_compared_while_they_are_loaded(fetched, monkeypatch):
    """The sha256 of weights is computed at the same time as they are read; the others before."""
    is_loading, found = threading.Event(), []
    compute = checksums_module.compute_sha256

    def compute_sha256(path):
        found.append(path.name)
        assert path.suffix != ".safetensors" or is_loading.wait(20)
        return compute(path)

    def load() -> str:
        assert "tokenizer.json" in found
        is_loading.set()
        return "network"

    monkeypatch.setattr(checksums_module, "compute_sha256", compute_sha256)
    assert load_checked(fetched, load) == ("network", read_checksums(fetched))


def test_a_damaged_file_explains_an_error_of_loading(fetched):
    """No damaged configuration is parsed, and damaged weights are named instead of their error."""

    def fail():
        raise UnusableModel("weights: 3 tensors are missing")

    with pytest.raises(UnusableModel, match="3 tensors"):
        load_checked(fetched, fail)
    damage(fetched / "model.safetensors", 80)
    with pytest.raises(ChecksumMismatch, match=r"model\.safetensors: its sha256 is"):
        load_checked(fetched, fail)
    damage(fetched / "config.json", 80)
    with pytest.raises(ChecksumMismatch, match=r"config\.json: its sha256 is"):
        load_checked(fetched, lambda: pytest.fail("a damaged file was parsed"))
