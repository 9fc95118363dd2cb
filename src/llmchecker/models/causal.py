"""Next-token distributions after many texts that share a prompt, with no more work than it takes.

What is answered for a text is the same to the last bit whatever else is asked for: in which batch
the text stands, how many threads work, and how much memory may be used. Three things ensure it. A
batch is computed by one thread, and several threads compute several batches, since a product that
is split over threads adds in another order. On a CPU a row of a product is added alike in every
batch of at least `FEWEST_ROWS` rows, to which smaller ones are padded; on other devices, which
choose an algorithm by the shape, all batches have one shape. And what did not fit into memory is
computed again just as it was the first time.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from llmchecker.models.distributions import Distributions

# Logits come and go by the hundred megabytes; in huge pages that costs a tenth of the page faults.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

MOST_ROWS = 384
"""Rows of a batch. More would not be faster."""

FEWEST_ROWS = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 64
"""Rows of a batch on a CPU at least. Fewer are added in another order, with AVX2 even 48."""

STEP = 16
"""Rows of a batch on a CPU are a multiple of it, since others may be added in another order."""

SOFTMAX_ELEMENTS = 2**20
"""Logits that become probabilities at once, at most: 8 MB of float64."""

T = TypeVar("T")


class Continuations(Protocol):
    """Next-token distributions after texts that share a prompt."""

    def map(
        self, function: Callable[[Distributions], T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[T]:
        """Apply a function to the next token's distributions after the prompt and each suffix.

        Args:
            function: of the distributions after a few of the suffixes; called in any thread.
            suffixes: (n, d) int64, the tokens after the prompt, d >= 0.
            extended: whether longer suffixes that begin with these will be asked for.

        Yields:
            The function's results for a few rows at a time: n rows in all, in the order given.
        """
        ...


class Batches:
    """Threads that compute batches of rows, one batch each.

    Args:
        threads: batches that are computed at once.
        device: where they are computed; only a CPU has use for more than one thread.
    """

    def __init__(self, threads: int = 1, device: str = "cpu") -> None:
        on_cpu = torch.device(device).type == "cpu"
        self.threads = threads if on_cpu else 1
        self.fewest, self.step = (FEWEST_ROWS, STEP) if on_cpu else (MOST_ROWS, MOST_ROWS)
        self._pool = ThreadPoolExecutor(
            self.threads, "batch", initializer=torch.set_num_threads, initargs=(1,)
        )

    def cut(self, n: int, most: int) -> Iterator[tuple[int, int, int]]:
        """Cut n rows into batches about as large, so that all threads are done at the same time.

        Args:
            most: rows of a batch that memory allows; `FEWEST_ROWS` are always allowed.

        Yields:
            The first row, the row after the last, and the rows to which the batch is padded.
        """
        largest = max(min(most, MOST_ROWS) // self.step * self.step, self.fewest)
        rounds = -(-n // (largest * self.threads))
        batches = min(rounds * self.threads, -(-n // self.fewest))
        first = 0
        for left in range(batches, 0, -1):
            rows = -(-(n - first) // (left * self.step)) * self.step
            behind = min(n, first + rows)
            yield first, behind, max(rows, self.fewest)
            first = behind

    def map(self, function: Callable[..., T], batches: Iterator[tuple]) -> Iterator[T]:
        """Call the function on the arguments of each batch; yield its results in that order."""
        running = deque()
        try:
            for batch in batches:
                running.append(self._pool.submit(function, *batch))
                if len(running) > self.threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()

    def run(self, function: Callable[[], T]) -> T:
        """Call the function in one of the threads."""
        return self._pool.submit(function).result()


class CausalContinuations:
    """Continuations by a causal transformer, which reads one token a text.

    The keys and values of the prompt are kept, and those of the last token of suffixes, as far as
    memory allows: half of it is for them, half for the batches. A suffix's beginning that is not
    kept is computed again, once for all texts of a batch that begin with it.

    Args:
        memory_bytes: limit of what is kept and of the batches, beside the model itself. A batch of
            the smallest shape runs in any case.
    """

    def __init__(
        self, network: PreTrainedModel, prompt: Sequence[int], batches: Batches, memory_bytes: int
    ) -> None:
        self._network = network
        self._batches = batches
        self._memory = memory_bytes // 2
        self._lock = threading.Lock()
        self._local = threading.local()
        self._prompt, self._after_prompt = batches.run(lambda: self._read(prompt))
        self._row_bytes = sum(t[:, 0].nbytes for layer in self._prompt for t in layer)
        self._kept = _Kept(self._prompt, self._memory // self._row_bytes)

    def map(
        self, function: Callable[[Distributions], T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[T]:
        """Apply a function to the distributions after the prompt and each suffix, in batches."""
        depth = suffixes.shape[1]
        if depth == 0:
            logits = self._after_prompt.expand(len(suffixes), -1)
            yield self._batches.run(lambda: function(Distributions.of_logits(logits)))
            return
        with self._lock:
            self._kept.hold_at_least(self._batches.fewest * depth)
        most = self._most_rows(depth)

        def evaluated(first: int, behind: int, rows: int) -> list[T]:
            batch = suffixes[first:behind]
            with torch.inference_mode():
                logits = self._after(batch, rows, most, extended)
                return [function(part) for part in _distributions(logits, len(batch))]

        for results in self._batches.map(evaluated, self._batches.cut(len(suffixes), most)):
            yield from results

    def _read(self, prompt: Sequence[int]) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Keys and values of the prompt, (1, tokens, heads, width) a layer, and what follows it."""
        cache = DynamicCache()
        with torch.inference_mode():
            output = self._forward(self._network, np.array([prompt]), cache, logits_to_keep=1)
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
        padded = _padded(batch, rows)
        with self._lock:
            self._keep_beginnings(batch, most)
            cache = self._cache(padded)
        output = self._forward(self._network, padded[:, -1:], cache, logits_to_keep=1)
        if extended:
            with self._lock:
                self._kept.put(batch, cache)
        return output.logits[:, -1]

    def _forward(self, network: PreTrainedModel, tokens: np.ndarray, cache: Cache, **settings):
        input_ids = torch.from_numpy(tokens).to(self._network.device)
        return network(input_ids=input_ids, past_key_values=cache, use_cache=True, **settings)

    def _keep_beginnings(self, batch: np.ndarray, most: int) -> None:
        """Compute what is not kept of the beginnings of the suffixes; they need no logits."""
        for depth in range(1, batch.shape[1]):
            missing = self._kept.missing(batch[:, :depth])
            if len(missing) > self._kept.free:
                self._kept.clear()
                self._keep_beginnings(batch, most)
                return
            for first, behind, rows in self._batches.cut(len(missing), most):
                beginnings = missing[first:behind]
                padded = _padded(beginnings, rows)
                cache = self._cache(padded)
                self._forward(self._network.base_model, padded[:, -1:], cache)
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
        """Room for a batch with the prompt in it, which this thread used for its batch before."""
        if getattr(self._local, "shape", None) != (rows, depth):
            self._local.layers = None  # frees the old room before the new one is made
            self._local.layers = [_Layer(prompt, rows, depth) for prompt in self._prompt]
            self._local.shape = (rows, depth)
        return self._local.layers


