"""Loading of transformers models from directories, and wrapping of loaded models."""

from pathlib import Path
from typing import Any, Literal, cast

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from llmchecker.errors import ConfigError, MachineLimit, MissingTool, UnusableModel
from llmchecker.models.decoding.logits_processor import parse_generation_config
from llmchecker.models.decoding.settings import (
    AS_PUBLISHED,
    Decoding,
    DecodingChoice,
    parse_end_tokens,
)
from llmchecker.models.device import is_processor
from llmchecker.models.interface import LanguageModel
from llmchecker.models.sources.checksums import load_checked
from llmchecker.models.sources.model_directory import check_loadable, find_weight_files
from llmchecker.models.sources.weight_notes import describe_weights
from llmchecker.models.sources.weight_sizes import limit_network_size, read_weight_sizes
from llmchecker.models.transformers.adapters import add_adapters
from llmchecker.models.transformers.batch_invariance import select_evaluator
from llmchecker.models.transformers.batching import BatchExecutor
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.checkpoint_checks import (
    check_causal,
    check_masked,
    check_vocabulary,
    check_weights,
)
from llmchecker.models.transformers.masked import MaskedModel
from llmchecker.models.transformers.tokenizer import format_loading_error
from llmchecker.utils.memory_errors import is_out_of_memory

_ModelKind = Literal["causal", "masked"]
"""Kind of a model: logits of the next token after the text, or at an appended mask."""

_DEFAULT_MEMORY_BYTES = 2 * 1024**3
"""Default limit in bytes for the continuations of one prompt, in addition to the model."""

_AutoClass = (
    type[AutoModelForCausalLM]
    | type[AutoModelForMaskedLM]
    | type[AutoModelForSequenceClassification]
)
"""A class of transformers that selects the class of a network."""


def load_model(
    directory: str | Path,
    kind: _ModelKind = "causal",
    dtype: str = "float32",
    device: str = "cpu",
    threads: int = 1,
    memory_bytes: int = _DEFAULT_MEMORY_BYTES,
) -> CausalModel | MaskedModel:
    """Load a local model directory, without code or pickles.

    Args:
        directory: path of a directory with config, safetensors weights and tokenizer.
        kind: `causal` predicts after the text; `masked` at a mask appended to it.
        dtype: torch name of the weights' dtype, such as `float32` or `bfloat16`.
        device: torch device, such as `cpu` or `cuda:0`.
        threads: number of batches that a CPU computes at once, one on each thread.
        memory_bytes: limit in bytes for one prompt's continuations, in addition to the model:
            batches, and the keys and values of a causal model. No answer depends on it. An
            accelerator with a known free memory has no other limit.

    Raises:
        MachineLimit: the machine does not have the device.
        ChecksumMismatch: a file differs from the fetched one.
        UnusableModel: the directory does not load as a model of that kind, the files lack weights,
            or the tokenizer belongs to another model.
    """
    _check_device(device)
    directory = Path(directory)
    auto_class: _AutoClass = AutoModelForCausalLM if kind == "causal" else AutoModelForMaskedLM
    network, tokenizer, files = read_network(
        directory, auto_class, dtype, f"a {kind} model", device
    )
    model = wrap_model(network, tokenizer, kind, directory.name, threads, memory_bytes)
    model.files = files
    model.weight_note = describe_weights(directory, model.dtype, lambda: files)
    return model


def _check_device(device: str) -> None:
    torch_device = torch.device(device)
    device_counters = {"cuda": torch.cuda.device_count, "mps": torch.mps.device_count}
    # devices of other types are not counted: loading reports their absence
    device_count = (
        device_counters[torch_device.type]() if torch_device.type in device_counters else 1
    )
    if (torch_device.index or 0) >= device_count:
        reason = (
            f"has {device_count} such devices"
            if device_count
            else "or its torch has no such device"
        )
        raise MachineLimit(
            f"device {device}: this machine {reason}; set the device to cpu, or install "
            "torch for this device"
        )


