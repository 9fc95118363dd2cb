"""A tiny random network of every architecture that transformers has for causal or masked models."""

import torch
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

MAPPINGS = {"causal": MODEL_FOR_CAUSAL_LM_MAPPING, "masked": MODEL_FOR_MASKED_LM_MAPPING}
# reading the names from the mappings would import all configurations, which takes seconds
NAMES = {
    "causal": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": MODEL_FOR_MASKED_LM_MAPPING_NAMES,
}

SMALL = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "embed_dim": 32,
    "emb_dim": 32,
    "embedding_size": 32,
    "dim": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "ffn_dim": 48,
    "d_ff": 48,
    "decoder_ffn_dim": 48,
    "encoder_ffn_dim": 48,
    "n_inner": 48,
    "num_hidden_layers": 2,
    "block_sizes": [2],
    "num_self_attends_per_block": 2,
    "num_latents": 8,
    "d_latents": 32,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "head_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "max_seq_len": 64,
    "sliding_window": 4,
    "attention_chunk_size": 4,
    "attention_window": [4, 4],
    "entity_vocab_size": 10,
    "entity_emb_size": 8,
    "state_size": 8,
    "mamba_d_state": 8,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
"""Fields of configurations that make a network small, where a configuration has them."""

LAYERS = {"recurrent_gemma": 3, "jamba": 5}
"""Layers of architectures whose first layer with attention is not among the first two."""

TOO_SLOW = frozenset(["falcon_h1", "nemotron_h"])
"""Architectures whose network keeps many layers whatever sizes it is given."""

MOST_PARAMETERS = 50_000_000
"""Parameters of a network, at most, that is still one of a small configuration."""


def architectures(kind: str) -> list[str]:
    """The names of all configurations that have a head of a kind, in alphabetical order."""
    return sorted(NAMES[kind])


def tiny_network(kind: str, name: str, vocabulary: int, seed: int = 0) -> PreTrainedModel:
    """A random network of an architecture with few layers of 32 numbers.

    Raises whatever transformers raises for a configuration that it cannot build so small, and
    ValueError for one that stays large.
    """
    mapping = MAPPINGS[kind]
    if name in TOO_SLOW:
        raise ValueError("it takes minutes even with these sizes")
    config_class = CONFIG_MAPPING[name]
    network_class = mapping[config_class]
    if isinstance(network_class, tuple):
        network_class = network_class[0]
    config = tiny_config(config_class, vocabulary)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in network_class(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"it has {size:,} parameters with these sizes")
    torch.manual_seed(seed)
    network = network_class(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            # the default initialisation makes all next tokens about equally likely
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return network


def tiny_config(config_class: type[PreTrainedConfig], vocabulary: int) -> PreTrainedConfig:
    """The default configuration of a class with small sizes, in parts of it too."""
    usual = config_class()
    tokens = {"vocab_size": vocabulary, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    layers = {"num_hidden_layers": LAYERS.get(config_class.model_type, 2)}
    known = usual.to_dict()
    settings = {
        name: value
        for name, value in (SMALL | layers | tokens).items()
        if known.get(name) is not None or name in tokens
    }
    for name, part in config_class.sub_configs.items():
        if isinstance(getattr(usual, name, None), PreTrainedConfig) and isinstance(part, type):
            settings[name] = tiny_config(type(getattr(usual, name)), vocabulary).to_dict()
    return config_class(**settings)
