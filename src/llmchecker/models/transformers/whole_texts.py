"""Next-token distributions after whole texts of any lengths, which share no beginning.

Texts of similar lengths share a batch. Each is padded after its end, where a causal network does
not look, so that no mask and no position changes. The last bits of a result depend on the batch; a
text in a batch of its own has no padding, and always the same bits.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers.causal import CausalModel

_MAX_TOKENS = 4096
"""Largest number of tokens of a batch on a processor. More would not be faster."""

_MAX_PADDING = 8
"""Largest number of tokens after the end of a text."""

_T = TypeVar("_T")


def map_whole_texts(
    model: CausalModel,
    function: Callable[[np.ndarray, Distributions], _T],
    texts: Sequence[Sequence[int]],
) -> Iterator[_T]:
    """Apply a function to the next-token distributions after each text, in batches.

    Args:
        model: the model, whose decoding applies.
        function: maps a few texts and their distributions to a result. The texts are (m,) int64,
            positions in `texts`; every position occurs in one call.
        texts: token ids from the first token on, at least one for each text.

    Yields:
        The function's results.

    Raises:
        UnusableText: a text is too long for the model.
        InvalidDistribution: the logits of a text are not finite.
    """
    for text in texts:
        model.check_texts(text, 0)
    batches = _split_texts(texts, _find_max_tokens(model))
    tasks = (partial(_evaluate, model, function, texts, batch) for batch in batches)
    for results in model.executor.run_all(tasks):
        yield from results


def _find_max_tokens(model: CausalModel) -> int:
    """Return the largest number of tokens of a batch that memory allows."""
    # some networks return logits at every position
    token_bytes = model.vocabulary_size * model.network.dtype.itemsize
    available = model.find_memory_bytes() // (model.executor.threads * token_bytes)
    if model.executor.is_processor:
        return min(available, _MAX_TOKENS)
    return available


def _split_texts(texts: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Yield the positions of the texts of each batch, the shortest texts first."""
    batch: list[int] = []
    for position in sorted(range(len(texts)), key=lambda position: len(texts[position])):
        length = len(texts[position])
        is_too_long = batch and length - len(texts[batch[0]]) > _MAX_PADDING
        # a batch of a single text is always allowed
        if batch and (is_too_long or (len(batch) + 1) * length > max_tokens):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _evaluate(
    model: CausalModel,
    function: Callable[[np.ndarray, Distributions], _T],
    texts: Sequence[Sequence[int]],
    batch: Sequence[int],
) -> list[_T]:
    lengths = [len(texts[position]) for position in batch]
    width = max(lengths)
    # a token of the text itself: a network may lack those for padding
    padded = [[*texts[position], *[texts[position][-1]] * width][:width] for position in batch]
    with torch.inference_mode():
        logits = _compute_last_logits(model, np.array(padded, dtype=np.int64), lengths)
        # the whole texts are continuations of no prompt
        return model.map_distributions(
            function, logits, (), np.array(padded, dtype=np.int64), np.array(batch)
        )


def _compute_last_logits(model: CausalModel, texts: np.ndarray, lengths: Sequence[int]) -> Tensor:
    """Return (n, vocabulary), the logits after the last token of each text."""
    device = model.network.device
    ends = torch.tensor(lengths, device=device) - 1
    settings = dict(model.forward_settings)
    positions = None
    if "logits_to_keep" in settings:
        # the output layer reads only the last tokens of texts
        positions, ends = ends.unique(return_inverse=True)
        settings["logits_to_keep"] = positions
    logits: Tensor = model.network(input_ids=torch.from_numpy(texts).to(device), **settings).logits
    return logits[torch.arange(len(texts), device=logits.device), ends.to(logits.device)]
