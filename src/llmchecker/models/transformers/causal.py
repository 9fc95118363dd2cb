"""Causal transformers: next-token logits after the last token of a text."""

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin

from llmchecker.errors import ConfigError, UnusableText
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.logits_processor import LogitsDecoder
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.base import Transformer, read_end_tokens
from llmchecker.models.transformers.batching import TEXT_BYTES, pad_rows
from llmchecker.models.transformers.uncached import UncachedPrefix

_T = TypeVar("_T")


class _CausalPrefix:
    """Continuations by a causal transformer, which reads one new token of each text.

    The keys and values of the prompt stay in memory. Those of each continuation's last token stay
    in memory up to a limit. Half of the memory is for these, the other half for batches. Missing
    beginnings of continuations are computed again, once for all texts of a batch that share them.

    Args:
        model: the model; its `memory_bytes` limits batches and stored keys and values. A batch of
            the smallest size always runs.
        prompt: token ids at the beginning of every text.
        max_length: number of tokens after the prompt in the longest text, as far as known.

    Raises:
        UnusableText: the texts are too long for the model.
    """

    def __init__(self, model: Transformer, prompt: Sequence[int], max_length: int = 0) -> None:
        model.check_texts(prompt, max_length)
        self._model = model
        self._network = model.network
        self._executor = model.executor
        # one half for stored keys and values, one half for batches
        self._memory_bytes = model.memory_bytes // 2
        # several threads share the stored keys and values
        self._lock = threading.RLock()
        # each thread reuses its own batch layers
        self._thread_state = threading.local()
        self._prompt_tokens = tuple(prompt)
        self._prompt_layers, self._prompt_logits = self._executor.run(self._read_prompt)
        self._row_bytes = sum(t[:, 0].nbytes for layer in self._prompt_layers for t in layer)
        self._key_value_store = _KeyValueStore(
            self._prompt_layers, self._memory_bytes // (self._row_bytes + TEXT_BYTES)
        )

    def map_next(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the distributions after each continuation, in batches."""
        depth = continuations.shape[1]
        self._model.check_texts(self._prompt_tokens, depth)
        # the prompt alone: its logits are known already
        if depth == 0:
            logits = self._prompt_logits.expand(len(continuations), -1)
            yield from self._executor.run(
                lambda: self._map_distributions(
                    function, logits, continuations, np.arange(len(continuations))
                )
            )
            return
        with self._lock:
            # the smallest batch must run whatever the limit is
            self._key_value_store.reserve_rows(self._executor.min_rows * depth)
        max_rows = self._compute_max_rows(depth)

        def evaluate(first: int, stop: int, rows: int) -> list[_T]:
            batch = continuations[first:stop]
            with torch.inference_mode():
                logits = self._compute_logits(batch, rows, max_rows, will_extend)
                return self._map_distributions(function, logits, batch, np.arange(first, stop))

        for results in self._executor.map(
            evaluate, self._executor.split_rows(len(continuations), max_rows)
        ):
            yield from results

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Store the keys and values of texts of any length, one batch for each length.

        Texts that are too long for the model or for the memory are left out.
        """
        # a later call reports a text that is too long
        texts = [text for text in continuations if self._is_readable(len(text))]
        for depth in range(1, 1 + max(map(len, texts), default=0)):
            beginnings = [text[:depth] for text in texts if len(text) >= depth]
            missing = self._key_value_store.find_missing(np.array(beginnings, dtype=np.int64))
            if len(missing) > self._key_value_store.free_rows:
                return
            batches = self._executor.split_rows(len(missing), self._compute_max_rows(depth))
            store = partial(self._store_batch, missing)
            # the longer texts need these keys and values
            deque(self._executor.map(store, batches), maxlen=0)

    def _is_readable(self, length: int) -> bool:
        try:
            self._model.check_texts(self._prompt_tokens, length)
        except UnusableText:
            return False
        return True

    def _map_distributions(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        logits: Tensor,
        continuations: np.ndarray,
        rows: np.ndarray,
    ) -> list[_T]:
        return self._model.map_distributions(
            function, logits, self._prompt_tokens, continuations, rows
        )

    def _read_prompt(self) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Return the keys and values of the prompt, and the logits after it.

        Each layer has a pair of tensors of shape (1, tokens, heads, width).
        """
        cache = DynamicCache()
        with torch.inference_mode():
            output = self._forward(
                self._network, np.array([self._prompt_tokens]), cache, **self._last_logits_setting
            )
            return [_copy_layer(layer) for layer in cache.layers], output.logits[:, -1]

    def _compute_max_rows(self, depth: int) -> int:
        """Return the largest number of rows in a batch that memory allows."""
        tokens = self._prompt_layers[0][0].shape[1] + depth
        logits = self._prompt_logits.nbytes
        batch = self._memory_bytes // (self._executor.threads * (tokens * self._row_bytes + logits))
        return min(batch, self._key_value_store.capacity // depth)

    def _compute_logits(
        self, batch: np.ndarray, rows: int, max_rows: int, will_extend: bool
    ) -> Tensor:
        texts = pad_rows(batch, rows)
        with self._lock:
            self._store_missing_prefixes(batch, max_rows)
            layers = self._build_layers(texts)
        cache = Cache(layers=[*layers])
        output = self._forward(self._network, texts[:, -1:], cache, **self._last_logits_setting)
        # only longer continuations read the stored keys and values
        if will_extend:
            with self._lock:
                self._key_value_store.put(batch, layers)
        logits: Tensor = output.logits[:, -1]
        return logits

    @property
    def _last_logits_setting(self) -> dict[str, Any]:
        """Setting that limits a network's logits to the last token."""
        parameters = inspect.signature(self._network.forward).parameters
        return {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}

    def _forward(
        self, network: nn.Module, tokens: np.ndarray, cache: Cache, **settings: int
    ) -> Any:
        """Return the network's output, whose class depends on the network."""
        input_ids = torch.from_numpy(tokens).to(self._network.device)
        return network(input_ids=input_ids, past_key_values=cache, use_cache=True, **settings)

    def _store_missing_prefixes(self, batch: np.ndarray, max_rows: int) -> None:
        """Compute the missing beginnings of continuations, without logits."""
        for depth in range(1, batch.shape[1]):
            missing_prefixes = self._key_value_store.find_missing(batch[:, :depth])
            # the whole batch must be stored at once: start again with empty tables
            if len(missing_prefixes) > self._key_value_store.free_rows:
                self._key_value_store.clear()
                self._store_missing_prefixes(batch, max_rows)
                return
            for first, stop, rows in self._executor.split_rows(len(missing_prefixes), max_rows):
                self._store_batch(missing_prefixes, first, stop, rows)

    def _store_batch(self, continuations: np.ndarray, first: int, stop: int, rows: int) -> None:
        """Compute and store the keys and values of the last tokens of a few texts."""
        batch = continuations[first:stop]
        texts = pad_rows(batch, rows)
        with torch.inference_mode():
            with self._lock:
                layers = self._build_layers(texts)
            # the base model has no output layer, so it computes no logits
            self._forward(self._network.base_model, texts[:, -1:], Cache(layers=[*layers]))
            with self._lock:
                self._key_value_store.put(batch, layers)

    def _build_layers(self, continuations: np.ndarray) -> list["_BatchCacheLayer"]:
        """Return the keys and values of all tokens of the texts but the last."""
        layers = self._allocate_layers(*continuations.shape)
        prompt_length = self._prompt_layers[0][0].shape[1]
        for depth in range(1, continuations.shape[1]):
            rows = self._key_value_store.find_rows(continuations[:, :depth])
            for layer, tables in zip(layers, self._key_value_store.layers, strict=True):
                for buffer, table in zip(layer.buffers, tables, strict=True):
                    torch.index_select(table, 0, rows, out=buffer[:, prompt_length + depth - 1])
        return layers

    def _allocate_layers(self, rows: int, depth: int) -> list["_BatchCacheLayer"]:
        """Return layers for a batch, with the prompt filled in.

        A thread reuses its layers until the shape changes.
        """
        if getattr(self._thread_state, "shape", None) != (rows, depth):
            # free the old layers first: memory may be too small for both
            self._thread_state.layers = None
            self._thread_state.layers = [
                _BatchCacheLayer(prompt, rows, depth) for prompt in self._prompt_layers
            ]
            self._thread_state.shape = (rows, depth)
        layers: list[_BatchCacheLayer] = self._thread_state.layers
        return layers


def _copy_layer(layer: object) -> tuple[Tensor, Tensor]:
    """Return copies of a layer's keys and values, (1, tokens, heads, width) each.

    Raises:
        TypeError: the layer of the cache stores no keys and values.
    """
    if not isinstance(layer, CacheLayerMixin) or layer.keys is None or layer.values is None:
        raise TypeError(f"{type(layer).__name__} stores no keys and values")
    # tokens before heads: the keys and values of one token are then contiguous
    return layer.keys.transpose(1, 2).contiguous(), layer.values.transpose(1, 2).contiguous()


class _BatchCacheLayer(CacheLayerMixin):
    """Keys and values of one layer for a batch of texts of equal length.

    Args:
        prompt: keys and values of the prompt, (1, tokens, heads, width) each.
        rows: number of rows of the batch.
        depth: number of tokens of each text after the prompt, including the last token.
    """

    is_sliding = False

    def __init__(self, prompt: tuple[Tensor, Tensor], rows: int, depth: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        tokens = prompt[0].shape[1]
        self.buffers = tuple(t.new_empty((rows, tokens + depth, *t.shape[2:])) for t in prompt)
        for buffer, tensor in zip(self.buffers, prompt, strict=True):
            buffer[:, :tokens] = tensor
        # views in the order of axes that transformers expects
        keys, values = (buffer.transpose(1, 2) for buffer in self.buffers)
        self._views = keys, values
        self.keys, self.values = self._views
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the constructor allocates all tensors."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Store the last token, and return the keys and values of all tokens."""
        keys, values = self._views
        keys[:, :, -1:] = key_states
        values[:, :, -1:] = value_states
        return keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens before the last one."""
        return self._views[0].shape[2] - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of attended tokens and the position of the first."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """Return -1, which transformers reads as no limit."""
        return -1


class _KeyValueStore:
    """Keys and values of continuations' last tokens, in tables of fixed capacity.

    Args:
        prompt: keys and values of the prompt in every layer, which have the shape of a row.
        capacity: number of rows.
    """

    def __init__(self, prompt: list[tuple[Tensor, Tensor]], capacity: int) -> None:
        self._template = prompt
        self._row_index: dict[tuple[int, ...], int] = {}
        self._allocate(capacity)

    @property
    def free_rows(self) -> int:
        """Number of empty rows."""
        return self.capacity - len(self._row_index)

    def reserve_rows(self, rows: int) -> None:
        """Grow to this many rows, even above the limit: the smallest batch needs them."""
        if self.capacity < rows:
            self._allocate(rows)

    def clear(self) -> None:
        """Remove all entries."""
        self._row_index = {}

    def find_missing(self, continuations: np.ndarray) -> np.ndarray:
        """Return the distinct continuations that are not stored."""
        suffixes = dict.fromkeys(map(tuple, continuations.tolist()))
        missing_suffixes = [suffix for suffix in suffixes if suffix not in self._row_index]
        return np.array(missing_suffixes, dtype=np.int64).reshape(
            len(missing_suffixes), continuations.shape[1]
        )

    def find_rows(self, continuations: np.ndarray) -> Tensor:
        """Return the row indices of continuations, which must all be stored."""
        return torch.tensor([self._row_index[tuple(suffix)] for suffix in continuations.tolist()])

    def put(self, continuations: np.ndarray, layers: Sequence[_BatchCacheLayer]) -> None:
        """Store the last tokens of a batch's texts, in order, until the tables are full."""
        # a continuation that is stored already keeps its row
        new_suffixes = {
            tuple(suffix_row): i
            for i, suffix_row in enumerate(continuations.tolist())
            if tuple(suffix_row) not in self._row_index
        }
        items = list(new_suffixes.items())[: self.free_rows]
        first = len(self._row_index)
        self._row_index |= {suffix: first + i for i, (suffix, _) in enumerate(items)}
        texts = torch.tensor([text for _, text in items], dtype=torch.int64)
        for tables, layer in zip(self.layers, layers, strict=True):
            for table, buffer in zip(tables, layer.buffers, strict=True):
                table[first : first + len(texts)] = buffer[texts, -1]

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        self._row_index = {}
        self.layers = [
            tuple(t.new_empty((capacity, *t.shape[2:])) for t in p) for p in self._template
        ]


class CausalModel(Transformer):
    """A causal transformer: next-token logits after the last token of a text."""

    is_uncached = False
    """Whether each text is read from its first token, without stored keys and values."""

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt; `start_token` for an empty prompt."""
        return super().encode(start) or (self.start_token,)

    def with_decoding(
        self, decoding: Decoding, end_tokens: frozenset[int] | None = None
    ) -> "CausalModel":
        """Return the model with other decoding settings; both share the network.

        Args:
            decoding: the decoding settings.
            end_tokens: ids of the tokens that end a text; None for those of `read_end_tokens`.

        Raises:
            ConfigError: the decoding names tokens that the model does not have.
        """
        model = copy(self)
        model.decoder, model.is_truncated = None, decoding.is_truncating
        model.compares_prompt = decoding.compares_prompt
        if end_tokens is None:
            end_tokens = read_end_tokens(self.network, self.tokenizer)
        model.end_tokens = end_tokens
        # a decoding without effect needs no processor
        if decoding:
            try:
                model.decoder = LogitsDecoder(decoding, self.vocabulary_size, end_tokens)
            except ConfigError as error:
                raise ConfigError(f"decoding: {self.name}: {error}") from error
        return model

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0
    ) -> _CausalPrefix | UncachedPrefix:
        """Open the continuations of a prompt."""
        if self.is_uncached:
            return UncachedPrefix(self, prompt, max_length)
        return _CausalPrefix(self, prompt, max_length)
