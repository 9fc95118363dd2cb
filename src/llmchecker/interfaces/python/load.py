"""Loading of language models, from a directory or a transformers network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llmchecker.config.deployment import is_address, is_provider_name, resolve_deployment
from llmchecker.config.opening import open_text_model
from llmchecker.config.registry import Registry
from llmchecker.config.text_models import check_prices
from llmchecker.errors import ConfigError, UnusableModel
from llmchecker.models.decoding.settings import Decoding, parse_decoding
from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.spending import Spending
from llmchecker.models.text_answer import TextModel
from llmchecker.models.transformers.load import apply_decoding, load_model, wrap_model
from llmchecker.utils.atomic_files import describe_kind
from llmchecker.utils.processes import count_cores

_ModelKind = Literal["causal", "masked"]

_CAUSAL_SUFFIXES = ("ForCausalLM", "LMHeadModel")
_MASKED_SUFFIXES = ("ForMaskedLM",)
"""Suffixes of the names of transformers classes that predict a masked token."""


# the type of a text does not show whether it names a provider
@overload
def load(  # type: ignore[overload-overlap]
    source: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    kind: _ModelKind | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
) -> LanguageModel: ...


@overload
def load(
    source: str,
    *,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    **provider: Any,
) -> TextModel: ...


def load(
    source: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    kind: _ModelKind | None = None,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    memory_gb: float = 2.0,
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    **provider: Any,
) -> LanguageModel | TextModel:
    """Load a model from a directory, wrap a loaded network, or name a model of a provider.

    A loaded network and its tokenizer are not changed: the network keeps its device, dtype and
    mode.

    Args:
        source: a directory with config, safetensors weights and tokenizer, a network of
            transformers with a head that predicts tokens, or for a model that returns texts alone a
            name such as `openai:gpt-4o-mini` or the address of its provider.
        tokenizer: the tokenizer of the network; None for a directory.
        kind: `causal` if the next token follows the text, `masked` if the model predicts it at an
            appended mask; by default it follows from the network's class.
        dtype: the dtype of the weights, by default `float32`; only for a directory.
        device: the device of torch, by default `cpu`; only for a directory.
        threads: number of CPU threads; by default all cores that this process may use.
        memory_gb: memory in GB for the expansion of a tree, in addition to the model. No answer
            depends on it.
        decoding: the choice of next tokens: settings as in `generate` of transformers, `greedy`, or
            `as_published` for the settings of the model's generation_config.json. By default,
            tokens are drawn at temperature 1 from all tokens.
        provider: for texts alone, `api`, `served_as`, `key_from`, `prices`, `requests` and
            `seconds`, as in a configuration, and the limits `tokens` and `dollars` of all that the
            model may cost. Answers are stored in results/texts.

    Raises:
        UnusableModel: the directory contains no usable model, or the network does not predict next
            tokens.
        ConfigError: the arguments contradict each other.
    """
    if isinstance(source, str) and (is_address(source) or is_provider_name(source)):
        loaded_options = (tokenizer, kind, dtype, device, threads)
        if any(option is not None for option in loaded_options):
            raise ConfigError(
                f"load: {source} returns texts alone, without tokenizer, kind, dtype, device and "
                "threads; leave them out"
            )
        return _open_provider(source, decoding, provider)
    if provider:
        raise ConfigError(f"{min(provider)}: {source!r} is no provider; leave it out")
    threads = count_cores() if threads is None else threads
    # `not >` also rejects NaN.
    if threads < 1 or not memory_gb > 0:
        raise ConfigError(
            f"threads={threads!r}, memory_gb={memory_gb!r}: not above 0; use positive numbers"
        )
    memory_bytes = int(memory_gb * 1024**3)
    decoding_choice = None if decoding is None else parse_decoding(decoding)
    if isinstance(source, str | Path):
        # The directory contains its own tokenizer.
        if tokenizer is not None:
            raise ConfigError(f"tokenizer: {source} has its own; leave the argument out")
        directory = _check_directory(source)
        kind = kind or _read_kind(directory)
        settings = dtype or "float32", device or "cpu", threads, memory_bytes
        # a transformer's number of listed tokens is read-only, which the protocol does not demand
        loaded: Any = load_model(directory, kind, *settings)
        return apply_decoding(loaded, decoding_choice)
    tokenizer = _check_network(source, tokenizer)
    # The caller's network is not converted or moved, so these arguments would have no effect.
    if dtype is not None or device is not None:
        raise ConfigError(
            "dtype, device: a loaded network keeps its own; convert or move it with network.to(…)"
        )
    kind = kind or _infer_kind(source)
    wrapped: Any = wrap_model(source, tokenizer, kind, threads=threads, memory_bytes=memory_bytes)
    return apply_decoding(wrapped, decoding_choice)


def _open_provider(
    source: str, decoding: str | Mapping[str, Any] | Decoding | None, provider: Mapping[str, Any]
) -> TextModel:
    """Return a model that returns texts alone; nothing is requested yet."""
    limits = {name: provider.get(name) for name in ("tokens", "dollars")}
    keys = {name: value for name, value in provider.items() if name not in limits}
    if is_address(source) and "api" not in keys:
        raise ConfigError(f"api: missing for {source}; write api='openai-chat' or another one")
    given = decoding.settings if isinstance(decoding, Decoding) else decoding
    model = resolve_deployment(
        "load",
        {"source": source, **keys},
        Registry(),
        decoding={} if decoding is None else {"decoding": given},
    ).model
    if model.has_distributions:
        raise ConfigError(
            f"api: {keys['api']} has probabilities; ask it by the command line or a suite"
        )
    check_prices("dollars", [model], limits["dollars"])
    return open_text_model(model, Spending(limits["tokens"], limits["dollars"]))


def _check_directory(source: str | Path) -> Path:
    directory = Path(source)
    if not directory.is_dir():
        raise UnusableModel(
            f"{str(source)!r}: {describe_kind(directory)}, not a directory; load a hub "
            "model with transformers and call load(network, tokenizer)"
        )
    return directory


def _read_kind(directory: Path) -> _ModelKind:
    """Return the kind of the model class in config.json; causal if absent."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        classes = [str(name) for name in config["architectures"]]
    except (OSError, ValueError, LookupError, TypeError):
        return "causal"  # `load_model` reads the file too and has a better error message
    return "masked" if any(name.endswith(_MASKED_SUFFIXES) for name in classes) else "causal"


