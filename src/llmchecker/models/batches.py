"""Batches of texts, cut so that a text's answer is the same in all of them.

What is answered for a text is the same to the last bit whatever else is asked for: in which batch
the text stands, how many threads work, and how much memory may be used. Three things ensure it. A
batch is computed by one thread, and several threads compute several batches, since a product that
is split over threads adds in another order. On a CPU a row of a product is added alike in every
batch of at least `FEWEST_ROWS` rows, to which smaller ones are padded; on other devices, which
choose an algorithm by the shape, all batches have one shape. And what did not fit into memory is
computed again just as it was the first time.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from llmchecker.models.distributions import Distributions

# Logits come and go by the hundred megabytes; in huge pages that costs a tenth of the page faults.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

MOST_ROWS = 384
"""Rows of a batch. More would not be faster."""

FEWEST_ROWS = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 64
"""Rows of a batch on a CPU at least. Fewer are added in another order, with AVX2 even 48."""

ROW_STEP = 16
"""Rows of a batch on a CPU are a multiple of it, since others may be added in another order."""

SOFTMAX_ELEMENTS = 2**20
"""Logits that become probabilities at once, at most: 8 MB of float64."""

_T = TypeVar("_T")


class Batches:
    """Threads that compute batches of rows, one batch each.

    Args:
        threads: batches that are computed at once.
        device: where they are computed; only a CPU has use for more than one thread.
        rows: all batches have so many, where a model keeps its bits in one shape only.
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
        """Cut n rows into batches about as large, so that all threads are done at the same time.

        Args:
            most: rows of a batch that memory allows; `fewest` are always allowed.

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


def distributions_of(logits: Tensor, wanted: int) -> Iterator[Distributions]:
    """Yield the distributions of the first `wanted` rows, a few rows at a time.

    A few rows stay in the processor's cache from the conversion to float64 to the selection of
    tokens. Their number depends on the vocabulary alone, so that a row is always summed alike.
    """
    fitting = max(1, SOFTMAX_ELEMENTS // logits.shape[1])
    rows = min(len(logits), 1 << (fitting.bit_length() - 1))
    for first in range(0, wanted, rows):
        yield Distributions.of_logits(logits[first : first + rows])[: wanted - first]


def padded(batch: np.ndarray, rows: int) -> np.ndarray:
    """The batch with its last row repeated up to so many rows."""
    return np.concatenate([batch, np.repeat(batch[-1:], rows - len(batch), axis=0)])
