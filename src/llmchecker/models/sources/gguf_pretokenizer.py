"""Pretokenizers of GGUF files, which split a text before the merges of byte pairs.

A GGUF file contains the name of the rule instead of the rule. transformers has the rules of many
names, and uses that of GPT-2 for all others. Some texts would then have other tokens than in the
training of the model.
"""

from typing import TYPE_CHECKING

from llmchecker.errors import UnusableModel
from llmchecker.models.sources.gguf import GgufHeader

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_GPT2_RULES = frozenset({"gpt-2", "phi-2"})
"""Names of GPT-2's own rule."""

_DIGIT_SPLITTING_RULES = frozenset({"smollm", "starcoder"})
"""Names of the rule that first separates every digit and then follows GPT-2's."""


def restore_pretokenizer(tokenizer: "PreTrainedTokenizerBase", header: GgufHeader) -> None:
    """Set the pretokenizer that the GGUF file names in a tokenizer from transformers.

    Sentencepiece has no such rule, so its tokenizers stay unchanged.

    Args:
        tokenizer: the tokenizer, changed in place.
        header: header of the GGUF file.

    Raises:
        UnusableModel: the rule is unknown, or the file names no rule.
    """
    from tokenizers import pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    # transformers has applied the rule already, or the tokenizer has no rule
    if header.tokenizer != "gpt2" or header.pretokenizer in GGUF_PRE_TOKENIZER_SPLITS:
        return
    if header.pretokenizer in _DIGIT_SPLITTING_RULES:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    # transformers uses GPT-2's rule by default, so its names need no change
    elif header.pretokenizer not in _GPT2_RULES:
        known_rules = sorted({*GGUF_PRE_TOKENIZER_SPLITS, *_GPT2_RULES, *_DIGIT_SPLITTING_RULES})
        raise UnusableModel(
            f"tokenizer.ggml.pre: {header.pretokenizer!r} is unknown; use the model's "
            f"safetensors with tokenizer.json, or one of {', '.join(known_rules)}"
        )
