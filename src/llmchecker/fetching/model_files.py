"""The files of a model directory: their names, whether they load, and how GGUF becomes safetensors.

torch and transformers are imported inside `convert_gguf`, so that checking files takes no seconds.
"""

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmchecker.errors import UnusableModel
from llmchecker.fetching.gguf_header import read_gguf_header
from llmchecker.fetching.gguf_splitting import restore_splitting
from llmchecker.fetching.sizes import WeightSizes, built_within, sizes_of, weight_shapes

MODEL_CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PROVENANCE = "source.json"

# Everything else stays out of a model directory: pickles (*.bin, *.pt) and *.py run code when
# they are loaded. No name here contains a slash, so subdirectories of a repository never match.
WEIGHT_FILES = (WEIGHTS, INDEX, "model-?????-of-?????.safetensors")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
MODEL_FILES = (
    MODEL_CONFIG,
    "generation_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    *TOKENIZER_FILES,
    *WEIGHT_FILES,
)

JSON_FILES = (
    "generation_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)
"""The files that hold a JSON object if they exist; the configuration and the index do too."""

_LAYERS = re.compile(r"(num|n)_\w*(layers?|blocks?)$|layers$")
_NO_WEIGHTS = (
    f"there is neither {WEIGHTS} nor {INDEX}; only safetensors are read, as other weight files can "
    "run code when they are loaded"
)


CONVERSION = 2
"""Counts the ways in which GGUF files have been converted: a new one makes models fetched anew."""


def model_files(directory: Path) -> list[Path]:
    """The files of `directory` that a model directory may hold, sorted by name."""
    return sorted(
        file for pattern in MODEL_FILES for file in directory.glob(pattern) if file.is_file()
    )


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model directory that `check_loadable` has passed."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    shards = set(_json_object(directory / INDEX)["weight_map"].values())
    return [directory / shard for shard in sorted(shards)]


def check_loadable(directory: Path) -> None:
    """Check that a model can be loaded from `directory` without running code from it.

    It reads the headers of the weights, which show whether a file is truncated, but not the weights
    themselves. The messages name files only, since the caller knows which model they belong to.

    Raises:
        UnusableModel: config.json, the tokenizer or the safetensors weights are missing; a file is
            truncated or damaged; the index names a file or tensor that is not there; the
            configuration has more layers than there are tensors.
    """
    config = _json_object(directory / MODEL_CONFIG)
    if not isinstance(config.get("model_type"), str):
        raise UnusableModel(f"{MODEL_CONFIG} has no model_type, so it describes no model")
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise UnusableModel(f"there is no tokenizer; one of {', '.join(TOKENIZER_FILES)}")
    for name in JSON_FILES:
        if (directory / name).exists():
            _json_object(directory / name)
    if not (directory / WEIGHTS).is_file():
        if not (directory / INDEX).is_file():
            raise UnusableModel(_NO_WEIGHTS)
        _check_shards(directory)
    _check_layers(config, sizes_of(weight_files(directory)))


def convert_gguf(gguf_file: Path, directory: Path) -> None:
    """Write the model in `gguf_file` to `directory`: float32 safetensors, config, tokenizer.

    It takes about a minute for 200 million parameters, so it is done once, when a model is fetched.

    Raises:
        UnusableModel: the file is truncated, lacks the tokenizer or some weights, or has an
            architecture that transformers cannot read; or a package for reading it is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    header = read_gguf_header(gguf_file)
    try:
        with _gguf_read_once(), built_within(header.sizes):
            tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
            model, loading = AutoModelForCausalLM.from_pretrained(
                gguf_file.parent,
                gguf_file=gguf_file.name,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except MemoryError:
        raise  # the machine is too small, and the file may be whole
    except Exception as error:  # of any class: damaged bytes may raise any error of three libraries
        raise UnusableModel(f"the GGUF file cannot be read: {error}") from error
    if missing := sorted(loading["missing_keys"]):
        # transformers has put random numbers in their place.
        raise UnusableModel(f"the GGUF file lacks the weights {', '.join(missing)}")
    restore_splitting(tokenizer, header)
    # The weights are plain float32 now; transformers would not save them while the model is marked
    # as quantised.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    # Not indented, which would more than double a file that every job with the model reads.
    tokenizer.backend_tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    for file in model_files(directory):
        file.chmod(0o644)  # weights are written for their owner only, but machines are shared


@contextmanager
def _gguf_read_once() -> Iterator[None]:
    """Let transformers read a file once for tokenizer, config and weights together.

    Otherwise it reads the file once for each, which takes 20 s for a vocabulary of 262,144 tokens.
    """
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def _check_shards(directory: Path) -> None:
    """Check that the index and the files of weights name the same tensors."""
    shards = defaultdict(set)
    weight_map = _json_object(directory / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UnusableModel(f"{INDEX} has no weight_map")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise UnusableModel(f"{INDEX} says that {tensor} is in {shard!r}, which is no file")
        shards[shard].add(tensor)
    present = {file.name for file in model_files(directory)}
    if missing := sorted(shards.keys() - present):
        raise UnusableModel(f"{INDEX} names files that are not there: {', '.join(missing)}")
    for shard, tensors in shards.items():
        held = weight_shapes(directory / shard).keys()
        if lost := sorted(tensors - held):
            raise UnusableModel(f"{shard} lacks {lost[0]}, which {INDEX} says it has")
        if extra := sorted(held - tensors):
            raise UnusableModel(f"{shard} has {extra[0]}, which {INDEX} does not say of it")


def _check_layers(config: Any, sizes: WeightSizes) -> None:
    """Refuse a configuration that names more layers than there are tensors, at any place in it.

    The classes of some configurations make a list of so many entries before any network is built,
    so it must be refused here.
    """
    parts = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in parts:
        if isinstance(value, dict | list):
            _check_layers(value, sizes)
        # a layer from which on attention is local, which may lie behind the last
        elif key == "max_window_layers":
            continue
        elif isinstance(value, int) and _LAYERS.search(str(key)) and value > sizes.tensors:
            raise UnusableModel(
                f"{MODEL_CONFIG} says {key} is {value}, but the weights are {sizes.tensors} tensors"
            )


def _json_object(file: Path) -> dict:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnusableModel(f"there is no {file.name}") from error
    except (ValueError, OSError) as error:
        raise UnusableModel(f"{file.name} is not JSON: {error}") from error
    except RecursionError as error:
        raise UnusableModel(f"{file.name} is nested too deeply to be read") from error
    if not isinstance(value, dict):
        raise UnusableModel(f"{file.name} holds no JSON object")
    return value
