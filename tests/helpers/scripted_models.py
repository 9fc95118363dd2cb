"""Networks whose next tokens follow a chain that is written by hand."""

import math
from collections.abc import Mapping, Sequence

import torch
from helpers.chat_tokenizers import build_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_NEVER = -3000.0
"""A logit whose probability is 0."""


def build_scripted_model(
    chain: Mapping[str, Mapping[str, float]], template: str, special: Sequence[str] = ()
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Build a network of layers that add zero, and its tokenizer.

    Args:
        chain: the probabilities of next tokens after a token; the text ends after all others.
        template: the chat template, whose last token begins the chain.
        special: special tokens; other tokens of the chain are words.
    """
    words = {word: None for token, row in chain.items() for word in (token, *row)}
    added = [word for word in words if word not in (*special, "<|im_end|>")]
    tokenizer = build_tokenizer(template, special, added)
    size = len(tokenizer)
    width = 4 * math.ceil(size / 4)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size,
            hidden_size=width,
            intermediate_size=4,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            tie_word_embeddings=False,
            rms_norm_eps=1e-12,
        )
    )
    weights = torch.full((size, width), _NEVER)
    weights[tokenizer.eos_token_id] = 0.0
    for token, row in chain.items():
        column = tokenizer.convert_tokens_to_ids(token)
        weights[:, column] = _NEVER
        for word, probability in row.items():
            weights[tokenizer.convert_tokens_to_ids(word), column] = math.log(probability)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0) if parameter.dim() == 1 else parameter.zero_()
        network.model.embed_tokens.weight.fill_diagonal_(1.0)
        # the normalised state of a token is the square root of the width
        network.lm_head.weight.copy_(weights / math.sqrt(width))
    network.generation_config.eos_token_id = tokenizer.eos_token_id
    return network.eval(), tokenizer
