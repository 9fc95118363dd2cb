"""The files of a model directory: which they are, whether they load, and GGUF to safetensors.

torch and transformers are imported inside `convert_gguf`: checking files must not cost seconds.
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
from llmchecker.fetching.gguf_header import gguf_sizes
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
"""Those besides the configuration and the index that hold a JSON object, where they are."""

_LAYERS = re.compile(r"(num|n)_\w*(layers?|blocks?)$|layers$")
_NO_WEIGHTS = (
    f"there is neither {WEIGHTS} nor {INDEX}; only safetensors are read, as other weight files can "
    "run code when they are loaded"
)


def model_files(directory: Path) -> list[Path]:
    """The files of `directory` that a model directory may hold, by name."""
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

    Reads the headers of the weights, which give away a truncated file, and not the weights. The
    messages name files; the caller knows what model they belong to.

    Raises:
        UnusableModel: no config.json, no tokenizer, no safetensors weights; a file that is
            truncated or damaged; an index that names a file or tensor that is not there; a
            configuration with more layers than there are tensors.
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

    Takes a minute for some 200 million parameters, which is why it happens once.

    Raises:
        UnusableModel: truncated, without a tokenizer or some weights, or of an architecture that
            transformers cannot read; a package that reading needs is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    sizes = gguf_sizes(gguf_file)
    try:
        with _gguf_read_once(), built_within(sizes):
            tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
            model, loading = AutoModelForCausalLM.from_pretrained(
                gguf_file.parent,
                gguf_file=gguf_file.name,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except MemoryError:
        raise
    except Exception as error:  # damaged bytes surface as any error of three libraries
        raise UnusableModel(f"the GGUF file cannot be read: {error}") from error
    if missing := sorted(loading["missing_keys"]):
        # transformers would go on with random numbers in their place.
        raise UnusableModel(f"the GGUF file lacks the weights {', '.join(missing)}")
    # The weights are plain float32 now; with the mark of quantisation they could not be saved.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    # indented it would be more than twice as long, and every job that loads the model reads it
    tokenizer.backend_tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    for file in model_files(directory):
        file.chmod(0o644)  # weights are written for their owner alone, but machines are shared


@contextmanager
def _gguf_read_once() -> Iterator[None]:
    """Let transformers share one reading of a file among tokenizer, config and weights.

    It reads the file anew for each, which takes 20 s for a vocabulary of 262,144 tokens.
    """
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def _check_shards(directory: Path) -> None:
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
    """Refuse a number of layers, wherever it stands in the configuration, beyond all tensors.

    The classes of some configurations make a list of so many entries before any network is built.
    """
    parts = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in parts:
        if isinstance(value, dict | list):
            _check_layers(value, sizes)
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
