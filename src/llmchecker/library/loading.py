"""Loading a caller's language model: from a directory, or as transformers has loaded it already."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.deployed.decoding import Decoding, read_decoding
from llmchecker.errors import ConfigError, UnusableModel
from llmchecker.loading.models import decoded, load_model, wrap_model
from llmchecker.models.protocols import LanguageModel

ModelHead = Literal["causal", "masked"]

_CAUSAL = ("ForCausalLM", "LMHeadModel")
_MASKED = ("ForMaskedLM",)
"""How transformers ends the names of classes that predict a masked token."""


def load(
    source: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    kind: ModelHead | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
) -> LanguageModel:
    """Return the language model in a directory, or one that transformers has loaded already.

    A loaded network and its tokenizer are used as they are and not changed: the network stays on
    its device and keeps its dtype and its mode.

    Args:
        source: a directory with config, safetensors weights and tokenizer, or a network of
            transformers with a head that predicts tokens.
        tokenizer: the tokenizer of the network; none for a directory.
        kind: whether the next token is read after the text (`causal`) or at a mask appended to it
            (`masked`); by default the network's class decides.
        dtype: the dtype of the weights, by default `float32`; only for a directory.
        device: the device of torch, by default `cpu`; only for a directory.
        threads: the number of threads that compute on a CPU; by default all that this process may
            use.
        memory_gb: the memory that growing a tree may use beside the model. No answer depends on it.
        decoding: how next tokens are chosen: settings by the names that `generate` of transformers
            gives them, `greedy`, or `as_published` for those of the model's generation_config.json.
            By default they are drawn at temperature 1 from all tokens.

    Raises:
        UnusableModel: the directory holds no model that can be loaded, or the network cannot be
            asked for the next token.
        ConfigError: the arguments do not go together.
    """
    threads = _cores() if threads is None else threads
    if threads < 1 or not memory_gb > 0:
        raise ConfigError(f"threads={threads!r}, memory_gb={memory_gb!r}: both must be above 0")
    memory_bytes = int(memory_gb * 1024**3)
    asked = None if decoding is None else read_decoding(decoding)
    if isinstance(source, str | Path):
        if tokenizer is not None:
            raise ConfigError(f"the tokenizer is read from {source}; leave it out")
        directory = _directory(source)
        kind = kind or _kind_of_directory(directory)
        settings = dtype or "float32", device or "cpu", threads, memory_bytes
        return decoded(load_model(directory, kind, *settings), asked)
    _check_network(source, tokenizer)
    if dtype is not None or device is not None:
        raise ConfigError(
            "a network that is loaded keeps its own dtype and device: convert or move it with "
            "network.to(…) and leave dtype and device out"
        )
    kind = kind or _kind_of_network(source)
    model = wrap_model(source, tokenizer, kind, threads=threads, memory_bytes=memory_bytes)
    return decoded(model, asked)


def _cores() -> int:
    """The number of cores that this process may use; all cores if the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _directory(source: str | Path) -> Path:
    directory = Path(source)
    if not directory.is_dir():
        raise UnusableModel(
            f"there is no directory {str(source)!r}. A model of the hub is loaded by transformers "
            "and given with its tokenizer: load(network, tokenizer)"
        )
    return directory


def _kind_of_directory(directory: Path) -> ModelHead:
    """The kind of the class that config.json names; causal if it names none."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        classes = [str(name) for name in config["architectures"]]
    except (OSError, ValueError, LookupError, TypeError):
        return "causal"  # `load_model` reads the file too and says better what is wrong with it
    return "masked" if any(name.endswith(_MASKED) for name in classes) else "causal"


def _kind_of_network(network: PreTrainedModel) -> ModelHead:
    name = type(network).__name__
    if name.endswith(_MASKED):
        return "masked"
    if name.endswith(_CAUSAL):
        return "causal"
    raise UnusableModel(
        f"{name} has no head that is known to predict the next token or a masked one; load the "
        "network by AutoModelForCausalLM or AutoModelForMaskedLM, or say which by kind="
    )


def _check_network(network: object, tokenizer: object) -> None:
    """Check that the objects are transformers' own, and that the network's answers repeat."""
    if not isinstance(network, PreTrainedModel):
        raise UnusableModel(
            f"a model is a directory or a network of transformers, not a {type(network).__name__}"
        )
    name = type(network).__name__
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        given = "none" if tokenizer is None else f"a {type(tokenizer).__name__}"
        raise UnusableModel(
            f"a {name} needs its tokenizer, as in load(network, tokenizer); given is {given}"
        )
    if network.config.is_encoder_decoder:
        raise UnusableModel(
            f"{name} reads one text and writes another; only models that continue a text can be "
            "asked for its next token"
        )
    if network.training:
        raise UnusableModel(
            f"the {name} is in training mode, in which its answers are random; call network.eval()"
        )
    places = {str(parameter.device) for parameter in network.parameters()}
    if len(places) != 1 or places == {"meta"}:
        raise UnusableModel(
            f"the weights of the {name} lie on {', '.join(sorted(places))}; "
            "they must all lie on one device"
        )
