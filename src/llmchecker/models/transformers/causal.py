"""Causal transformers: next-token logits after the last token of a text."""

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache

from llmchecker.errors import ConfigError, UnusableText
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.logits_processor import LogitsDecoder
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.base import Transformer
from llmchecker.models.transformers.batching import TEXT_BYTES, pad_rows
from llmchecker.models.transformers.key_values import BatchCacheLayer, KeyValueStore, copy_layer
from llmchecker.models.transformers.prompt_attention import SCORE_BYTES, share_prompt
from llmchecker.models.transformers.tokenizer import find_end_tokens
from llmchecker.models.transformers.uncached import UncachedPrefix

_T = TypeVar("_T")


class _CausalPrefix:
    """Continuations by a causal transformer, which reads one new token of each text.

    The keys and values of the prompt stay in memory. Those of each continuation's last token stay
    in memory up to a limit. Half of the memory is for these, the other half for batches. Missing
    beginnings of continuations are computed again, once for all texts of a batch that share them.

    The rows of a batch share the keys and values of a long prompt if the network permits it.
    Otherwise each row has a copy.

    Args:
        model: the model; its `memory_bytes` limits batches and stored keys and values. A batch of
            the smallest size always runs.
        prompt: token ids at the beginning of every text.
        max_length: number of tokens after the prompt in the longest text, as far as known.
        batch_invariant: as in `LanguageModel.open_prefix`.

    Raises:
        UnusableText: the texts are too long for the model.
    """

    def __init__(
        self,
        model: "CausalModel",
        prompt: Sequence[int],
        max_length: int = 0,
        batch_invariant: bool = True,
    ) -> None:
        model.check_texts(prompt, max_length)
        self._batch_invariant = batch_invariant
        self._model = model
        self._network = model.network
        self._executor = model.executor
        self._shares_prompt = model.shared_from is not None and len(prompt) >= model.shared_from
        # several threads share the stored keys and values
        self._lock = threading.RLock()
        # each thread reuses its own batch layers
        self._thread_state = threading.local()
        self._prompt_tokens = tuple(prompt)
        self._prompt_layers, self._prompt_logits = self._executor.run(self._read_prompt)
        self._row_bytes = sum(t[:, 0].nbytes for layer in self._prompt_layers for t in layer)
        self._key_value_store = KeyValueStore(
            self._prompt_layers,
            # the other half of the memory is for batches
            model.find_memory_bytes() // 2 // (self._row_bytes + TEXT_BYTES),
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

        def map_distributions(logits: Tensor, batch: np.ndarray, rows: np.ndarray) -> list[_T]:
            return self._model.map_distributions(function, logits, self._prompt_tokens, batch, rows)

        # the prompt alone: its logits are known already
        if depth == 0:
            logits = self._prompt_logits.expand(len(continuations), -1)
            yield from self._executor.run(
                lambda: map_distributions(logits, continuations, np.arange(len(continuations)))
            )
            return
        with self._lock:
            # the smallest batch must run whatever the limit is
            self._key_value_store.reserve_rows(self._executor.min_rows * depth)
        max_rows = self._compute_max_rows(depth)
        n = len(continuations)
        if not self._batch_invariant and self._executor.is_shareable(n, max_rows):
            logits = self._executor.run_shared(
                lambda: self._compute_logits(continuations, n, max_rows, will_extend)
            )
            yield from self._executor.run_all(
                self._model.split_logits(
                    function, logits, self._prompt_tokens, continuations, np.arange(n)
                )
            )
            return

        def evaluate(first: int, stop: int, rows: int) -> list[_T]:
            batch = continuations[first:stop]
            with self._release_on_failure():
                logits = self._compute_logits(batch, rows, max_rows, will_extend)
                return map_distributions(logits, batch, np.arange(first, stop))

        yield from self._executor.map(evaluate, n, max_rows)

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Store the keys and values of texts of any length, one batch for each length.

        Texts that are too long for the model or for the memory are left out.
        """
        # a later call reports a text that is too long
        texts = [text for text in continuations if self._is_readable(len(text))]
        for depth in range(1, 1 + max(map(len, texts), default=0)):
            beginnings = [text[:depth] for text in texts if len(text) >= depth]
            missing = self._key_value_store.find_missing(np.array(beginnings, dtype=np.int64))
            if not self._key_value_store.make_room(len(missing)):
                return
            max_rows = self._compute_max_rows(depth)
            store = partial(self._store_batch, missing, max_rows)
            # the longer texts need these keys and values
            deque(self._executor.map(store, len(missing), max_rows), maxlen=0)

    def _is_readable(self, length: int) -> bool:
        try:
            self._model.check_texts(self._prompt_tokens, length)
        except UnusableText:
            return False
        return True

    def _read_prompt(self) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Return the keys and values of the prompt, and the logits after it.

        Each layer has a pair of tensors of shape (1, tokens, heads, width).
        """
        cache = DynamicCache()
        with torch.inference_mode():
            output = self._forward(np.array([self._prompt_tokens]), cache)
            return [copy_layer(layer) for layer in cache.layers], output.logits[:, -1]

    def _compute_max_rows(self, depth: int) -> int:
        """Return the largest number of rows in a batch that memory allows."""
        prompt_tokens = self._prompt_layers[0][0].shape[1]
        row_bytes = (prompt_tokens + depth) * self._row_bytes + self._prompt_logits.nbytes
        if self._shares_prompt:
            heads: int = getattr(
                self._model.network.config.get_text_config(), "num_attention_heads", 1
            )
            score_bytes = (prompt_tokens + depth) * heads * SCORE_BYTES
            row_bytes += score_bytes - prompt_tokens * self._row_bytes
        batch = self._model.find_memory_bytes() // 2 // (self._executor.threads * row_bytes)
        return min(batch, self._key_value_store.capacity // depth)

    @contextmanager
    def _release_on_failure(self) -> Iterator[None]:
        """Delete stored keys and values if an accelerator's memory runs out."""
        try:
            yield
        except torch.OutOfMemoryError:
            self._thread_state = threading.local()
            with self._lock:
                self._key_value_store.release()
            raise

    @torch.inference_mode()
    def _compute_logits(
        self, batch: np.ndarray, rows: int, max_rows: int, will_extend: bool
    ) -> Tensor:
        layers, output = self._read_last(batch, rows, max_rows)
        # only longer continuations read the stored keys and values
        if will_extend:
            with self._lock:
                self._key_value_store.put(batch, layers)
        logits: Tensor = output.logits[:, -1]
        return logits

    def _forward(self, tokens: np.ndarray, cache: Cache, *, needs_logits: bool = True) -> Any:
        """Return the network's output, whose class depends on the network."""
        # the base model has no output layer, so it computes no logits
        network = self._network if needs_logits else self._network.base_model
        input_ids = torch.from_numpy(tokens).to(self._network.device)
        parameters = inspect.signature(network.forward).parameters
        # transformers 5.24 renamed the argument, and warns of the earlier name
        arguments: dict[str, Any] = {"cache" if "cache" in parameters else "past_key_values": cache}
        if needs_logits and "logits_to_keep" in parameters:
            arguments["logits_to_keep"] = 1
        return network(input_ids=input_ids, use_cache=True, **arguments)

    def _read_last(
        self, batch: np.ndarray, rows: int, max_rows: int, *, needs_logits: bool = True
    ) -> tuple[list[BatchCacheLayer], Any]:
        """Read the last tokens of texts, whose other tokens are stored first.

        Returns:
            The layers with the keys and values of all tokens, and the network's output.
        """
        texts = pad_rows(batch, rows)
        with self._lock:
            self._store_missing_prefixes(batch, max_rows)
            layers = self._allocate_layers(*texts.shape)
            self._key_value_store.fill_layers(texts, layers)
        with share_prompt(self._prompt_layers if self._shares_prompt else None):
            cache = Cache(layers=[*layers])
            return layers, self._forward(texts[:, -1:], cache, needs_logits=needs_logits)

    def _store_missing_prefixes(self, batch: np.ndarray, max_rows: int) -> None:
        """Compute the missing beginnings of continuations, without logits."""
        # most batches continue texts of the batch before
        if self._key_value_store.has_all(batch[:, :-1]):
            return
        for depth in range(1, batch.shape[1]):
            missing_prefixes = self._key_value_store.find_missing(batch[:, :depth])
            # the whole batch must be stored at once: start again with empty tables
            if not self._key_value_store.make_room(len(missing_prefixes)):
                self._key_value_store.clear()
                self._key_value_store.reserve_rows(batch.size)
                self._store_missing_prefixes(batch, max_rows)
                return
            for first, stop, rows in self._executor.split_rows(len(missing_prefixes), max_rows):
                self._store_batch(missing_prefixes, max_rows, first, stop, rows)

    def _store_batch(
        self, continuations: np.ndarray, max_rows: int, first: int, stop: int, rows: int
    ) -> tuple[()]:
        """Compute and store the keys and values of the last tokens of a few texts."""
        batch = continuations[first:stop]
        with torch.inference_mode(), self._release_on_failure():
            layers, _ = self._read_last(batch, rows, max_rows, needs_logits=False)
            with self._lock:
                self._key_value_store.put(batch, layers)
        return ()

    def _allocate_layers(self, rows: int, depth: int) -> list[BatchCacheLayer]:
        """Return layers for a batch, with the prompt filled in.

        A thread reuses its layers until the shape changes.
        """
        if getattr(self._thread_state, "shape", None) != (rows, depth):
            # free the old layers first: memory may be too small for both
            self._thread_state.layers = None
            self._thread_state.layers = [
                BatchCacheLayer(prompt, rows, depth, not self._shares_prompt)
                for prompt in self._prompt_layers
            ]
            self._thread_state.shape = (rows, depth)
        layers: list[BatchCacheLayer] = self._thread_state.layers
        return layers


class CausalModel(Transformer):
    """A causal transformer: next-token logits after the last token of a text."""

    is_uncached = False
    """Whether each text is read from its first token, without stored keys and values."""

    shared_from: int | None = None
    """Number of tokens from which the rows of a batch share the prompt; None for never."""

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt; `start_token` for an empty prompt."""
        return super().encode(start) or (self.start_token,)

    def with_decoding(
        self, decoding: Decoding, end_tokens: frozenset[int] | None = None
    ) -> "CausalModel":
        """Return the model with other decoding settings; both share the network.

        Args:
            decoding: the decoding settings.
            end_tokens: ids of the tokens that end a text; None for those of the decoding, or else
                the model's own.

        Raises:
            ConfigError: the decoding names tokens that the model does not have, or a grammar that
                `LogitsDecoder` rejects.
            MissingTool: a grammar needs a package that is not installed.
        """
        model = copy(self)
        model.decoder, model.is_truncated = None, decoding.is_truncating
        model.compares_prompt = decoding.compares_prompt
        if end_tokens is None:
            end_tokens = self.own_end_tokens
        # a decoding without effect needs no processor
        if decoding:
            try:
                end_tokens = find_end_tokens(self.tokenizer, decoding.end_tokens) or end_tokens
                token_bytes = self.token_bytes if decoding.grammar_setting else None
                model.decoder = LogitsDecoder(
                    decoding, self.vocabulary_size, end_tokens, token_bytes
                )
            except ConfigError as error:
                raise ConfigError(f"decoding: {self.name}: {error}") from error
        # a least length still excludes the tokens that end no text, as in vLLM
        model.end_tokens = frozenset() if decoding.ignore_eos else end_tokens
        return model

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0, *, batch_invariant: bool = True
    ) -> _CausalPrefix | UncachedPrefix:
        """Open the continuations of a prompt."""
        if self.is_uncached:
            return UncachedPrefix(self, prompt, max_length)
        return _CausalPrefix(self, prompt, max_length, batch_invariant)
