"""The files of a model directory, and what becomes of a GGUF file."""

import io
import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.random_models import write_gguf
from helpers.sources import assert_nothing_left, write_model, write_sharded
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from llmchecker.errors import UnusableModel
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.gguf import read_gguf_header
from llmchecker.models.sources.model_directory import (
    _INDEX,
    _JSON_FILES,
    MODEL_CONFIG,
    check_loadable,
    convert_gguf,
)
from llmchecker.models.sources.source_spec import Source


def test_gguf_is_converted(tmp_path: Path) -> None:
    """A GGUF file becomes float32 safetensors that transformers loads, with its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tensors = write_gguf(tmp_path / "m.gguf")
    fetch_checkpoint(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m", use_safetensors=True)
    assert getattr(model.config, "quantization_config", None) is None
    assert str(model.dtype) == "torch.float32"
    embedding = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedding, tensors["token_embd.weight"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert tokenizer.decode(tokenizer("ab a", add_special_tokens=False)["input_ids"]) == "ab a"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_bars_of_a_conversion_are_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """The bars of transformers are drawn where standard error is a terminal, and not in a log."""
    from transformers.utils import logging as transformers_logging

    was_active = transformers_logging.is_progress_bar_enabled()
    transformers_logging.enable_progress_bar()
    log = io.StringIO()
    monkeypatch.setattr(log, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", log)
    write_gguf(tmp_path / "m.gguf")
    fetch_checkpoint(ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "m")
    if not was_active:
        transformers_logging.disable_progress_bar()
    assert ("100%" in log.getvalue()) == is_terminal


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1, 0.002])
def test_truncated_gguf(tmp_path: Path, kept: float) -> None:
    """A GGUF file that is cut anywhere is refused, and nothing of it stays."""
    write_gguf(tmp_path / "m.gguf")
    contents = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(contents[: int(kept * len(contents))])
    with pytest.raises(UnusableModel, match="GGUF file: "):
        fetch_checkpoint(
            ModelSource(Source("path", str(tmp_path / "m.gguf"))), tmp_path / "o" / "m"
        )
    assert_nothing_left(tmp_path / "o" / "m")


def test_gguf_that_lacks_weights(tmp_path: Path) -> None:
    """A GGUF file without one of the model's weights is refused, not filled with chance."""
    write_gguf(tmp_path / "m.gguf", without="blk.0.ffn_up.weight")
    with pytest.raises(UnusableModel, match=r"weights .*up_proj.* are missing"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")


@pytest.mark.parametrize(
    ("splitting", "pieces"),
    [
        ("gpt-2", ["Ġ+", "Ġ", "Ġ67"]),
        ("smollm", ["Ġ+", "ĠĠ", "6", "7"]),
        ("qwen2", ["Ġ+", "Ġ", "Ġ", "6", "7"]),
    ],
)
def test_text_is_cut_as_the_gguf_file_says(tmp_path, splitting, pieces):
    """A converted tokenizer cuts spaces and digits by the rule that the file names."""
    write_gguf(tmp_path / "m.gguf", splitting=splitting)
    (tmp_path / "m").mkdir()
    convert_gguf(tmp_path / "m.gguf", tmp_path / "m")
    read = Tokenizer.from_file(str(tmp_path / "m/tokenizer.json"))
    assert [piece for piece, _ in read.pre_tokenizer.pre_tokenize_str(" +  67")] == pieces


@pytest.mark.parametrize("splitting", [None, "default", "no-such-rule"])
def test_a_gguf_file_that_does_not_say_how_text_is_cut(tmp_path, splitting):
    """A file that names no rule, or one that nobody knows, is refused by that name."""
    write_gguf(tmp_path / "m.gguf", splitting=splitting)
    with pytest.raises(UnusableModel, match=f"tokenizer.ggml.pre: {splitting!r} is unknown"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")


@pytest.mark.parametrize("blocks", [0, 2, 10**7, 2**32 - 1])
def test_gguf_with_another_number_of_blocks(tmp_path: Path, blocks: int) -> None:
    """A GGUF file that names fewer or more blocks than it has is refused before one is built."""
    write_gguf(tmp_path / "m.gguf")
    key, contents = b"llama.block_count", (tmp_path / "m.gguf").read_bytes()
    value = contents.index(key) + len(key) + 4  # behind the type of the value
    changed = contents[:value] + blocks.to_bytes(4, "little") + contents[value + 4 :]
    (tmp_path / "m.gguf").write_bytes(changed)
    message = f"llama.block_count is {blocks}, but the weights have 1 blocks"
    with pytest.raises(UnusableModel, match=message):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")


@pytest.mark.parametrize("place", [8, 16])
@pytest.mark.parametrize("count", [10**7, 2**63, 2**64 - 1])
def test_gguf_that_names_more_than_it_holds(tmp_path: Path, place: int, count: int) -> None:
    """A count of tensors or entries beyond the end of the file is refused, and not followed."""
    write_gguf(tmp_path / "m.gguf")
    contents = (tmp_path / "m.gguf").read_bytes()
    changed = contents[:place] + count.to_bytes(8, "little") + contents[place + 8 :]
    (tmp_path / "m.gguf").write_bytes(changed)
    with pytest.raises(UnusableModel, match=f"it announces {count} entries, but"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")


@pytest.mark.parametrize("length", [10**12, 2**64 - 1])
def test_gguf_with_a_list_beyond_its_end(tmp_path: Path, length: int) -> None:
    """A list of tokens that would go on for days is refused."""
    write_gguf(tmp_path / "m.gguf")
    key, contents = b"tokenizer.ggml.tokens", (tmp_path / "m.gguf").read_bytes()
    value = contents.index(key) + len(key) + 8  # behind two types
    changed = contents[:value] + length.to_bytes(8, "little") + contents[value + 8 :]
    (tmp_path / "m.gguf").write_bytes(changed)
    with pytest.raises(UnusableModel, match=f"it announces {length} entries, but"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "m")


def test_damaged_gguf_headers(tmp_path: Path) -> None:
    """Whatever a byte of the header becomes, the strict reading ends, with sizes or a message."""
    write_gguf(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    assert read_gguf_header(tmp_path / "m.gguf").sizes.tensors == whole[8]
    rng = np.random.default_rng(3)
    for place in rng.integers(0, 3000, size=1000):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        (tmp_path / "m.gguf").write_bytes(damaged)
        with suppress(UnusableModel):
            read_gguf_header(tmp_path / "m.gguf")


# --- what is refused before anything is loaded -------------------------------------------------


@pytest.mark.parametrize("name", [MODEL_CONFIG, *_JSON_FILES])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ("\ud800", "not JSON"),
    ],
)
def test_json_that_is_none(tmp_path: Path, name: str, content: str, message: str) -> None:
    """A JSON file that is a list, nested without end or no text is refused by its name."""
    model = write_model(tmp_path / "model")
    (model / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UnusableModel, match=f"{name}: {message}"):
        check_loadable(model)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ([], "weight_map is missing"),
        (
            {"weight1": ["model-00001-of-00002.safetensors"]},
            "weight1 is in .*, which is not a file",
        ),
        ({"weight1": None}, "weight1 is in None, which is not a file"),
        ({"weight1": "../model-00001-of-00002.safetensors"}, "the files .* are missing"),
        (
            {"weight1": "model-00001-of-00002.safetensors"}
            | {"weight2": "model-00001-of-00002.safetensors"},
            "weight2 is missing",
        ),
    ],
)
def test_index_that_is_none(tmp_path: Path, weight_map: object, message: str) -> None:
    """An index that names no files, or the wrong ones, is refused."""
    model = write_sharded(tmp_path / "model")
    (model / _INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(UnusableModel, match=message):
        check_loadable(model)


def test_shard_with_a_tensor_that_the_index_does_not_say_of_it(tmp_path: Path) -> None:
    """Of two tensors of one name in two files, nobody could say which one counts."""
    model = write_sharded(tmp_path / "model")
    both = {"weight1": np.zeros(3), "weight2": np.ones(3)}
    save_file(both, model / "model-00002-of-00002.safetensors")
    with pytest.raises(UnusableModel, match=r"00002.safetensors: weight1 is not listed by"):
        check_loadable(model)


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**7},
        {"n_layer": 2},
        {"encoder_layers": 10**30},
        {"text_config": {"num_layers": 2}},
        {"parts": [{"num_blocks": 2}]},
    ],
)
def test_more_layers_than_tensors(tmp_path: Path, config: dict) -> None:
    """A number of layers that the file cannot hold is refused, wherever it stands."""
    model = write_model(tmp_path / "model")
    (model / MODEL_CONFIG).write_text(json.dumps({"model_type": "llama"} | config))
    with pytest.raises(UnusableModel, match=r"\w+ is \d+, but the weights have 1 tensors"):
        check_loadable(model)


def test_model_type_that_is_none(tmp_path: Path) -> None:
    """A model_type that is no text names no architecture."""
    model = write_model(tmp_path / "model")
    (model / MODEL_CONFIG).write_text('{"model_type": ["llama"]}')
    with pytest.raises(UnusableModel, match="model_type is missing"):
        check_loadable(model)
