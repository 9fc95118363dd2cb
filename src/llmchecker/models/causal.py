"""Causal transformers: the next token is read after the last one."""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from llmchecker.deployed.chat import Start
from llmchecker.deployed.decoding import Decoding
from llmchecker.deployed.logits import LogitsDecoder
from llmchecker.errors import ConfigError
from llmchecker.models.batches import padded
from llmchecker.models.distributions import Distributions
from llmchecker.models.transformer import Transformer
from llmchecker.models.whole_texts import WholeTextContinuations

_T = TypeVar("_T")


class CausalContinuations:
    """Continuations by a causal transformer, which reads one token a text.

    The keys and values of the prompt are kept. Those of the last token of suffixes are kept as far
    as memory allows: half of the memory is for them, the other half for the batches. If the
    beginning of a suffix is not kept, it is computed again, once for all texts of a batch that
    begin with it.

    Args:
        model: its `memory_bytes` limit batches and what is kept. A batch of the smallest size runs
            in any case.
        prompt: the tokens with which every text begins.
        deepest: how many tokens the longest text will have after the prompt, as far as is known.

    Raises:
        UnusableText: the texts are too long for the model.
    """

    def __init__(self, model: Transformer, prompt: Sequence[int], deepest: int = 0) -> None:
        model.check_length(prompt, deepest)
        self._model = model
        self._network = model.network
        self._batches = model.batches
        self._memory = model.memory_bytes // 2
        self._lock = threading.Lock()
        self._local = threading.local()
        self._tokens = tuple(prompt)
        self._prompt, self._after_prompt = self._batches.run(self._read)
        self._row_bytes = sum(t[:, 0].nbytes for layer in self._prompt for t in layer)
        self._kept = _Kept(self._prompt, self._memory // self._row_bytes)

    def map(
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the distributions after the prompt and each suffix, in batches."""
        depth = suffixes.shape[1]
        self._model.check_length(self._tokens, depth)
        if depth == 0:
            logits = self._after_prompt.expand(len(suffixes), -1)
            yield from self._batches.run(lambda: self._answers(function, logits, suffixes))
            return
        with self._lock:
            self._kept.hold_at_least(self._batches.fewest * depth)
        most = self._most_rows(depth)

        def evaluated(first: int, behind: int, rows: int) -> list[_T]:
            batch = suffixes[first:behind]
            with torch.inference_mode():
                logits = self._after(batch, rows, most, extended)
                return self._answers(function, logits, batch)

        for results in self._batches.map(evaluated, self._batches.cut(len(suffixes), most)):
            yield from results

    def _answers(
        self, function: Callable[[Distributions], _T], logits: Tensor, suffixes: np.ndarray
    ) -> list[_T]:
        return self._model.answers(function, logits, self._tokens, suffixes)

    def _read(self) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Keys and values of the prompt, (1, tokens, heads, width) a layer, and what follows it."""
        cache = DynamicCache()
        with torch.inference_mode():
            output = self._forward(self._network, np.array([self._tokens]), cache, **self._last)
            layers = [(layer.keys, layer.values) for layer in cache.layers]
            kept = [tuple(t.transpose(1, 2).contiguous() for t in layer) for layer in layers]
            return kept, output.logits[:, -1]

    def _most_rows(self, depth: int) -> int:
        """Rows of a batch of suffixes that memory allows."""
        tokens = self._prompt[0][0].shape[1] + depth
        logits = self._after_prompt.nbytes
        batch = self._memory // (self._batches.threads * (tokens * self._row_bytes + logits))
        return min(batch, self._kept.capacity // depth)

    def _after(self, batch: np.ndarray, rows: int, most: int, extended: bool) -> Tensor:
        texts = padded(batch, rows)
        with self._lock:
            self._keep_beginnings(batch, most)
            cache = self._cache(texts)
        output = self._forward(self._network, texts[:, -1:], cache, **self._last)
        if extended:
            with self._lock:
                self._kept.put(batch, cache)
        return output.logits[:, -1]

    @property
    def _last(self) -> dict[str, Any]:
        """The setting by which a network computes the logits of the last token alone."""
        known = inspect.signature(self._network.forward).parameters
        return {"logits_to_keep": 1} if "logits_to_keep" in known else {}

    def _forward(self, network: PreTrainedModel, tokens: np.ndarray, cache: Cache, **settings):
        input_ids = torch.from_numpy(tokens).to(self._network.device)
        return network(input_ids=input_ids, past_key_values=cache, use_cache=True, **settings)

    def _keep_beginnings(self, batch: np.ndarray, most: int) -> None:
        """Compute the beginnings of the suffixes that are not kept. They need no logits."""
        for depth in range(1, batch.shape[1]):
            missing = self._kept.missing(batch[:, :depth])
            if len(missing) > self._kept.free:
                self._kept.clear()
                self._keep_beginnings(batch, most)
                return
            for first, behind, rows in self._batches.cut(len(missing), most):
                beginnings = missing[first:behind]
                texts = padded(beginnings, rows)
                cache = self._cache(texts)
                self._forward(self._network.base_model, texts[:, -1:], cache)
                self._kept.put(beginnings, cache)

    def _cache(self, suffixes: np.ndarray) -> Cache:
        """The keys and values of all tokens of the texts but their last."""
        layers = self._layers(*suffixes.shape)
        behind = self._prompt[0][0].shape[1]
        for depth in range(1, suffixes.shape[1]):
            rows = self._kept.rows(suffixes[:, :depth])
            for layer, kept in zip(layers, self._kept.layers, strict=True):
                for room, tensor in zip(layer.room, kept, strict=True):
                    torch.index_select(tensor, 0, rows, out=room[:, behind + depth - 1])
        return Cache(layers=layers)

    def _layers(self, rows: int, depth: int) -> list["_Layer"]:
        """Room for a batch, with the prompt in it. A thread uses it again while the shape stays."""
        if getattr(self._local, "shape", None) != (rows, depth):
            # free the old room before the new one is made: both may not fit into memory
            self._local.layers = None
            self._local.layers = [_Layer(prompt, rows, depth) for prompt in self._prompt]
            self._local.shape = (rows, depth)
        return self._local.layers


class _Layer(CacheLayerMixin):
    """Keys and values of one layer for a batch of texts of one length, without their last token.

    Args:
        prompt: keys and values of the prompt, (1, tokens, heads, width) each.
        rows: of the batch.
        depth: how many tokens each text has after the prompt, the last one included.
    """

    is_sliding = False

    def __init__(self, prompt: tuple[Tensor, Tensor], rows: int, depth: int) -> None:
        super().__init__()
        tokens = prompt[0].shape[1]
        self.room = tuple(t.new_empty((rows, tokens + depth, *t.shape[2:])) for t in prompt)
        for room, tensor in zip(self.room, prompt, strict=True):
            room[:, :tokens] = tensor
        self.keys, self.values = (room.transpose(1, 2) for room in self.room)
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """There is nothing left to initialise."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Fill in the last token, and return the keys and values of all."""
        self.keys[:, :, -1:] = key_states
        self.values[:, :, -1:] = value_states
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """The number of tokens before the last one."""
        return self.keys.shape[2] - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The number of tokens that are attended to, and the position of the first of them."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """-1, by which transformers means that there is no maximum."""
        return -1


class _Kept:
    """Keys and values of the last tokens of suffixes, in tables with a fixed number of rows.

    Args:
        prompt: keys and values of the prompt in every layer, which have the shape of a row.
        capacity: the number of rows.
    """

    def __init__(self, prompt: list[tuple[Tensor, Tensor]], capacity: int) -> None:
        self._like = prompt
        self._make(capacity)

    @property
    def free(self) -> int:
        """The number of rows that hold nothing yet."""
        return self.capacity - len(self._row_of)

    def hold_at_least(self, rows: int) -> None:
        """Make room for this many rows, even beyond the limit: the smallest batch needs them."""
        if self.capacity < rows:
            self._make(rows)

    def clear(self) -> None:
        """Forget all."""
        self._row_of = {}

    def missing(self, suffixes: np.ndarray) -> np.ndarray:
        """The distinct suffixes that are not kept."""
        distinct = dict.fromkeys(map(tuple, suffixes.tolist()))
        missing = [suffix for suffix in distinct if suffix not in self._row_of]
        return np.array(missing, dtype=np.int64).reshape(len(missing), suffixes.shape[1])

    def rows(self, suffixes: np.ndarray) -> Tensor:
        """The rows of suffixes, all of which are kept."""
        return torch.tensor([self._row_of[tuple(suffix)] for suffix in suffixes.tolist()])

    def put(self, suffixes: np.ndarray, cache: Cache) -> None:
        """Keep the last token of the texts of a cache, in their order, as long as there is room."""
        new = {tuple(s): i for i, s in enumerate(suffixes.tolist()) if tuple(s) not in self._row_of}
        chosen = list(new.items())[: self.free]
        first = len(self._row_of)
        self._row_of |= {suffix: first + i for i, (suffix, _) in enumerate(chosen)}
        texts = torch.tensor([text for _, text in chosen], dtype=torch.int64)
        for tables, layer in zip(self.layers, cache.layers, strict=True):
            for table, room in zip(tables, layer.room, strict=True):
                table[first : first + len(texts)] = room[texts, -1]

    def _make(self, capacity: int) -> None:
        self.capacity = capacity
        self._row_of: dict[tuple[int, ...], int] = {}
        self.layers = [tuple(t.new_empty((capacity, *t.shape[2:])) for t in p) for p in self._like]


class CausalModel(Transformer):
    """A causal transformer: the next token is read after the last one."""

    reads_whole_texts = False
    """Whether each text is read from its first token, because nothing of it can be kept."""

    def encode(self, start: Start) -> tuple[int, ...]:
        """Tokens of a prompt: for an empty one the token that begins, or else ends, a text."""
        return super().encode(start) or (self.first_token,)

    def decoded(self, decoding: Decoding) -> "CausalModel":
        """The same model with its next tokens chosen as a decoding says; the network is shared.

        Raises:
            ConfigError: the decoding names tokens that the model does not have.
        """
        model = copy(self)
        model.decoder, model.is_cut = None, decoding.cuts
        if decoding:
            try:
                model.decoder = LogitsDecoder(decoding, self.vocabulary_size, self.end_tokens)
            except ConfigError as error:
                raise ConfigError(f"decoding: {self.name}: {error}") from error
        return model

    def continuations(
        self, prompt: Sequence[int], deepest: int = 0
    ) -> CausalContinuations | WholeTextContinuations:
        """Open the continuations of a prompt."""
        if self.reads_whole_texts:
            return WholeTextContinuations(self, prompt, deepest)
        return CausalContinuations(self, prompt, deepest)
