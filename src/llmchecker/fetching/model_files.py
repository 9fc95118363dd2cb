"""The files of a model directory: which they are, whether they load, and GGUF to safetensors.

torch and transformers are imported inside `convert_gguf`: checking files must not cost seconds.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open

from llmchecker.errors import UnusableModel

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

_NO_WEIGHTS = (
    f"there is neither {WEIGHTS} nor {INDEX}; only safetensors are read, as other weight files can "
    "run code when they are loaded"
)


def model_files(directory: Path) -> list[Path]:
    """The files of `directory` that a model directory may hold, by name."""
    return sorted(
        file for pattern in MODEL_FILES for file in directory.glob(pattern) if file.is_file()
    )


def check_loadable(directory: Path) -> None:
    """Check that a model can be loaded from `directory` without running code from it.

    Reads the headers of the weights, which give away a truncated file, and not the weights. The
    messages name files; the caller knows what model they belong to.

    Raises:
        UnusableModel: no config.json, no tokenizer, no safetensors weights; a file that is
            truncated or damaged; an index that names a file or tensor that is not there.
    """
    if "model_type" not in _json_object(directory / MODEL_CONFIG):
        raise UnusableModel(f"{MODEL_CONFIG} has no model_type, so it describes no model")
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise UnusableModel(f"there is no tokenizer; one of {', '.join(TOKENIZER_FILES)}")
    if (directory / WEIGHTS).is_file():
        _tensor_names(directory / WEIGHTS)
    elif (directory / INDEX).is_file():
        _check_shards(directory)
    else:
        raise UnusableModel(_NO_WEIGHTS)


def convert_gguf(gguf_file: Path, directory: Path) -> None:
    """Write the model in `gguf_file` to `directory`: float32 safetensors, config, tokenizer.

    Takes a minute for some 200 million parameters, which is why it happens once.

    Raises:
        UnusableModel: truncated, without a tokenizer or some weights, or of an architecture that
            transformers cannot read; a package that reading needs is missing.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with _gguf_read_once():
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
        shards[shard].add(tensor)
    present = {file.name for file in model_files(directory)}
    if missing := sorted(set(map(str, shards)) - present):
        raise UnusableModel(f"{INDEX} names files that are not there: {', '.join(missing)}")
    for shard, tensors in shards.items():
        if lost := sorted(tensors - _tensor_names(directory / shard)):
            raise UnusableModel(f"{shard} lacks {lost[0]}, which {INDEX} says it has")


def _tensor_names(file: Path) -> set[str]:
    try:
        with safe_open(file, framework="numpy") as tensors:
            return set(tensors.keys())
    except (SafetensorError, OSError) as error:
        raise UnusableModel(f"{file.name} is truncated or damaged: {error}") from error


def _json_object(file: Path) -> dict:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnusableModel(f"there is no {file.name}") from error
    except ValueError as error:
        raise UnusableModel(f"{file.name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UnusableModel(f"{file.name} holds no JSON object")
    return value