def _infer_kind(network: PreTrainedModel) -> _ModelKind:
    name = type(network).__name__
    if name.endswith(_MASKED_SUFFIXES):
        return "masked"
    if name.endswith(_CAUSAL_SUFFIXES):
        return "causal"
    raise UnusableModel(
        f"{name}: no known head for next or masked tokens; load it by "
        "AutoModelForCausalLM or AutoModelForMaskedLM, or give kind="
    )


def _check_network(network: object, tokenizer: object) -> PreTrainedTokenizerBase:
    """Check both objects, and that the network is deterministic; return the tokenizer."""
    if not isinstance(network, PreTrainedModel):
        raise UnusableModel(
            f"model: {type(network).__name__} is neither a directory nor a network; give a "
            "directory or a network of transformers"
        )
    name = type(network).__name__
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        tokenizer_type = "none" if tokenizer is None else f"a {type(tokenizer).__name__}"
        raise UnusableModel(
            f"{name}: it needs its tokenizer, not {tokenizer_type}; call load(network, tokenizer)"
        )
    # An encoder-decoder does not continue its input.
    if network.config.is_encoder_decoder:
        raise UnusableModel(
            f"{name}: it reads one text and writes another; load a model that continues a text"
        )
    # Dropout makes repeated answers differ.
    if network.training:
        raise UnusableModel(f"{name}: training mode makes its answers random; call network.eval()")
    devices = {str(parameter.device) for parameter in network.parameters()}
    # "meta" is the device of weights that were never loaded, or that are offloaded to a disk. With
    # a device map, inputs move to the device of each layer.
    if "meta" in devices or (len(devices) != 1 and not hasattr(network, "hf_device_map")):
        raise UnusableModel(
            f"{name}: its weights are on {', '.join(sorted(devices))}; move all to one device, or "
            "load it with a device_map"
        )
    return tokenizer
