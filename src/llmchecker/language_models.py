"""Language models as one function: the distribution of the next token after a text.

A `LanguageModel` turns text into tokens and back, and opens `Continuations` of a prompt: next-token
probabilities after any sequences of tokens that follow it. Three kinds of model exist: causal and
masked transformers, and an exact table for tests and worked examples.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from llmchecker.errors import UnusableModel

BATCH_ROWS = 128
"""Rows of every forward pass after the prompt's; a smaller batch is padded to as many.

A matrix product may round differently when its shape differs. With one shape for all, what a model
answers for a text does not depend on which other texts it is asked for.
"""

SOFTMAX_ELEMENTS = 2**20
"""Logits that become probabilities at once, at most: 8 MB of float64."""

CACHE_BYTES = 2 * 1024**3
"""Default limit of the keys and values kept for one prompt's continuations."""


class Continuations(Protocol):
    """Next-token probabilities after texts that share a prompt."""

    def probabilities(self, suffixes: np.ndarray, extended: bool = False) -> Iterator[Tensor]:
        """Yield the next token's distribution after the prompt and each suffix, in batches.

        Args:
            suffixes: (n, d) int64, the tokens after the prompt, d >= 0.
            extended: whether longer suffixes that begin with these will be asked for.

        Yields:
            (rows, vocabulary) float64, each row sums to 1; n rows in all, in the order given.
        """
        ...


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
    cache_bytes: int = CACHE_BYTES,
) -> "CausalModel | MaskedModel":
    """Load a local model directory: config, safetensors weights and tokenizer; no code, no pickles.

    Args:
        kind: `causal` predicts after the text; `masked` at a mask appended to it.
        dtype: of the weights, a torch name such as `float32` or `bfloat16`.
        device: a torch device such as `cpu` or `cuda:0`.
        cache_bytes: limit of the keys and values that a causal model keeps for one prompt.

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
    if kind == "masked":
        return MaskedModel(directory.name, network, tokenizer)
    return CausalModel(directory.name, network, tokenizer, cache_bytes)


def use_threads(threads: int) -> None:
    """Let models of this process run on so many threads of the CPU."""
    torch.set_num_threads(threads)


class _Transformer:
    """What causal and masked transformers share: tokens, texts and the end of a text."""

    def __init__(
        self, name: str, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.name = name
        self.network = network
        self.tokenizer = tokenizer
        self.vocabulary_size = network.config.vocab_size
        self.end_tokens = _end_tokens(network, tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, verbose=False)["input_ids"])

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        return self.tokenizer.batch_decode(
            sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


class CausalModel(_Transformer):
    """A causal transformer: the next token is read after the last one."""

    def __init__(
        self,
        name: str,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__(name, network, tokenizer)
        self.cache_bytes = cache_bytes

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt; an empty one is the token that begins, or else ends, a text."""
        tokens = super().encode(text)
        if tokens:
            return tokens
        begin = self.tokenizer.bos_token_id
        return (begin if begin is not None else min(self.end_tokens),)

    def continuations(self, prompt: Sequence[int]) -> "CachedContinuations":
        return CachedContinuations(self.network, prompt, self.cache_bytes)


class MaskedModel(_Transformer):
    """A masked transformer: the next token is read at a mask appended to the text."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt, without the separator that would end it."""
        tokens = super().encode(text)
        return tokens[:-1] if tokens[-1] == self.tokenizer.sep_token_id else tokens

    def continuations(self, prompt: Sequence[int]) -> "MaskedContinuations":
        tail = (self.tokenizer.mask_token_id, self.tokenizer.sep_token_id)
        return MaskedContinuations(self.network, prompt, tail)


