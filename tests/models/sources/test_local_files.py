"""Sources that are a path: a change of any of their files is noticed and fetched."""

import shutil
from pathlib import Path

import pytest
from helpers.changes import flip, overwrite
from helpers.sources import GGUF

from llmchecker.errors import ChecksumMismatch
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources import checkpoints
from llmchecker.models.sources.checkpoints import ModelSource, ensure_checkpoint, fetch_checkpoint
from llmchecker.models.sources.checksums import read_checksums
from llmchecker.models.sources.local_files import compute_local_state, describe_local_files
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.utils.atomic_files import compute_sha256, read_json, write_json

CHANGES = {
    "weights": lambda path: flip(path / "model.safetensors"),
    "tokenizer": lambda path: overwrite(
        path / "tokenizer.json", (path / "tokenizer.json").read_bytes() + b"\n"
    ),
    "configuration": lambda path: overwrite(
        path / "config.json", (path / "config.json").read_bytes() + b" "
    ),
    "end tokens": lambda path: overwrite(path / "generation_config.json", b"{}"),
    "new template": lambda path: (path / "chat_template.jinja").write_text("{{ messages }}"),
    "removed file": lambda path: (path / "generation_config.json").unlink(),
}


@pytest.fixture
def original(tmp_path, random_model) -> Path:
    return shutil.copytree(random_model("llama"), tmp_path / "original")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_directory_has_another_state_and_is_fetched_again(original, tmp_path, change):
    """The state is that of all files, and the record of the new directory is of the new bytes."""
    source, directory = ModelSource(parse_source(f"path:{original}")), tmp_path / "model"
    fetch_checkpoint(source, directory)
    before = compute_local_state(source.local_files, directory)
    ensure_checkpoint(source, directory, tmp_path / "lock")
    assert read_json(directory / "source.json")["files"] == before == read_checksums(directory)
    change(original)
    expected = {path.name: compute_sha256(path) for path in original.iterdir()}
    assert compute_local_state(source.local_files, directory) == expected != before
    ensure_checkpoint(source, directory, tmp_path / "lock")
    assert read_json(directory / "source.json")["files"] == expected == read_checksums(directory)


def test_a_touched_directory_has_the_same_state(original, tmp_path):
    """A new time of the same bytes is no change."""
    source, directory = ModelSource(parse_source(f"path:{original}")), tmp_path / "model"
    fetch_checkpoint(source, directory)
    record, before = directory / "source.json", compute_local_state(source.local_files, directory)
    written = record.stat().st_mtime_ns
    for path in original.iterdir():
        path.touch()
    assert compute_local_state(source.local_files, directory) == before
    ensure_checkpoint(source, directory, tmp_path / "lock")
    assert record.stat().st_mtime_ns == written


def test_a_changed_gguf_file_is_converted_again(tmp_path, monkeypatch, random_model):
    """A GGUF file counts by its content, and what was converted of it remains without it."""
    gguf, directory = tmp_path / "m.gguf", tmp_path / "model"
    gguf.write_bytes(GGUF)
    converted = []

    def convert(file: Path, target: Path) -> None:
        converted.append(file.read_bytes())
        shutil.copytree(random_model("llama"), target, dirs_exist_ok=True)

    monkeypatch.setattr(checkpoints.fetch_checkpoint, "__defaults__", (convert, None))
    source = ModelSource(parse_source(f"path:{gguf}"))
    for content in (GGUF, GGUF, GGUF[:-1] + b"x"):
        overwrite(gguf, content)
        ensure_checkpoint(source, directory, tmp_path / "lock")
        state = compute_local_state(source.local_files, directory)
        assert state == {"m.gguf": compute_sha256(gguf)}
    assert converted == [GGUF, GGUF[:-1] + b"x"]
    gguf.unlink()
    ensure_checkpoint(source, directory, tmp_path / "lock")
    assert compute_local_state(source.local_files, directory) == state


def test_a_job_of_the_workflow_does_not_replace_a_model(original, tmp_path, monkeypatch):
    """Other jobs use the model that was fetched, so a change during their run is an error."""
    source, directory = ModelSource(parse_source(f"path:{original}")), tmp_path / "model"
    fetch_checkpoint(source, directory)
    record = read_json(directory / "source.json")
    monkeypatch.setenv("LLMCHECKER_JOB", "1")
    ensure_checkpoint(source, directory, tmp_path / "lock")
    flip(original / "model.safetensors")
    with pytest.raises(ChecksumMismatch, match=r"model\.safetensors of path:.* run the same"):
        ensure_checkpoint(source, directory, tmp_path / "lock")
    assert read_json(directory / "source.json") == record


def test_files_that_change_while_they_are_fetched_are_refused(tmp_path, random_model):
    """The record is of the bytes that were converted, or there is none."""
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(GGUF)

    def convert(file: Path, target: Path) -> None:
        shutil.copytree(random_model("llama"), target, dirs_exist_ok=True)
        flip(file)

    with pytest.raises(ChecksumMismatch, match="changed while they were fetched"):
        fetch_checkpoint(ModelSource(parse_source(f"path:{gguf}")), tmp_path / "model", convert)
    assert not (tmp_path / "model").exists()


def test_the_tokenizer_of_a_server_has_a_state(original, tmp_path):
    """A served model has the tokenizer's files of a directory, and not its weights."""
    server, tokenizer = parse_source("server:http://localhost:1"), parse_source(f"path:{original}")
    source = ServerSource(server, "vllm", tokenizer)
    names = {path.name for path in original.iterdir()} - {"model.safetensors"}
    before = compute_local_state(source.local_files, tmp_path)
    assert before == {name: compute_sha256(original / name) for name in names}
    flip(original / "model.safetensors")
    assert compute_local_state(source.local_files, tmp_path) == before
    flip(original / "tokenizer.json")
    assert compute_local_state(source.local_files, tmp_path) != before


@pytest.mark.parametrize("damage", [3, {"sha256": 3}, {"read": "now"}, {"stamp": {}}, None])
def test_a_damaged_state_in_a_record_only_costs_time(original, tmp_path, damage):
    """States in a record save reading, and never replace a checksum that they cannot prove."""
    source = ModelSource(parse_source(f"path:{original}"))
    record = describe_local_files(source.local_files)
    if isinstance(damage, dict):
        record["originals"]["config.json"] |= damage
    else:
        record["originals"]["config.json"] = damage
    write_json(record, tmp_path / "source.json")
    state = compute_local_state(source.local_files, tmp_path)
    assert state == {path.name: compute_sha256(path) for path in original.iterdir()}
