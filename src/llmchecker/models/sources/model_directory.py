"""Files of a model directory: names, checks that they load, conversion of GGUF.

torch and transformers are imported inside `convert_gguf`, because they take seconds and the checks
do not need them.
"""

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from llmchecker.errors import UnusableModel
from llmchecker.models.sources.adapters import ADAPTER_CONFIG, ADAPTERS_FILE, read_adapters
from llmchecker.models.sources.gguf import read_gguf_header
from llmchecker.models.sources.gguf_pretokenizer import restore_pretokenizer
from llmchecker.models.sources.progress_bars import limit_progress_bars
from llmchecker.models.sources.weight_sizes import (
    WeightSizes,
    limit_network_size,
    read_weight_shapes,
    read_weight_sizes,
)
from llmchecker.utils.optional_packages import check_packages

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
PROVENANCE = "source.json"

# All other files are excluded: pickles (*.bin, *.pt) and *.py run code when they are loaded. No
# name here contains a slash, so subdirectories of a repository never match.
_WEIGHT_FILES = (WEIGHTS, _INDEX, "model-?????-of-?????.safetensors")
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
    *_WEIGHT_FILES,
)

TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json")
"""Files of a model that may contain its chat template."""

_JSON_FILES = (
    "generation_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)
"""Optional files with a JSON object; the configuration and the index have one too."""

_LAYER_COUNT_KEY = re.compile(r"(num|n)_\w*(layers?|blocks?)$|layers$")
_NO_WEIGHTS_MESSAGE = (
    f"weights: neither {WEIGHTS} nor {_INDEX} exists; only safetensors are read, "
    "as other files may run code"
)

_QUANTIZERS = ("torchao",)
"""Packages whose quantised weights are read, as config.json names them.

They compute with torch alone, also on a processor. Others download or compile kernels.
"""

CONVERSION_VERSION = 2
"""Version of the GGUF conversion; a new version makes models outdated."""


def find_model_files(directory: Path) -> list[Path]:
    """Return the files that belong into a model directory, sorted by name."""
    return sorted(
        file for pattern in MODEL_FILES for file in directory.glob(pattern) if file.is_file()
    )


def find_tokenizer_files(directory: Path) -> list[Path]:
    """Return the files of a model directory except the weights, sorted by name."""
    return [
        file
        for file in find_model_files(directory)
        if not any(file.match(pattern) for pattern in _WEIGHT_FILES)
    ]


def find_weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a model directory that passed `check_loadable`."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    shards = set(_read_json_object(directory / _INDEX)["weight_map"].values())
    return [directory / shard for shard in sorted(shards)]


def measure_weights(directory: Path) -> int | None:
    """Return the size of a fetched model's weights in bytes; None without it."""
    # Written last, so that an unfinished copy has no record of its source.
    if not (directory / PROVENANCE).is_file():
        return None
    files = (file for pattern in _WEIGHT_FILES for file in directory.glob(pattern))
    return sum(file.stat().st_size for file in files)


def check_loadable(directory: Path) -> None:
    """Check that a model can be loaded from `directory` without running code from it.

    The check reads the headers of the weights, which reveal truncated files, but not the weights
    themselves. Messages contain file names only, because the caller adds the model.

    Raises:
        UnusableModel: config.json, the tokenizer or the safetensors weights are missing; a file is
            truncated or damaged; the index names a missing file or tensor; the configuration has
            more layers than the files have tensors; the weights are quantised by another method
            than those of `_QUANTIZERS`, or an adapter has settings that are not supported.
        MissingTool: the package of the quantised weights is not installed.
    """
    config = _read_json_object(directory / MODEL_CONFIG)
    if not isinstance(config.get("model_type"), str):
        raise UnusableModel(
            f"{MODEL_CONFIG}: model_type is missing; add it, or choose another model"
        )
    _check_self_contained(directory, config)
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise UnusableModel(f"tokenizer: no file; add one of {', '.join(TOKENIZER_FILES)}")
    for name in _JSON_FILES:
        if (directory / name).exists():
            _read_json_object(directory / name)
    if not (directory / WEIGHTS).is_file():
        if not (directory / _INDEX).is_file():
            raise UnusableModel(_NO_WEIGHTS_MESSAGE)
        _check_shards(directory)
    _check_layers(config, read_weight_sizes(find_weight_files(directory)))
    read_adapters(directory)


def convert_gguf(gguf_file: Path, directory: Path) -> None:
    """Convert a GGUF file to a directory of float32 safetensors, config and tokenizer.

    The conversion takes about a minute for 200 million parameters, so it runs once, when a model is
    fetched.

    Raises:
        UnusableModel: the file is truncated, lacks the tokenizer or weights, or has an architecture
            that transformers cannot read; or a package for reading it is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    header = read_gguf_header(gguf_file)
    try:
        with _cache_gguf_reader(), limit_progress_bars(), limit_network_size(header.sizes):
            tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
            loaded = AutoModelForCausalLM.from_pretrained(
                gguf_file.parent,
                gguf_file=gguf_file.name,
                dtype=torch.float32,
                output_loading_info=True,
            )
            # the annotation of transformers leaves the second value out
            model, loading_info = cast("tuple[PreTrainedModel, dict[str, Any]]", loaded)
    except MemoryError:
        raise  # the machine is too small, and the file may be whole
    except Exception as error:  # damaged bytes may raise any error of three libraries
        raise UnusableModel(f"GGUF file: it cannot be read: {error}") from error
    if missing_keys := sorted(loading_info["missing_keys"]):
        # transformers has replaced them by random numbers
        raise UnusableModel(f"GGUF file: weights {', '.join(missing_keys)} are missing")
    restore_pretokenizer(tokenizer, header)
    # the weights are plain float32 now, but transformers does not save a model that is marked as
    # quantised
    vars(model).pop("hf_quantizer", None)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    with limit_progress_bars():
        model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    # indentation would more than double a file that every job with the model reads
    tokenizer.backend_tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    for file in find_model_files(directory):
        file.chmod(0o644)  # weights are written for their owner only, but machines are shared


@contextmanager
def _cache_gguf_reader() -> Iterator[None]:
    """Let transformers read a file once for tokenizer, config and weights together.

    Otherwise it reads the file once for each, which takes 20 s for a vocabulary of 262,144 tokens.
    """
    import gguf

    # the functions of the library find the class in this dict
    names = vars(gguf)
    reader = names["GGUFReader"]
    names["GGUFReader"] = functools.cache(reader)
    try:
        yield
    finally:
        names["GGUFReader"] = reader


def _check_shards(directory: Path) -> None:
    """Check that the index and the weight files name the same tensors."""
    shards: defaultdict[str, set[str]] = defaultdict(set)
    weight_map = _read_json_object(directory / _INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UnusableModel(f"{_INDEX}: weight_map is missing")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise UnusableModel(f"{_INDEX}: {tensor} is in {shard!r}, which is not a file")
        shards[shard].add(tensor)
    present_files = {file.name for file in find_model_files(directory)}
    if missing_files := sorted(shards.keys() - present_files):
        raise UnusableModel(f"{_INDEX}: the files {', '.join(missing_files)} are missing")
    for shard, tensors in shards.items():
        stored_tensors = read_weight_shapes(directory / shard).keys()
        if missing_tensors := sorted(tensors - stored_tensors):
            raise UnusableModel(f"{shard}: {missing_tensors[0]} is missing, which {_INDEX} lists")
        if extra_tensors := sorted(stored_tensors - tensors):
            raise UnusableModel(f"{shard}: {extra_tensors[0]} is not listed by {_INDEX}")


def _check_self_contained(directory: Path, config: dict[str, Any]) -> None:
    """Check that the weights are complete and need no code from elsewhere."""
    if (directory / ADAPTER_CONFIG).exists():
        raise UnusableModel(
            f"{ADAPTER_CONFIG}: the model is an adapter of another; name that model as the "
            "source, and this one as adapter"
        )
    # models with several parts have a configuration for each
    parts = [part for part in config.values() if isinstance(part, dict)]
    method = next(filter(None, map(_find_method, (*parts, config))), None)
    # transformers ignores unknown methods, and downloads code for others
    if method not in {None, *_QUANTIZERS} or any(map(_find_method, parts)):
        raise UnusableModel(
            f"{MODEL_CONFIG}: quantization_config: {method} may need foreign code; save the "
            f"weights dequantised, or quantised by {' or '.join(_QUANTIZERS)}"
        )
    if method is not None:
        check_packages(method)
        if (directory / ADAPTERS_FILE).exists():
            raise UnusableModel(
                f"{MODEL_CONFIG}: quantised weights take no adapter; name the weights without "
                "quantization"
            )


def find_quantizer(directory: Path) -> str | None:
    """Return the name of `_QUANTIZERS` that quantised the weights of a model; None without any.

    Raises:
        UnusableModel: the configuration of the model is missing or damaged.
    """
    return _find_method(_read_json_object(directory / MODEL_CONFIG))


def _find_method(config: dict[str, Any]) -> str | None:
    """Return the method of a configuration's quantised weights; None without any."""
    settings = config.get("quantization_config")
    if settings is None:
        return None
    return str(settings.get("quant_method")) if isinstance(settings, dict) else str(settings)


def _check_layers(config: Any, sizes: WeightSizes) -> None:
    """Check that no part of a configuration names more layers than there are tensors.

    Some configuration classes create a list with this many entries before any network is built, so
    the check must come first.
    """
    items = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in items:
        if isinstance(value, dict | list):
            _check_layers(value, sizes)
        # index of the first layer with local attention, which may exceed the number of layers
        elif key == "max_window_layers":
            continue
        elif isinstance(value, int) and _LAYER_COUNT_KEY.search(str(key)) and value > sizes.tensors:
            raise UnusableModel(
                f"{MODEL_CONFIG}: {key} is {value}, but the weights have {sizes.tensors} tensors"
            )


def has_chat_template(directory: Path) -> bool:
    """Return whether the files of a tokenizer contain a chat template.

    Raises:
        UnusableModel: the settings of the tokenizer are not a JSON object.
    """
    settings = directory / TEMPLATE_FILES[1]
    return (directory / TEMPLATE_FILES[0]).is_file() or bool(
        settings.is_file() and _read_json_object(settings).get("chat_template")
    )


def _read_json_object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnusableModel(f"{file.name}: the file is missing") from error
    except (ValueError, OSError) as error:
        raise UnusableModel(f"{file.name}: not JSON: {error}") from error
    except RecursionError as error:
        raise UnusableModel(f"{file.name}: nested too deeply") from error
    if not isinstance(value, dict):
        raise UnusableModel(f"{file.name}: not a JSON object")
    return value