class CachedContinuations:
    """Continuations by a causal transformer, which computes no text's beginning twice.

    The keys and values of the prompt are kept, and one row of them for each suffix that will be
    extended, up to `cache_bytes`. What did not fit is computed again from its longest kept
    beginning, one token at a time, just as it was the first time: the answers stay the same.
    """

    def __init__(self, network: PreTrainedModel, prompt: Sequence[int], cache_bytes: int) -> None:
        self._network = network
        self._free_bytes = cache_bytes
        self._levels: dict[int, _Level] = {}
        with torch.inference_mode():
            cache = DynamicCache()
            logits = self._forward(np.array([prompt]), cache)
        self._prompt = [(layer.keys, layer.values) for layer in cache.layers]
        self._after_prompt = _softmax(logits)

    def probabilities(self, suffixes: np.ndarray, extended: bool = False) -> Iterator[Tensor]:
        if suffixes.shape[1] == 0:
            yield self._after_prompt.expand(len(suffixes), -1)
            return
        if extended:
            self._open_level(suffixes)
        for first in range(0, len(suffixes), BATCH_ROWS):
            batch = suffixes[first : first + BATCH_ROWS]
            with torch.inference_mode():
                logits = self._after(_padded(batch))
                yield from _distributions(logits, len(batch))

    def _after(self, batch: np.ndarray) -> Tensor:
        rows = self._kept_rows(batch)
        cache = self._cache(rows, len(batch))
        for depth in range(len(rows), batch.shape[1]):
            logits = self._forward(batch[:, depth : depth + 1], cache)
            self._keep(batch[:, : depth + 1], cache)
        return logits

    def _forward(self, tokens: np.ndarray, cache: DynamicCache) -> Tensor:
        input_ids = torch.from_numpy(tokens).to(self._network.device)
        output = self._network(
            input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return output.logits[:, -1]

    def _cache(self, rows: list[Tensor], size: int) -> DynamicCache:
        """The cache of `size` texts whose first tokens are the given rows of each level."""
        kept = [self._levels[depth].take(chosen) for depth, chosen in enumerate(rows, start=1)]
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._prompt):
            cache.update(
                torch.cat([keys.expand(size, -1, -1, -1), *(row[layer][0] for row in kept)], 2),
                torch.cat([values.expand(size, -1, -1, -1), *(row[layer][1] for row in kept)], 2),
                layer,
            )
        return cache

    def _open_level(self, suffixes: np.ndarray) -> None:
        """Reserve room for the last token's keys and values of as many suffixes as fit."""
        depth = suffixes.shape[1]
        row_bytes = sum(t[:, :, 0].nbytes for pair in self._prompt for t in pair)
        room = min(len(suffixes), self._free_bytes // row_bytes)
        self._free_bytes -= room * row_bytes
        self._levels[depth] = _Level(suffixes[:room], self._prompt)

    def _kept_rows(self, batch: np.ndarray) -> list[Tensor]:
        """For each leading depth at which the whole batch is kept: the rows that hold it."""
        rows = []
        for depth in range(1, batch.shape[1]):
            level = self._levels.get(depth)
            found = level.find(batch[:, :depth]) if level is not None else None
            if found is None:
                break
            rows.append(found)
        return rows

    def _keep(self, prefixes: np.ndarray, cache: DynamicCache) -> None:
        level = self._levels.get(prefixes.shape[1])
        if level is not None:
            level.put(prefixes, [(layer.keys, layer.values) for layer in cache.layers])


class _Level:
    """Keys and values of the last token of suffixes of one length."""

    def __init__(self, suffixes: np.ndarray, like: list[tuple[Tensor, Tensor]]) -> None:
        self._row_of = {tuple(suffix): row for row, suffix in enumerate(suffixes.tolist())}
        self._filled = np.zeros(len(suffixes), dtype=bool)
        self._layers = [
            tuple(t.new_empty((len(suffixes), t.shape[1], 1, t.shape[3])) for t in pair)
            for pair in like
        ]

    def find(self, prefixes: np.ndarray) -> Tensor | None:
        """Rows that hold the prefixes, or None when one of them is not held."""
        rows = np.array([self._row_of.get(tuple(prefix), -1) for prefix in prefixes.tolist()])
        if np.any(rows < 0) or not self._filled[rows].all():
            return None
        return torch.from_numpy(rows)

    def take(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(keys[rows], values[rows]) for keys, values in self._layers]

    def put(self, prefixes: np.ndarray, layers: list[tuple[Tensor, Tensor]]) -> None:
        rows = np.array([self._row_of.get(tuple(prefix), -1) for prefix in prefixes.tolist()])
        held = np.flatnonzero(rows >= 0)
        for kept, computed in zip(self._layers, layers, strict=True):
            for room, tensor in zip(kept, computed, strict=True):
                room[rows[held]] = tensor[held, :, -1:]
        self._filled[rows[held]] = True


class MaskedContinuations:
    """Continuations by a masked transformer, which reads the whole text for each."""

    def __init__(
        self, network: PreTrainedModel, prompt: Sequence[int], tail: Sequence[int]
    ) -> None:
        self._network = network
        self._prompt = np.array(prompt, dtype=np.int64)
        self._tail = np.array(tail, dtype=np.int64)

    def probabilities(self, suffixes: np.ndarray, extended: bool = False) -> Iterator[Tensor]:
        del extended
        for first in range(0, len(suffixes), BATCH_ROWS):
            batch = suffixes[first : first + BATCH_ROWS]
            rows = _padded(batch)
            prompt = np.broadcast_to(self._prompt, (len(rows), len(self._prompt)))
            tail = np.broadcast_to(self._tail, (len(rows), len(self._tail)))
            tokens = np.concatenate([prompt, rows, tail], axis=1)
            with torch.inference_mode():
                input_ids = torch.from_numpy(tokens).to(self._network.device)
                logits = self._network(input_ids=input_ids).logits[:, -len(self._tail)]
                yield from _distributions(logits, len(batch))


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

    def continuations(self, prompt: Sequence[int]) -> "TableContinuations":
        return TableContinuations(self._distribution, tuple(prompt))


class TableContinuations:
    """Continuations by table look-up."""

    def __init__(
        self, distribution: Callable[[tuple[int, ...]], Sequence[float]], prompt: tuple[int, ...]
    ) -> None:
        self._distribution = distribution
        self._prompt = prompt

    def probabilities(self, suffixes: np.ndarray, extended: bool = False) -> Iterator[Tensor]:
        del extended
        rows = [self._distribution((*self._prompt, *suffix)) for suffix in suffixes.tolist()]
        yield torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64)


