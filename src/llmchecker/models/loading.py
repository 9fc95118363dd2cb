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

from llmchecker.errors import UnusableModel
from llmchecker.fetching.checksums import checked_checksums
from llmchecker.fetching.model_files import check_loadable, weight_files
from llmchecker.fetching.sizes import built_within, sizes_of
from llmchecker.models.batches import Batches
from llmchecker.models.causal import CausalModel
from llmchecker.models.checks import (
    require_causal,
    require_masked,
    require_vocabulary,
    require_whole,
)
from llmchecker.models.masked import MaskedModel
from llmchecker.models.measuring import suited

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
        ChecksumMismatch: a file is not the one that was fetched.
        UnusableModel: the directory holds no model of that kind that transformers can load, or its
            weights are not all that the model has, or its tokenizer is that of another.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    directory = Path(directory)
    files = checked_checksums(directory)
    auto_class = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}[kind]
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
        raise UnusableModel(f"{directory} does not load as a {kind} model: {error}") from error
    network = network.to(device)
    model = wrap_model(network, tokenizer, kind, directory.name, threads, memory_bytes)
    model.files = files
    return model


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
