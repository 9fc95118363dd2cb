"""Random networks of the shapes of Llama models, and tokenizers that need no download.

Weights have no effect on the time of a step, so that a random network measures a machine as well as
a published one. Its head is sharpened: next tokens then have about the entropy of a real text.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

import llmchecker as lc

START = "The player won because"
LOGIT_DEVIATION = 3.7
"""Standard deviation of the logits; a vocabulary of 49,152 then has an entropy of 4 nats."""
MAX_TOKENS = 8192
END_TOKEN = "<|end|>"


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama network.

    Attributes:
        vocabulary: number of tokens of a tokenizer that is made for it.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int = 49_152


SHAPES = {
    "8B": Shape(4096, 14336, 32, 32, 8),
    "135M": Shape(576, 1536, 30, 9, 3),
    "tiny": Shape(64, 128, 2, 4, 2, vocabulary=2_048),
    "host": Shape(32, 64, 1, 4, 2),
}
"""The shapes of Llama 3 8B and of SmolLM2-135M; a tiny one; and one whose steps cost nothing."""


def build_network(
    shape: Shape,
    tokenizer: PreTrainedTokenizerBase,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
) -> PreTrainedModel:
    """Build a random network on its device.

    Args:
        shape: the sizes.
        tokenizer: the tokenizer, whose number of tokens is that of the network.
        dtype: torch name of the weights' dtype.
        device: a device of torch.
        seed: seed of the weights.
    """
    config = LlamaConfig(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        vocab_size=len(tokenizer),
        # a head with the sharpened weights of the embedding would repeat the last token
        tie_word_embeddings=False,
        max_position_embeddings=MAX_TOKENS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(seed)
    # weights are made where they stay, because those of a large network take minutes to copy
    with torch.device(device):
        network = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    with torch.no_grad():
        # the last norm makes the deviation of a logit that of a weight times sqrt(hidden)
        network.lm_head.weight.normal_(std=LOGIT_DEVIATION / shape.hidden**0.5)
    return network.eval()


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on the gender words and on made-up words.

    The same number of tokens gives the same tokenizer.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    words = [*START.split(), *sorted(lc.Gender().transducer.weights), *_make_up_words(vocabulary)]
    # the first words are the most frequent ones, so that each becomes one token
    texts = [f" {word}" * (3 if number < 100 else 1) for number, word in enumerate(words)]
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_TOKEN)


def _make_up_words(vocabulary: int) -> Iterator[str]:
    """Yield words of one to three syllables, enough for the merges of a vocabulary."""
    chance = random.Random(0)
    consonants = "b c d f g h j k l m n p r s t v w z st tr ch sh pl".split()
    vowels = "a e i o u ai ea ou".split()
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    for _ in range(2 * vocabulary):
        yield "".join(chance.choices(syllables, k=chance.choice((1, 2, 3))))
