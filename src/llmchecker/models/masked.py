"""Masked transformers: the next token is read at a mask appended to the text."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from llmchecker.models.batches import Batches, distributions_of, padded
from llmchecker.models.distributions import Distributions
from llmchecker.models.transformer import Transformer

_T = TypeVar("_T")


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
        self, function: Callable[[Distributions], _T], suffixes: np.ndarray, extended: bool = False
    ) -> Iterator[_T]:
        """Apply a function to the distributions after the prompt and each suffix, in batches."""
        del extended
        config, tokens = self._network.config, len(self._prompt) + suffixes.shape[1]
        row_bytes = config.vocab_size * self._network.dtype.itemsize * (tokens + len(self._tail))
        most = self._memory // (self._batches.threads * row_bytes)

        def evaluated(first: int, behind: int, rows: int) -> list[_T]:
            with torch.inference_mode():
                logits = self._after(padded(suffixes[first:behind], rows))
                return [function(part) for part in distributions_of(logits, behind - first)]

        for results in self._batches.map(evaluated, self._batches.cut(len(suffixes), most)):
            yield from results

    def _after(self, suffixes: np.ndarray) -> Tensor:
        prompt = np.broadcast_to(self._prompt, (len(suffixes), len(self._prompt)))
        tail = np.broadcast_to(self._tail, (len(suffixes), len(self._tail)))
        tokens = torch.from_numpy(np.concatenate([prompt, suffixes, tail], axis=1))
        logits = self._network(input_ids=tokens.to(self._network.device)).logits
        return logits[:, -len(self._tail)]


class MaskedModel(Transformer):
    """A masked transformer: the next token is read at a mask appended to the text."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt, without the separator that would end it."""
        tokens = super().encode(text)
        return tokens[:-1] if tokens[-1] == self.tokenizer.sep_token_id else tokens

    def continuations(self, prompt: Sequence[int]) -> MaskedContinuations:
        tail = (self.tokenizer.mask_token_id, self.tokenizer.sep_token_id)
        return MaskedContinuations(self.network, prompt, tail, self.batches, self.memory_bytes)
