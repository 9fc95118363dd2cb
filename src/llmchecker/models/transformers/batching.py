"""Batches of texts, on a processor split so that a text's result is the same in every batch.

Batch-invariant results are the same to the last bit on a processor, whatever the other requests
are. They depend neither on the batch of the text, nor on the number of threads, nor on memory.
Three rules ensure this.

- One thread computes a batch, and several threads compute several batches. A product that is split
  over threads adds its terms in another order.
- Every batch of at least `MIN_ROWS` rows adds the terms of a row in the same order. Smaller batches
  are padded.
- Intermediate results that do not fit into memory are computed again in the same way.

A batch that is too small for these rules to use all threads is slow. Where results need not be
batch-invariant, all threads compute it together.

An accelerator chooses an algorithm by the shape of the batch, so the last bits of a result depend
on the number of rows. Equal batches have equal bits. A batch has as many rows as there are texts,
up to the number beyond which larger batches are no faster.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import MachineLimit
from llmchecker.models.device import find_free_bytes, is_processor
from llmchecker.utils.number_format import format_count

# Logits are allocated and freed in hundreds of MB; huge pages reduce page faults to a tenth.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

MAX_ROWS = 384
"""Largest number of rows in a batch on a CPU. More rows would not be faster."""

MIN_ROWS = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 64
"""Smallest number of rows in a batch on a CPU.

Smaller batches add in another order; with AVX2 even 48 rows do.
"""

_ROW_STEP = 16
"""Divisor of a batch's rows on a CPU; other shapes may change the order of addition."""

TEXT_BYTES = 1500
"""Memory of a text as a key: about thirty token ids, as Python objects.

Small networks would otherwise fill memory with the keys of stored values.
"""

_MAX_SOFTMAX_ELEMENTS = 2**20
"""Largest number of logits that a CPU turns into probabilities at once: 8 MB of float64."""

_ACCELERATOR_ROW_STEP = 8
"""Divisor of a batch's rows on an accelerator, whose matrix units read rows in groups."""

_ACCELERATOR_LOGIT_BYTES = 64
"""Memory of a logit on an accelerator: float64 probabilities and intermediate results."""

_T = TypeVar("_T")


