"""Next-token distributions from networks that read each text from its first token to its last."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from llmchecker.models.batches import padded
from llmchecker.models.distributions import Distributions
from llmchecker.models.transformer import Transformer

_T = TypeVar("_T")


class WholeTextContinuations:
    """Continuations for which the network reads each text as a whole, and keeps nothing of it.

    Masked models are read in this way, because each of their tokens sees those after it. So are
    causal models whose keys and values cannot be kept. This is slower, and just as right.

    Args:
        prompt: tokens with which every text begins.
        deepest: tokens that the longest text has after the prompt, as far as is known by now.

    Raises:
        UnusableText: texts that are too long for the model.
    """

    def __init__(self, model: Transformer, prompt: Sequence[int], deepest: int = 0) -> None:
        model.check_length(prompt, deepest)
        self._model = model
        self._prompt = np.array(prompt, dtype=np.int64)
        self._tail = np.array(model.tail, dtype=np.int64)

    def map(
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the distributions after the prompt and each suffix, in batches."""
        del extended
        model = self._model
        model.check_length(self._prompt, suffixes.shape[1])
        tokens = len(self._prompt) + suffixes.shape[1] + len(self._tail)
        row_bytes = model.vocabulary_size * model.network.dtype.itemsize * tokens
        most = model.memory_bytes // (model.batches.threads * row_bytes)

        def evaluated(first: int, behind: int, rows: int) -> list[_T]:
            batch = suffixes[first:behind]
            with torch.inference_mode():
                logits = model.logits(self._texts(padded(batch, rows)))
                after = logits[:, -max(len(self._tail), 1)]
                return model.answers(function, after, self._prompt, batch)

        for results in model.batches.map(evaluated, model.batches.cut(len(suffixes), most)):
            yield from results

    def _texts(self, suffixes: np.ndarray) -> np.ndarray:
        """The prompt, a suffix and the tail, for every suffix."""
        prompt = np.broadcast_to(self._prompt, (len(suffixes), len(self._prompt)))
        tail = np.broadcast_to(self._tail, (len(suffixes), len(self._tail)))
        return np.concatenate([prompt, suffixes, tail], axis=1)
