"""Batches of texts, split so that a text's result is the same in every batch.

The result for a text is the same to the last bit, whatever the other requests are. It depends
neither on the batch of the text, nor on the number of threads, nor on memory. Three rules ensure
this.

- One thread computes a batch, and several threads compute several batches. A product that is split
  over threads adds its terms in another order.
- On a CPU, every batch of at least `MIN_ROWS` rows adds the terms of a row in the same order.
  Smaller batches are padded. Other devices choose an algorithm by the shape, so all their batches
  have one shape.
- Intermediate results that do not fit into memory are computed again in the same way.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

import numpy as np
import torch
from torch import Tensor

# Logits are allocated and freed in hundreds of MB; huge pages reduce page faults to a tenth.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

MAX_ROWS = 384
"""Largest number of rows in a batch. More rows would not be faster."""

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
"""Largest number of logits that become probabilities at once: 8 MB of float64."""

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


class BatchExecutor:
    """Threads that compute one batch of rows each.

    Args:
        threads: number of batches that are computed at once.
        device: torch device of the batches; only a CPU uses more than one thread.
        rows: number of rows of every batch, for models whose bits depend on the shape; None for any
            number on a CPU.
    """

    def __init__(self, threads: int = 1, device: str = "cpu", rows: int | None = None) -> None:
        is_cpu = torch.device(device).type == "cpu"
        # other devices compute one batch after another
        self.threads = threads if is_cpu else 1
        self.device = device
        # other devices keep their bits in one shape only
        if rows is None and not is_cpu:
            rows = MAX_ROWS
        self.min_rows, self.row_step, self.max_rows = (
            (MIN_ROWS, _ROW_STEP, MAX_ROWS) if rows is None else (rows, rows, rows)
        )
        # a product that is split over threads would add in another order
        self._pool = ThreadPoolExecutor(
            self.threads, "batch", initializer=torch.set_num_threads, initargs=(1,)
        )

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
        self, function: Callable[[*_Arguments], _T], batches: Iterator[tuple[*_Arguments]]
    ) -> Iterator[_T]:
        """Call the function on the arguments of each batch; yield its results in order."""
        futures: deque[Future[_T]] = deque()
        try:
            for batch in batches:
                futures.append(self._pool.submit(function, *batch))
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
        """Call the function in a thread of the pool and return its result."""
        return self._pool.submit(function).result()


def iter_chunks(logits: Tensor, count: int) -> Iterator[tuple[int, Tensor]]:
    """Yield chunks of the first `count` rows of logits, each with its first index.

    A few rows stay in the processor's cache from the conversion to float64 to the selection of
    tokens. The chunk size depends on the vocabulary alone, so a row is always summed in the same
    way. The last chunk may contain rows after `count`.
    """
    max_count = max(1, _MAX_SOFTMAX_ELEMENTS // logits.shape[1])
    rows = min(len(logits), 1 << (max_count.bit_length() - 1))
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