def read_network(
    directory: Path, auto_class: _AutoClass, dtype: str, description: str, device: str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, str]]:
    """Read the network and tokenizer of a model directory, without code or pickles.

    Args:
        directory: path of a directory with config, safetensors weights and tokenizer.
        auto_class: the transformers class that selects the network's class.
        dtype: torch name of the weights' dtype.
        description: the expected kind of network, for messages.
        device: torch device of the network.

    Returns:
        The network, the tokenizer, and the sha256 of every file by name.

    Raises:
        ChecksumMismatch: a file differs from the fetched one.
        UnusableModel: transformers cannot load the files, or they lack weights.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    (network, tokenizer), files = load_checked(
        directory, lambda: _load_network(directory, auto_class, dtype, description, device)
    )
    return network, tokenizer, files


def _load_network(
    directory: Path, auto_class: _AutoClass, dtype: str, description: str, device: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    load_options = {"local_files_only": True, "trust_remote_code": False}
    # weights go from the file to an accelerator, without a copy in the machine's memory
    device_map = None if is_processor(device) else {"": device}
    try:
        check_loadable(directory)
        tokenizer = AutoTokenizer.from_pretrained(directory, **load_options)
        with limit_network_size(read_weight_sizes(find_weight_files(directory))):
            loaded = auto_class.from_pretrained(
                directory,
                dtype=getattr(torch, dtype),
                device_map=device_map,
                use_safetensors=True,
                output_loading_info=True,
                # otherwise transformers raises an error that does not name the tensors
                ignore_mismatched_sizes=True,
                # config.json may name kernels, which a hub delivers as code; with None and a
                # configuration that is read before, transformers uses its own implementation
                config=AutoConfig.from_pretrained(directory, **load_options),
                attn_implementation=None,
                experts_implementation=None,
                **load_options,
            )
        # the annotation of transformers leaves the second value out
        network, loading_info = cast(tuple[PreTrainedModel, dict[str, Any]], loaded)
        check_weights(network, loading_info)
        network = add_adapters(network, directory)
        if device_map is None:
            # transformers leaves weights in the mapped file, whose later change would change them
            for tensor in (*network.parameters(), *network.buffers()):
                tensor.data = tensor.data.clone()
    except MissingTool:
        raise
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        if is_out_of_memory(error):
            raise
        reason = format_loading_error(error)
        raise UnusableModel(f"{directory}: does not load as {description}: {reason}") from error
    return network, tokenizer


def wrap_model(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    kind: _ModelKind = "causal",
    name: str = "",
    threads: int = 1,
    memory_bytes: int = _DEFAULT_MEMORY_BYTES,
) -> CausalModel | MaskedModel:
    """Wrap a loaded transformers model and its tokenizer, on their device.

    The network is set to evaluation mode, because dropout would make every answer random.

    Args:
        kind, threads, memory_bytes: as in `load_model`.
        name: name of the model in trees and messages; by default that of the network's directory or
            repository, or else its class.

    Raises:
        UnusableModel: the network is of another kind, the tokenizer belongs to another network, or
            `select_evaluator` finds no evaluation that works.
        InvalidDistribution: the network's logits are not finite.
    """
    name = name or getattr(network, "name_or_path", "") or type(network).__name__
    network = network.eval()
    try:
        check_vocabulary(network, tokenizer)
        if kind == "causal":
            check_causal(network)
        else:
            check_masked(network, tokenizer)
    except UnusableModel as error:
        raise UnusableModel(f"{name}: not a usable {kind} model: {error}") from error
    wrapper: type[CausalModel] | type[MaskedModel] = (
        CausalModel if kind == "causal" else MaskedModel
    )
    devices = {parameter.device for parameter in network.parameters()}
    # a part of a network that is on several devices may be on a processor
    accelerators = sorted(str(device) for device in devices if not is_processor(device))
    batches = BatchExecutor(threads, accelerators[0] if accelerators else str(network.device))
    return select_evaluator(wrapper(name, network, tokenizer, batches, memory_bytes))


def apply_decoding(model: LanguageModel, decoding: DecodingChoice) -> LanguageModel:
    """Return the model with other decoding settings; both share the network.

    Raises:
        ConfigError: the model is not a causal transformers model, or lacks tokens of the decoding,
            or its own settings are not supported.
    """
    if not isinstance(model, CausalModel):
        # nothing to change
        if decoding is None:
            return model
        raise ConfigError(
            f"decoding: {model.name} is not a local causal model; only such models have a decoding"
        )
    if decoding == AS_PUBLISHED:
        config = model.network.generation_config
        try:
            published = parse_generation_config(config)
        except ConfigError as error:
            raise ConfigError(f"decoding: {AS_PUBLISHED}: {model.name}: {error}") from error
        # `generate` knows no tokenizer, and without an end token it never ends a text
        end_tokens = parse_end_tokens(config.eos_token_id) or frozenset()
        return model.with_decoding(published, end_tokens)
    # None removes the decoding of an earlier call
    return model.with_decoding(Decoding() if decoding is None else decoding)


def describe_decoding(model: object) -> str:
    """Describe the decoding of a local causal model in words; empty without one."""
    decoder = model.decoder if isinstance(model, CausalModel) else None
    return "" if decoder is None else str(decoder.decoding)