class _Layer(CacheLayerMixin):
    """Keys and values of one layer for a batch whose texts are as long, their last token missing.

    Args:
        prompt: keys and values of the prompt, (1, tokens, heads, width) each.
        rows: of the batch.
        depth: tokens of each text after the prompt, with the missing one.
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
        """Tokens before the missing one."""
        return self.keys.shape[2] - 1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Tokens that are attended to, and where the first of them stands."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """-1, by which transformers means that there is no maximum."""
        return -1


class _Kept:
    """Keys and values of the last tokens of suffixes, in tables of as many rows as memory allows.

    Args:
        prompt: keys and values that tell the shape of a row, for every layer.
        capacity: the number of rows.
    """

    def __init__(self, prompt: list[tuple[Tensor, Tensor]], capacity: int) -> None:
        self._like = prompt
        self._make(capacity)

    @property
    def free(self) -> int:
        """Rows that hold nothing yet."""
        return self.capacity - len(self._row_of)

    def hold_at_least(self, rows: int) -> None:
        """Make room, whatever memory allows, for what a batch of the smallest shape needs."""
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
        """Keep the last token of the first texts of a cache, as many as there is room for."""
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


class MaskedContinuations:
    """Continuations by a masked transformer, which reads the whole text for each.

    Args:
        tail: the mask at which the next token is read, and what closes a text.
        memory_bytes: limit of the logits of all batches; a batch of the smallest shape runs anyway.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        prompt: Sequence[int],
        tail: Sequence[int],
        batches: Batches,
        memory_bytes: int,
    ) -> None:
        self._network = network
        self._prompt = np.array(prompt, dtype=np.int64)
        self._tail = np.array(tail, dtype=np.int64)
        self._batches = batches
        self._memory = memory_bytes

    def map(
        self, function: Callable[[Distributions], T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[T]:
        """Apply a function to the distributions after the prompt and each suffix, in batches."""
        del extended
        config, tokens = self._network.config, len(self._prompt) + suffixes.shape[1]
        row_bytes = config.vocab_size * self._network.dtype.itemsize * (tokens + len(self._tail))
        most = self._memory // (self._batches.threads * row_bytes)

        def evaluated(first: int, behind: int, rows: int) -> list[T]:
            with torch.inference_mode():
                logits = self._after(_padded(suffixes[first:behind], rows))
                return [function(part) for part in _distributions(logits, behind - first)]

        for results in self._batches.map(evaluated, self._batches.cut(len(suffixes), most)):
            yield from results

    def _after(self, suffixes: np.ndarray) -> Tensor:
        prompt = np.broadcast_to(self._prompt, (len(suffixes), len(self._prompt)))
        tail = np.broadcast_to(self._tail, (len(suffixes), len(self._tail)))
        tokens = torch.from_numpy(np.concatenate([prompt, suffixes, tail], axis=1))
        logits = self._network(input_ids=tokens.to(self._network.device)).logits
        return logits[:, -len(self._tail)]


class TableContinuations:
    """Continuations by table look-up.

    Args:
        distribution: the next token's distribution after a tuple of tokens.
    """

    def __init__(
        self, distribution: Callable[[tuple[int, ...]], Sequence[float]], prompt: tuple[int, ...]
    ) -> None:
        self._distribution = distribution
        self._prompt = prompt

    def map(
        self, function: Callable[[Distributions], T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[T]:
        """Apply a function to the distributions after the prompt and each suffix, all at once."""
        del extended
        rows = [self._distribution((*self._prompt, *suffix)) for suffix in suffixes.tolist()]
        table = torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64)
        yield function(Distributions.of_probabilities(table))


def _distributions(logits: Tensor, wanted: int) -> Iterator[Distributions]:
    """Yield the distributions of the first `wanted` rows, a few rows at a time.

    A few rows stay in the processor's cache from the conversion to float64 to the selection of
    tokens. Their number depends on the vocabulary alone, so that a row is always summed alike.
    """
    fitting = max(1, SOFTMAX_ELEMENTS // logits.shape[1])
    rows = min(len(logits), 1 << (fitting.bit_length() - 1))
    for first in range(0, wanted, rows):
        yield Distributions.of_logits(logits[first : first + rows])[: wanted - first]


def _padded(batch: np.ndarray, rows: int) -> np.ndarray:
    """The batch with its last row repeated up to so many rows."""
    return np.concatenate([batch, np.repeat(batch[-1:], rows - len(batch), axis=0)])
