"""The top-p processor of transformers, without a sort of the vocabulary where few tokens remain."""

from typing import cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from transformers import LogitsProcessor, TopPLogitsWarper

from llmchecker.models.device import is_processor
from llmchecker.models.distribution import Distributions

_NUCLEUS_SIZES = (64, 1024)
"""The numbers of most probable tokens that are searched for the end of a nucleus, in turn."""

_SUM_LANES = 8
"""The least number of partial sums of a float32 softmax in torch."""


class TopPLogitsProcessor(LogitsProcessor):
    """The logits processor of `top_p`, whose result is that of `TopPLogitsWarper`.

    A processor sorts a vocabulary about as fast as a small network evaluates a text. So only texts
    are sorted whose nucleus is large, or ends at equal logits or within a rounding error.

    Args:
        top_p: the cumulative probability of the tokens that remain.
    """

    def __init__(self, top_p: float) -> None:
        self._sort = TopPLogitsWarper(top_p)
        self._removed = 1 - top_p

    def __call__(self, input_ids: LongTensor, scores: FloatTensor) -> FloatTensor:
        if not is_processor(scores.device):
            return cast(FloatTensor, self._sort(input_ids, scores))
        processed = torch.full_like(scores, -torch.inf)
        rows = torch.arange(len(scores))
        for size in _NUCLEUS_SIZES:
            if len(rows) and size < scores.shape[1]:
                rows = rows[~self._copy_nuclei(scores, rows, size, processed)]
        if len(rows):
            processed[rows] = self._sort(input_ids, cast(FloatTensor, scores[rows]))
        return cast(FloatTensor, processed)

    def _copy_nuclei(self, scores: Tensor, rows: Tensor, size: int, processed: Tensor) -> Tensor:
        """Copy the logits of nuclei of fewer than `size` tokens.

        Args:
            scores: (texts, vocabulary) float32.
            rows: (n,) int64, the texts that are searched.
            size: number of most probable tokens that are searched.
            processed: (texts, vocabulary) float32, -inf in these rows.

        Returns:
            (n,) bool, whether the nucleus of a text was copied.
        """
        values = scores[rows]
        probabilities, tokens = Distributions.from_logits(values).top_k(size)
        # the probability of a token and all less probable ones, by which transformers removes it
        sums = 1 - probabilities.cumsum(dim=1) + probabilities
        is_removed = sums <= self._removed
        # the most probable token stays in any case
        is_removed[:, 0] = False
        # each term of a partial sum adds a rounding error, and a few more follow
        error = (scores.shape[1] / _SUM_LANES + 64) * 2 * torch.finfo(torch.float32).eps
        is_clear = (sums[:, 1:] - self._removed).abs() > error * self._removed
        # equal logits have no order
        first = is_removed.int().argmax(dim=1, keepdim=True)
        last_kept = probabilities.gather(1, (first - 1).clamp(min=0))
        is_clear &= last_kept > probabilities.gather(1, first)
        is_found = is_removed[:, -1] & is_clear.all(dim=1)
        kept = values.gather(1, tokens).masked_fill(is_removed, -torch.inf)
        processed[rows[is_found, None], tokens[is_found]] = kept[is_found]
        return is_found