def _end_tokens(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens after which the model's own configuration stops generating."""
    generation = getattr(network, "generation_config", None)
    configured = getattr(generation, "eos_token_id", None)
    candidates = (configured, tokenizer.eos_token_id, tokenizer.sep_token_id)
    chosen = next((tokens for tokens in candidates if tokens is not None), [])
    return frozenset(chosen if isinstance(chosen, list) else [chosen])


def _distributions(logits: Tensor, wanted: int) -> Iterator[Tensor]:
    """Yield the distributions of the first `wanted` rows, a few rows at a time.

    A few rows stay in the processor's cache from the conversion to float64 to the selection of
    tokens. Their number depends on the vocabulary alone, so that a row is always summed alike.
    """
    fitting = max(1, SOFTMAX_ELEMENTS // logits.shape[1])
    rows = min(BATCH_ROWS, 1 << (fitting.bit_length() - 1))
    for first in range(0, wanted, rows):
        yield _softmax(logits[first : first + rows])[: wanted - first]


def _softmax(logits: Tensor) -> Tensor:
    """The softmax in float64; in place on one copy, since memory is what it waits for."""
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    weights.exp_()
    weights /= weights.sum(dim=-1, keepdim=True)
    return weights


def _padded(batch: np.ndarray) -> np.ndarray:
    """The batch with its last row repeated up to `BATCH_ROWS` rows."""
    missing = BATCH_ROWS - len(batch)
    return np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)])
