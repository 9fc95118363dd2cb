"""Batches of texts, cut so that a text's answer is the same in all of them.

The answer for a text is the same to the last bit, whatever else is asked: it depends neither on the
batch in which the text stands, nor on the number of threads, nor on memory. Three things ensure
this.

- One thread computes a batch, and several threads compute several batches. A product that is split
  over threads adds in another order.
- On a CPU a row of a product is added in the same order in every batch of at least `FEWEST_ROWS`
  rows, so that smaller batches are padded. Other devices choose an algorithm by the shape, so that
  all their batches have one shape.
- What did not fit into memory is computed again just as it was the first time.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

# Logits come and go by the hundred megabytes; in huge pages that costs a tenth of the page faults.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

MOST_ROWS = 384
"""The largest number of rows of a batch. More would not be faster."""

FEWEST_ROWS = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 64
"""The smallest number of rows of a batch on a CPU. Fewer rows are added in another order; with AVX2
even 48 rows are."""

ROW_STEP = 16
"""The rows of a batch on a CPU are a multiple of this. Other shapes may add in another order."""

SOFTMAX_ELEMENTS = 2**20
"""The largest number of logits that become probabilities at once: 8 MB of float64."""

_T = TypeVar("_T")


class Batches:
    """Threads that compute batches of rows, one batch each.

    Args:
        threads: how many batches are computed at once.
        device: where they are computed; only a CPU has use for more than one thread.
        rows: the size of all batches, for models that keep their bits in one shape only; None to
            leave the size free on a CPU.
    """

    def __init__(self, threads: int = 1, device: str = "cpu", rows: int | None = None) -> None:
        on_cpu = torch.device(device).type == "cpu"
        self.threads = threads if on_cpu else 1
        self.device = device
        if rows is None and not on_cpu:
            rows = MOST_ROWS
        self.fewest, self.step, self.most = (
            (FEWEST_ROWS, ROW_STEP, MOST_ROWS) if rows is None else (rows, rows, rows)
        )
        self._pool = ThreadPoolExecutor(
            self.threads, "batch", initializer=torch.set_num_threads, initargs=(1,)
        )

    def cut(self, n: int, most: int) -> Iterator[tuple[int, int, int]]:
        """Cut n rows into batches of about equal size, so that all threads finish together.

        Args:
            n: the number of rows.
            most: the rows of a batch that memory allows; `fewest` rows are always allowed.

        Yields:
            The first row, the row after the last, and the rows to which the batch is padded.
        """
        largest = max(min(most, self.most) // self.step * self.step, self.fewest)
        rounds = -(-n // (largest * self.threads))
        batches = min(rounds * self.threads, -(-n // self.fewest))
        first = 0
        for left in range(batches, 0, -1):
            rows = -(-(n - first) // (left * self.step)) * self.step
            behind = min(n, first + rows)
            yield first, behind, max(rows, self.fewest)
            first = behind

    def map(self, function: Callable[..., _T], batches: Iterator[tuple]) -> Iterator[_T]:
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

    def run(self, function: Callable[[], _T]) -> _T:
        """Call the function in one of the threads."""
        return self._pool.submit(function).result()


def few_rows(logits: Tensor, wanted: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the first `wanted` rows of logits, a few at a time, each with the first one's number.

    A few rows stay in the processor's cache from the conversion to float64 to the selection of
    tokens. Their number depends on the vocabulary alone, so that a row is always summed alike. The
    last ones may lie beyond `wanted`.
    """
    fitting = max(1, SOFTMAX_ELEMENTS // logits.shape[1])
    rows = min(len(logits), 1 << (fitting.bit_length() - 1))
    for first in range(0, wanted, rows):
        yield first, logits[first : first + rows]


def padded(batch: np.ndarray, rows: int) -> np.ndarray:
    """The batch with its last row repeated up to so many rows."""
    return np.concatenate([batch, np.repeat(batch[-1:], rows - len(batch), axis=0)])
