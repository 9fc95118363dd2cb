"""Attention in which all rows of a batch share the keys and values of one prompt.

The rows of a batch continue the same prompt. Copies of its keys and values for every row need
memory and time in proportion to rows times prompt tokens. Here all queries of a batch are compared
with the prompt's keys in one matrix product, as in Hydragen (Juravsky and others, 2024). One
softmax covers the scores of the prompt and of the row's own tokens.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from llmchecker.errors import UnusableModel

_NAME = "llmchecker_shared_prompt"
"""Name of this attention in the configuration of a network."""

_REPLACED = "sdpa"
"""Name of the attention that is replaced, and that reads the prompt itself."""

MIN_SHARED_TOKENS = 256
"""Smallest number of tokens of a prompt that rows share on a processor.

Texts after a shorter prompt have the bits of copied keys and values.
"""

MIN_SHARED_ACCELERATOR_TOKENS = 32
"""Smallest number of tokens of a prompt that rows share on an accelerator."""

SCORE_BYTES = 16
"""Memory of a score of a token, with copies of other dtypes."""

_NEUTRAL_SETTINGS = frozenset({"sliding_window", "position_ids", "cache_position", "use_cache"})
"""Settings that change nothing here: the mask contains a sliding window."""

_SharedPrompt = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of a prompt in each layer, (1, tokens, heads, width) each."""

_state = threading.local()


def use_prompt_attention(network: PreTrainedModel) -> bool:
    """Replace a network's attention; return whether this is possible.

    Without `share_prompt`, the replacement computes the same as before.
    """
    # a network that is wrapped again has the replacement already
    if network.config.get_text_config()._attn_implementation not in (_REPLACED, _NAME):
        return False
    AttentionInterface.register(_NAME, _compute_attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    network.set_attn_implementation(_NAME)
    return True


def restore_attention(network: PreTrainedModel) -> None:
    """Undo `use_prompt_attention`."""
    network.set_attn_implementation(_REPLACED)


@contextmanager
def share_prompt(prompt: _SharedPrompt | None) -> Iterator[None]:
    """Let networks in this thread attend to a prompt that their cache does not contain.

    Args:
        prompt: keys and values of the prompt; None if the cache contains them.

    Raises:
        UnusableModel: the network did not read the prompt, so its logits are wrong.
    """
    _state.prompt, _state.is_read = prompt, False
    try:
        yield
    finally:
        _state.prompt = None
    # another attention would attend to the row's own tokens only
    if prompt is not None and not _state.is_read:
        raise UnusableModel(
            "attention: the network's implementation was changed after loading; load it again"
        )


def _compute_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Compute the attention of a layer, in the interface of transformers.

    Raises:
        NotImplementedError: the layer needs more than a mask, such as a cap of the scores.
    """
    prompt: _SharedPrompt | None = getattr(_state, "prompt", None)
    if prompt is None:
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **settings
        )
        return output
    used_settings = {
        name for name, setting in settings.items() if setting is not None and setting is not False
    }
    if used_settings - _NEUTRAL_SETTINGS or query.shape[2] != 1:
        raise NotImplementedError(f"attention: no shared prompt with {sorted(used_settings)}")
    _state.is_read = True
    layer: Any = module
    prompt_keys, prompt_values = (tensor[0].transpose(0, 1) for tensor in prompt[layer.layer_idx])
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output_rows = _attend(
        query[:, :, 0] * scale, prompt_keys, prompt_values, key, value, attention_mask
    )
    # (rows, tokens, heads, width), with the single token that was read
    return output_rows[:, None], None


def _attend(
    query: Tensor,
    prompt_keys: Tensor,
    prompt_values: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """Return the attention of each row's last token to the prompt and to the row's own tokens.

    Args:
        query: (rows, heads, width), scaled.
        prompt_keys, prompt_values: (groups, prompt tokens, width). Each group of heads has keys
            and values in common.
        keys, values: (rows, groups, own tokens, width).
        mask: None, or (rows or 1, heads or 1, 1, all tokens): numbers that are added to the scores,
            or whether a token is attended to.

    Returns:
        (rows, heads, width of values).
    """
    rows, heads, width = query.shape
    groups, prompt_tokens, _ = prompt_keys.shape
    # (groups, rows * heads of the group, width): one product for all rows
    shared_query = query.view(rows, groups, -1, width).transpose(0, 1).reshape(groups, -1, width)
    prompt_scores = shared_query @ prompt_keys.transpose(1, 2)
    own_scores = query.view(rows, groups, -1, width) @ keys.transpose(2, 3)
    scores = torch.cat(
        [prompt_scores, own_scores.transpose(0, 1).reshape(groups, -1, keys.shape[2])], dim=2
    )
    if mask is not None:
        scores = _mask_scores(scores, mask, rows, heads)
    weights = torch.softmax(scores, dim=2, dtype=torch.float32).to(query.dtype)
    prompt_output = weights[:, :, :prompt_tokens] @ prompt_values
    own_weights = weights[:, :, prompt_tokens:].view(groups, rows, -1, keys.shape[2])
    own_output = own_weights.transpose(0, 1) @ values
    output = prompt_output.view(groups, rows, -1, values.shape[3]).transpose(0, 1) + own_output
    return output.reshape(rows, heads, -1)


def _mask_scores(scores: Tensor, mask: Tensor, rows: int, heads: int) -> Tensor:
    """Apply a mask to scores, (groups, rows * heads of the group, tokens)."""
    groups, _, tokens = scores.shape
    row_mask = mask.expand(rows, heads, 1, tokens).reshape(rows, groups, -1, tokens)
    group_mask = row_mask.transpose(0, 1).reshape(scores.shape)
    if mask.dtype == torch.bool:
        return scores.masked_fill(~group_mask, -torch.inf)
    return scores + group_mask
