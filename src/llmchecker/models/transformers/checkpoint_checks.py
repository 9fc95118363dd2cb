"""Checks that a network matches its files, its tokenizer and its kind.

If a checkpoint lacks weights, transformers fills them with random numbers and reports this only in
a log. The answers of such a network are random without any visible sign. These checks reject it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llmchecker.errors import UnusableModel
from llmchecker.models.transformers.base import count_input_tokens
from llmchecker.utils.memory_errors import is_out_of_memory

_MAX_NAMES = 5
"""Largest number of tensors in a message."""


def check_weights(network: PreTrainedModel, loading_info: Mapping[str, Any]) -> None:
    """Check that the files contain all weights of the network and no others.

    Tied weights may be absent from the files. transformers declares which weights of an
    architecture a checkpoint may lack or have in addition, such as rotary frequencies;
    `loading_info` omits these. The files may also contain the other heads of the architecture's
    training, such as the pooler of BERT. No masked or causal model computes with them.

    Args:
        network: the loaded network.
        loading_info: the report that `from_pretrained` returns with `output_loading_info`.

    Raises:
        UnusableModel: weights are missing, unexpected or of another shape; the message has the
            first names.
    """
    missing_names = sorted(loading_info["missing_keys"])
    mismatches = sorted(loading_info["mismatched_keys"])
    unexpected_names = set(loading_info["unexpected_keys"])
    # most checkpoints have no further weights: build the other classes only if needed
    if unexpected_names:
        unexpected_names -= _collect_pretraining_weights(network)
    problems = []
    if missing_names:
        problems.append(
            f"lack {len(missing_names)} of its tensors ({_format_first_names(missing_names)})"
        )
    if unexpected_names:
        names = _format_first_names(sorted(unexpected_names))
        problems.append(f"hold {len(unexpected_names)} tensors that it does not have ({names})")
    if mismatches:
        shapes = [
            f"{name} is {tuple(file_shape)}, not {tuple(network_shape)}"
            for name, file_shape, network_shape in mismatches
        ]
        problems.append(f"hold {len(mismatches)} of another shape ({_format_first_names(shapes)})")
    if problems:
        raise UnusableModel(
            f"weights: unlike the {type(network).__name__} of config.json they "
            f"{', and they '.join(problems)}"
        )


def check_vocabulary(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the network has every token that the tokenizer can produce.

    Networks often have more tokens than the tokenizer, because their tables are padded to round
    sizes. The network may lack special tokens that no text contains, such as a padding token.

    Raises:
        UnusableModel: the tokenizer produces a token that the network does not have.
    """
    tokens = count_input_tokens(network)
    special_tokens = set(tokenizer.all_special_ids)
    text_tokens = {token for token in tokenizer.get_vocab().values() if token not in special_tokens}
    # special tokens that every text contains are needed too
    text_tokens.update(tokenizer("", verbose=False)["input_ids"])
    if text_tokens and max(text_tokens) >= tokens:
        excess_count = sum(token >= tokens for token in text_tokens)
        text = tokenizer.convert_ids_to_tokens(max(text_tokens))
        raise UnusableModel(
            f"tokenizer: {excess_count} more tokens than the network's {tokens}, up to "
            f"{text!r} with the id {max(text_tokens)}; use the model's own tokenizer"
        )


def check_causal(network: PreTrainedModel) -> None:
    """Check that the network's output at a token does not depend on later tokens.

    Raises:
        UnusableModel: the output depends on later tokens, so the network was trained to fill masks.
    """
    # a mixture of experts computes a text's tokens together, which may change the rounding
    tolerance = max(1e-4, 4 * torch.finfo(network.dtype).eps)
    if _measure_lookahead(network) > tolerance:
        raise UnusableModel(
            f"{type(network).__name__}: it reads later tokens, so it predicts no next "
            "token; use kind masked if it fills in masks"
        )


def check_masked(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the network can fill a mask, and that the tokenizer has a mask token.

    Raises:
        UnusableModel: the tokenizer has no mask or separator token, or the network does not read
            later tokens.
    """
    for name, purpose in (("mask_token", "to be filled in"), ("sep_token", "to close a text")):
        token = getattr(tokenizer, f"{name}_id")
        if token is None:
            raise UnusableModel(
                f"tokenizer: no {name} {purpose}, which a masked model needs; use kind causal "
                "if the model predicts the next token"
            )
        if token >= count_input_tokens(network):
            raise UnusableModel(
                f"{name}: the network lacks the tokenizer's token {token}; use the model's own "
                "tokenizer"
            )
    # a causal network computes exactly the same bits whatever follows
    if _measure_lookahead(network) == 0:
        raise UnusableModel(
            f"{type(network).__name__}: it reads no later tokens, so it fills in no mask; "
            "use kind causal if it predicts the next token"
        )


def _measure_lookahead(network: PreTrainedModel) -> float:
    """Return the relative change of a first token's logits if the second changes.

    This is measured, because neither class nor configuration contains it for every architecture. It
    is NaN if the logits are; the construction of distributions rejects those later.

    Raises:
        UnusableModel: the network cannot read two tokens.
    """
    tokens = count_input_tokens(network)
    # token ids spread over the vocabulary
    first_token, *second_tokens = (tokens * share // 8 for share in (1, 3, 5, 7))
    try:
        # texts one by one and of one shape, so that all have the same rounding
        with torch.inference_mode():
            reference, *logits_list = (
                network(
                    input_ids=torch.tensor([[first_token, second_token]], device=network.device)
                )
                .logits[0, 0]
                .float()
                for second_token in second_tokens
            )
    except Exception as error:  # architectures raise any class of error for unsuitable input
        if is_out_of_memory(error):
            raise
        raise UnusableModel(f"{type(network).__name__}: it does not read texts: {error}") from error
    return max(float((logits - reference).norm() / reference.norm()) for logits in logits_list)


def _format_first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")


def _collect_pretraining_weights(network: PreTrainedModel) -> set[str]:
    """Return the names of the weights of the architecture's pretraining classes.

    The networks of these classes are built without memory for their weights, and only if a
    checkpoint contains more than its network.
    """
    names: set[str] = set()
    for auto_class, has_prefix in ((AutoModelForPreTraining, False), (AutoModel, True)):
        try:
            with torch.device("meta"):
                model = auto_class.from_config(network.config)  # type: ignore[no-untyped-call]
        except Exception:
            # not every architecture has every class
            continue
        prefix = f"{model.base_model_prefix}." if has_prefix else ""
        names.update(prefix + name for name in model.state_dict())
    return names