class BatchExecutor:
    """Threads that compute one batch of rows each.

    Args:
        threads: number of batches that are computed at once.
        device: torch device of the batches; only a CPU uses more than one thread.
        rows: number of rows of every batch, for models whose bits depend on the shape; None for any
            number.
        max_rows: largest number of rows of a batch, if `rows` is None.
    """

    def __init__(
        self,
        threads: int = 1,
        device: str = "cpu",
        rows: int | None = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self.is_processor = is_processor(device)
        # an accelerator computes one batch after another
        self.threads = threads if self.is_processor else 1
        self.device = device
        self.max_rows = max_rows if rows is None else rows
        if rows is not None:
            self.min_rows = self.row_step = rows
        elif self.is_processor:
            self.min_rows, self.row_step = MIN_ROWS, _ROW_STEP
        else:
            self.min_rows = self.row_step = _ACCELERATOR_ROW_STEP
        # a product that is split over threads would add in another order
        self._pool = ThreadPoolExecutor(
            self.threads, "batch", initializer=torch.set_num_threads, initargs=(1,)
        )
        self._shared_pool = ThreadPoolExecutor(
            1, "shared", initializer=torch.set_num_threads, initargs=(self.threads,)
        )
        # other shapes change the bits of such models, or even their results
        self._has_fixed_rows = rows is not None

    def is_shareable(self, n: int, max_rows: int) -> bool:
        """Return whether a batch is so small that all threads together compute it faster.

        Args:
            n: number of rows.
            max_rows: number of rows of a batch that memory allows.
        """
        is_small = n < min(self.threads * self.min_rows, max_rows + 1)
        return self.is_processor and not self._has_fixed_rows and is_small

    def run_shared(self, function: Callable[[], _T]) -> _T:
        """Call the function in a thread whose operations use all threads; return its result."""
        return self._shared_pool.submit(function).result()

    def split_rows(self, n: int, max_rows: int) -> Iterator[tuple[int, int, int]]:
        """Split n rows into batches of about equal size for the threads.

        Args:
            n: number of rows.
            max_rows: number of rows of a batch that memory allows; `min_rows` rows are always
                allowed.

        Yields:
            The first row, the row after the last, and the number of rows after padding.
        """
        max_batch_rows = max(
            min(max_rows, self.max_rows) // self.row_step * self.row_step, self.min_rows
        )
        # -(-a // b) is a / b rounded up
        rounds = -(-n // (max_batch_rows * self.threads))
        batches = min(rounds * self.threads, -(-n // self.min_rows))
        first = 0
        for remaining_batches in range(batches, 0, -1):
            rows = -(-(n - first) // (remaining_batches * self.row_step)) * self.row_step
            stop = min(n, first + rows)
            yield first, stop, max(rows, self.min_rows)
            first = stop

    def map(
        self, function: Callable[[int, int, int], Sequence[_T]], n: int, max_rows: int
    ) -> Iterator[_T]:
        """Call a function on each batch of n rows; yield its results in order.

        A batch for which an accelerator has too little memory is computed again in two halves.
        Later batches have at most the size of a half.

        Args:
            function: maps the first row, the row after the last, and the number of rows after
                padding to results.
            n, max_rows: as in `split_rows`.

        Raises:
            MachineLimit: an accelerator has too little memory for the smallest batch.
        """
        batches = self.split_rows(n, max_rows)
        tasks = (partial(self._compute_batch, function, *batch) for batch in batches)
        yield from chain.from_iterable(self.run_all(tasks))

    def run_all(self, functions: Iterable[Callable[[], _T]]) -> Iterator[_T]:
        """Call each function in a thread of the pool, and yield their results in order."""
        futures: deque[Future[_T]] = deque()
        try:
            for function in functions:
                futures.append(self._pool.submit(function))
                # one batch waits in the queue, so that no thread is idle
                if len(futures) > self.threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            # the caller stopped early: drop the batches that have not started
            for future in futures:
                future.cancel()

    def run(self, function: Callable[[], _T]) -> _T:
        """Call the function in a thread of the pool and return its result.

        Raises:
            MachineLimit: an accelerator has too little memory.
        """
        with suppress(torch.OutOfMemoryError):
            return self._pool.submit(function).result()
        raise self._build_memory_error("a pass")

    def _compute_batch(
        self, function: Callable[[int, int, int], Sequence[_T]], first: int, stop: int, rows: int
    ) -> list[_T]:
        # another batch of this size may have failed already
        if rows <= self.max_rows:
            with suppress(torch.OutOfMemoryError):
                return list(function(first, stop, rows))
            # outside of the block above, the tensors of the failed batch are deleted
            if rows <= self.min_rows:
                raise self._build_memory_error(format_count(self.min_rows, "text"))
            self.max_rows = max(rows // 2, self.min_rows)
        results = []
        for half_first, half_stop, half_rows in self.split_rows(stop - first, self.max_rows):
            bounds = first + half_first, first + half_stop
            results += self._compute_batch(function, *bounds, half_rows)
        return results

    def _build_memory_error(self, subject: str) -> MachineLimit:
        free_bytes = find_free_bytes(self.device)
        free_memory = "" if free_bytes is None else f", {free_bytes / 1e9:.1f} GB free"
        return MachineLimit(
            f"device {self.device}{free_memory}: too little memory for {subject}; use a smaller "
            "dtype, model or prompt, or end other processes on the device"
        )


def iter_chunks(logits: Tensor, count: int) -> Iterator[tuple[int, Tensor]]:
    """Yield chunks of the first `count` rows of logits, each with its first index.

    On a processor, a few rows stay in its cache from the conversion to float64 to the selection of
    tokens. The chunk size depends on the vocabulary alone, so a row is always summed in the same
    way. An accelerator has no such cache: its chunks are as large as half of its free memory
    allows. The last chunk may contain rows after `count`.
    """
    vocabulary_size = logits.shape[1]
    if is_processor(logits.device):
        max_rows = max(1, _MAX_SOFTMAX_ELEMENTS // vocabulary_size)
        max_rows = 1 << (max_rows.bit_length() - 1)
    elif (free_bytes := find_free_bytes(logits.device)) is None:
        max_rows = len(logits)
    else:
        max_rows = max(1, free_bytes // 2 // (_ACCELERATOR_LOGIT_BYTES * vocabulary_size))
    rows = min(len(logits), max_rows)
    for first in range(0, count, rows):
        yield first, logits[first : first + rows]


def pad_rows(batch: np.ndarray, rows: int) -> np.ndarray:
    """Pad a batch to the given number of rows by repeating its last row."""
    return np.concatenate([batch, np.repeat(batch[-1:], rows - len(batch), axis=0)])


def join_prompt(prompt: Sequence[int], continuations: np.ndarray) -> np.ndarray:
    """Return whole texts, (n, tokens) int64: the prompt and each continuation."""
    # the dtype of an empty list would be float64
    prompt_row = np.array(prompt, dtype=np.int64)
    return np.hstack(
        [np.broadcast_to(prompt_row, (len(continuations), len(prompt_row))), continuations]
    )
