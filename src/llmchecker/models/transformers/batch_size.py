"""The batch size beyond which an accelerator is no faster."""

import math
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from llmchecker.models.transformers.batching import BatchExecutor
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.masked import MaskedModel

_FIRST_ROWS = 64
"""Smallest batch that is timed on an accelerator."""

_MAX_ACCELERATOR_ROWS = 4096
"""Largest batch that is timed on an accelerator."""

_TIMED_PASSES = 3
"""Number of timed passes over a batch; the first one may prepare the device."""

_PROPORTIONAL_GROWTH = 1.8
"""Factor of time for twice the rows, from which on larger batches bring little."""

_measured_rows: dict[tuple[str, str, str, str], int] = {}
"""Measured batch sizes by class, configuration, dtype and device of a network."""


def measure_max_rows(
    model: CausalModel | MaskedModel, prompt: Sequence[int], texts: np.ndarray
) -> int:
    """Measure the batch size beyond which an accelerator's time grows in proportion.

    Batches double until one takes nearly twice the time of the one before, or memory runs out. A
    network of the same configuration on the same device is measured only once in a process.

    Args:
        model: the model; its executor is replaced.
        prompt: token ids of a prompt.
        texts: (n, tokens) int64, continuations.
    """
    device = model.executor.device
    key = (type(model.network).__name__, model.network.config.to_json_string(), model.dtype, device)
    if key in _measured_rows:
        return _measured_rows[key]
    rows, seconds = _FIRST_ROWS, math.inf
    while rows <= _MAX_ACCELERATOR_ROWS:
        model.executor = BatchExecutor(1, device, max_rows=rows)
        batch_seconds = _measure_seconds(model, prompt, np.resize(texts, (rows, texts.shape[1])))
        # a batch that did not fit was computed in parts
        if model.executor.max_rows < rows or batch_seconds > _PROPORTIONAL_GROWTH * seconds:
            break
        rows, seconds = 2 * rows, batch_seconds
    _measured_rows[key] = max(rows // 2, _FIRST_ROWS)
    return _measured_rows[key]


def _measure_seconds(
    model: CausalModel | MaskedModel, prompt: Sequence[int], texts: np.ndarray
) -> float:
    """Return the smallest time of a few passes over a batch."""
    prefix = model.open_prefix(prompt)
    times = []
    for _ in range(_TIMED_PASSES):
        start_time = time.perf_counter()
        # the check of the distributions waits until the device is done
        deque(prefix.map_next(lambda _, part: None, texts), maxlen=0)
        times.append(time.perf_counter() - start_time)
    return min(times)
