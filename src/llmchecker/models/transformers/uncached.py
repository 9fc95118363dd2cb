"""Next-token distributions from networks that read each text from its start."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.base import Transformer
from llmchecker.models.transformers.batching import join_prompt, pad_rows

_T = TypeVar("_T")


class UncachedPrefix:
    """Continuations for which the network reads each text as a whole.

    Masked models need this, because each of their tokens depends on later ones. Causal models need
    it if their keys and values cannot be stored. It is slower than stored keys and values, with
    equal results.

    Args:
        model: the model that reads the texts.
        prompt: token ids at the beginning of every text.
        max_length: number of tokens after the prompt in the longest text, as far as known.

    Raises:
        UnusableText: the texts are too long for the model.
    """

    def __init__(self, model: Transformer, prompt: Sequence[int], max_length: int = 0) -> None:
        model.check_texts(prompt, max_length)
        self._model = model
        self._prompt = tuple(prompt)
        self._tail = np.array(model.tail, dtype=np.int64)

    def map_next(
        self,
        function: Callable[[np.ndarray, Distributions], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the distributions after each continuation, in batches."""
        # nothing is stored for longer continuations
        del will_extend
        model = self._model
        model.check_texts(self._prompt, continuations.shape[1])
        tokens = len(self._prompt) + continuations.shape[1] + len(self._tail)
        # some networks return logits at every position
        row_bytes = model.vocabulary_size * model.network.dtype.itemsize * tokens
        max_rows = model.find_memory_bytes() // (model.executor.threads * row_bytes)

        def evaluate(first: int, stop: int, padded_rows: int) -> list[_T]:
            batch = continuations[first:stop]
            with torch.inference_mode():
                logits = model.compute_logits(self._build_texts(pad_rows(batch, padded_rows)))
                # masked models predict at the mask, the first token of the tail; causal ones at the
                # last token
                next_logits = logits[:, -max(len(self._tail), 1)]
                rows = np.arange(first, stop)
                return model.map_distributions(function, next_logits, self._prompt, batch, rows)

        yield from model.executor.map(evaluate, len(continuations), max_rows)

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Do nothing: every text is read from its first token."""

    def _build_texts(self, continuations: np.ndarray) -> np.ndarray:
        """Return the texts: prompt, continuation and tail, one in each row."""
        tail = np.broadcast_to(self._tail, (len(continuations), len(self._tail)))
        return np.hstack([join_prompt(self._prompt, continuations), tail])
