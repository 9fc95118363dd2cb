"""Loading a transformer from a local directory, or taking one that is loaded already."""

from pathlib import Path
from typing import Literal

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from llmchecker.deployed.decoding import AS_PUBLISHED, Asked, Decoding
from llmchecker.deployed.logits import published_decoding
from llmchecker.errors import ConfigError, MachineLimit, UnusableModel
from llmchecker.fetching.checksums import checked_checksums
from llmchecker.fetching.model_files import check_loadable, weight_files
from llmchecker.fetching.sizes import built_within, sizes_of
from llmchecker.loading.checks import (
    require_causal,
    require_masked,
    require_vocabulary,
    require_whole,
)
from llmchecker.loading.measuring import suited
from llmchecker.models.batches import Batches
from llmchecker.models.causal import CausalModel
from llmchecker.models.masked import MaskedModel
from llmchecker.models.protocols import LanguageModel

ModelKind = Literal["causal", "masked"]
"""Whether the next token is read after the text or at a mask appended to it."""

MEMORY_BYTES = 2 * 1024**3
"""Default limit of what the continuations of one prompt use beside the model."""


def load_model(
    directory: str | Path,
    kind: ModelKind = "causal",
    dtype: str = "float32",
    device: str = "cpu",
    threads: int = 1,
    memory_bytes: int = MEMORY_BYTES,
) -> CausalModel | MaskedModel:
    """Load a local model directory: config, safetensors weights and tokenizer; no code, no pickles.

    Args:
        kind: `causal` predicts after the text; `masked` at a mask appended to it.
        dtype: of the weights, a torch name such as `float32` or `bfloat16`.
        device: a torch device such as `cpu` or `cuda:0`.
        threads: batches of texts that a CPU computes at once, one on each thread.
        memory_bytes: limit of what one prompt's continuations use beside the model: batches, and
            the keys and values that a causal model keeps. No answer depends on either.

    Raises:
        MachineLimit: the machine has no such device.
        ChecksumMismatch: a file is not the one that was fetched.
        UnusableModel: the directory holds no model of that kind that transformers can load, or its
            weights are not all that the model has, or its tokenizer is that of another.
    """
    _demand_device(device)
    directory = Path(directory)
    auto_class = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}[kind]
    network, tokenizer, files = read_network(directory, auto_class, dtype, f"a {kind} model")
    network = network.to(device)
    model = wrap_model(network, tokenizer, kind, directory.name, threads, memory_bytes)
    model.files = files
    return model


def _demand_device(device: str) -> None:
    wanted = torch.device(device)
    counted = {"cuda": torch.cuda.device_count, "mps": torch.mps.device_count}
    there = counted[wanted.type]() if wanted.type in counted else 1
    if (wanted.index or 0) >= there:
        has = f"has {there} such devices" if there else "or its torch has no such device"
        raise MachineLimit(
            f"the model is to run on {device}, and this machine {has}; set its device to cpu, or "
            "install a torch that was built for the device"
        )


def read_network(
    directory: Path, auto_class: type, dtype: str, what: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, str]]:
    """Read network and tokenizer of a model directory, without code or pickles.

    Args:
        directory: with config, safetensors weights and tokenizer.
        auto_class: the class of transformers that chooses the network's own class.
        dtype: of the weights, a torch name.
        what: what the network is asked to be, for messages.

    Returns:
        The network on the CPU, the tokenizer, and the sha256 of every file by name.

    Raises:
        ChecksumMismatch: a file is not the one that was fetched.
        UnusableModel: transformers cannot load it, or its weights are not all that it has.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    files = checked_checksums(directory)
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        check_loadable(directory)
        tokenizer = AutoTokenizer.from_pretrained(directory, **local)
        with built_within(sizes_of(weight_files(directory))):
            network, loading = auto_class.from_pretrained(
                directory,
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                output_loading_info=True,
                # or else transformers refuses, and does not say which
                ignore_mismatched_sizes=True,
                **local,
            )
        require_whole(network, loading)
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        raise UnusableModel(f"{directory} does not load as {what}: {error}") from error
    return network, tokenizer, files


def wrap_model(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    kind: ModelKind = "causal",
    name: str = "",
    threads: int = 1,
    memory_bytes: int = MEMORY_BYTES,
) -> CausalModel | MaskedModel:
    """Take a transformers model and tokenizer that are loaded already, where they are.

    The network is set to evaluation, since dropout would make every answer another one.

    Args:
        kind, threads, memory_bytes: as in `load_model`.
        name: of the model in trees and messages; by default that of the directory or repository
            that the network came from, or else its class.

    Raises:
        UnusableModel: the network is not of that kind, the tokenizer is not that of the network, or
            it gives no next-token distributions, as measured by `suited`.
        InvalidDistribution: the probabilities that it gives are none.
    """
    name = name or getattr(network, "name_or_path", "") or type(network).__name__
    network = network.eval()
    try:
        require_vocabulary(network, tokenizer)
        if kind == "causal":
            require_causal(network)
        else:
            require_masked(network, tokenizer)
    except UnusableModel as error:
        raise UnusableModel(f"{name} is no usable {kind} model: {error}") from error
    wrapper = {"causal": CausalModel, "masked": MaskedModel}[kind]
    batches = Batches(threads, str(network.device))
    return suited(wrapper(name, network, tokenizer, batches, memory_bytes))


def decoded(model: LanguageModel, decoding: Asked) -> LanguageModel:
    """The same model with its next tokens chosen as a decoding says; the network is shared.

    Raises:
        ConfigError: the model is none that transformers' `generate` writes with, the decoding names
            tokens that it does not have, or its own settings are not to be understood.
    """
    if decoding is None and getattr(model, "decoder", None) is None:
        return model
    if not isinstance(model, CausalModel):
        raise ConfigError(
            f"decoding: {model.name} is no causal model of transformers that runs here; only "
            "those are decoded"
        )
    if decoding == AS_PUBLISHED:
        try:
            return model.decoded(published_decoding(model.network.generation_config))
        except ConfigError as error:
            raise ConfigError(f"decoding: {AS_PUBLISHED}: {model.name}: {error}") from error
    return model.decoded(Decoding() if decoding is None else decoding)
