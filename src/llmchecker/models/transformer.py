"""Language models as one function: the distribution of the next token after a text.

A `LanguageModel` turns text into tokens and back, and opens `Continuations` of a prompt: next-token
probabilities after any sequences of tokens that follow it. Three kinds of model exist: causal and
masked transformers, and an exact table for tests and worked examples.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

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
from llmchecker.models.causal import (
    Batches,
    CausalContinuations,
    Continuations,
    MaskedContinuations,
    TableContinuations,
)

MEMORY_BYTES = 2 * 1024**3
"""Default limit of what the continuations of one prompt use beside the model."""


class LanguageModel(Protocol):
    """A tokenizer and a next-token distribution."""

    name: str
    vocabulary_size: int
    end_tokens: frozenset[int]

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt, with the special tokens that the model expects before it."""
        ...

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The texts of whole token sequences, special tokens left out."""
        ...

    def continuations(self, prompt: Sequence[int]) -> Continuations:
        """Open the continuations of a prompt."""
        ...


def load(
    directory: str | Path,
    kind: Literal["causal", "masked"] = "causal",
    dtype: str = "float32",
    device: str = "cpu",
    threads: int = 1,
    memory_bytes: int = MEMORY_BYTES,
) -> "CausalModel | MaskedModel":
    """Load a local model directory: config, safetensors weights and tokenizer; no code, no pickles.

    Args:
        kind: `causal` predicts after the text; `masked` at a mask appended to it.
        dtype: of the weights, a torch name such as `float32` or `bfloat16`.
        device: a torch device such as `cpu` or `cuda:0`.
        threads: batches of texts that a CPU computes at once, one on each thread.
        memory_bytes: limit of what one prompt's continuations use beside the model: batches, and
            the keys and values that a causal model keeps. No answer depends on either.

    Raises:
        UnusableModel: the directory holds no model of that kind that transformers can load.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    directory = Path(directory)
    auto_class = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}[kind]
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, **local)
        network = auto_class.from_pretrained(
            directory, dtype=getattr(torch, dtype), use_safetensors=True, **local
        )
    except Exception as error:  # transformers documents no exceptions and raises many kinds
        raise UnusableModel(f"{directory} does not load as a {kind} model: {error}") from error
    network = network.to(device).eval()
    model = {"causal": CausalModel, "masked": MaskedModel}[kind]
    return model(directory.name, network, tokenizer, Batches(threads, device), memory_bytes)


class _Transformer:
    """What causal and masked transformers share: tokens, texts and the end of a text."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        batches: Batches,
        memory_bytes: int,
    ) -> None:
        self.name = name
        self.network = network
        self.tokenizer = tokenizer
        self.batches = batches
        self.memory_bytes = memory_bytes
        self.vocabulary_size = network.config.vocab_size
        self.end_tokens = _end_tokens(network, tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, verbose=False)["input_ids"])

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        if self.tokenizer.is_fast:
            # what batch_decode does for one text after the other
            backend = self.tokenizer.backend_tokenizer
            return backend.decode_batch(sequences, skip_special_tokens=True)
        return self.tokenizer.batch_decode(
            sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


class CausalModel(_Transformer):
    """A causal transformer: the next token is read after the last one."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt; an empty one is the token that begins, or else ends, a text."""
        tokens = super().encode(text)
        if tokens:
            return tokens
        begin = self.tokenizer.bos_token_id
        return (begin if begin is not None else min(self.end_tokens),)

    def continuations(self, prompt: Sequence[int]) -> CausalContinuations:
        return CausalContinuations(self.network, prompt, self.batches, self.memory_bytes)


class MaskedModel(_Transformer):
    """A masked transformer: the next token is read at a mask appended to the text."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt, without the separator that would end it."""
        tokens = super().encode(text)
        return tokens[:-1] if tokens[-1] == self.tokenizer.sep_token_id else tokens

    def continuations(self, prompt: Sequence[int]) -> MaskedContinuations:
        tail = (self.tokenizer.mask_token_id, self.tokenizer.sep_token_id)
        return MaskedContinuations(self.network, prompt, tail, self.batches, self.memory_bytes)


class TableModel:
    """A language model given as a function, exact and small: for tests and worked examples.

    Args:
        vocabulary: the text of each token.
        distribution: the next token's distribution after a tuple of tokens.
        end_tokens: tokens that end a text.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        distribution: Callable[[tuple[int, ...]], Sequence[float]],
        end_tokens: frozenset[int] = frozenset(),
        name: str = "table",
    ) -> None:
        self.name = name
        self.vocabulary = tuple(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.end_tokens = end_tokens
        self._distribution = distribution

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a text in which tokens are separated by nothing: the longest match first."""
        by_length = sorted(range(self.vocabulary_size), key=lambda t: -len(self.vocabulary[t]))
        tokens = []
        while text:
            token = next((t for t in by_length if text.startswith(self.vocabulary[t])), None)
            if token is None:
                raise ValueError(f"no token of the table begins {text!r}")
            tokens.append(token)
            text = text[len(self.vocabulary[token]) :]
        return tuple(tokens)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        return [
            "".join(self.vocabulary[t] for t in sequence if t not in self.end_tokens)
            for sequence in sequences
        ]

    def continuations(self, prompt: Sequence[int]) -> TableContinuations:
        return TableContinuations(self._distribution, tuple(prompt))


def _end_tokens(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens after which the model's own configuration stops generating."""
    generation = getattr(network, "generation_config", None)
    configured = getattr(generation, "eos_token_id", None)
    candidates = (configured, tokenizer.eos_token_id, tokenizer.sep_token_id)
    chosen = next((tokens for tokens in candidates if tokens is not None), [])
    return frozenset(chosen if isinstance(chosen, list) else [chosen])
