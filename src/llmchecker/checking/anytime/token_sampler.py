"""Sampling of next tokens from the `rest` of texts.

A random number chooses a token of a distribution by inversion. If a model lists only its most
probable tokens, the model itself draws another one, with a seed from that number.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from llmchecker.checking.anytime.partial_tree import TailRequest
from llmchecker.errors import InvalidDistribution, InvalidEstimate
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel, Prefix
from llmchecker.models.transformers.batching import TEXT_BYTES
from llmchecker.trees.selection import Selection, select_tokens

_SEED_COUNT = 2**32 - 1
"""The number of seeds that all servers accept; 2^32 - 1 means random."""

_MAX_KEPT_BYTES = 2**29
"""The largest memory of kept distributions."""


class TailSampler:
    """A sampler of tokens from the `rest` of texts.

    It keeps the distributions of the latest texts: a sample that leaves the selected tokens of a
    text needs no second evaluation of the text.

    Attributes:
        evaluated: number of texts that the model evaluated so far.

    Args:
        model: the language model.
        open_prefix: returns the prompt's prefix.
    """

    def __init__(self, model: LanguageModel, open_prefix: Callable[[], Prefix]) -> None:
        self.evaluated = 0
        self._model, self._open_prefix = model, open_prefix
        self._kept: dict[tuple[int, ...], tuple[Distributions, int]] = {}
        logits_bytes = 4 * model.vocabulary_size
        self._max_kept = _MAX_KEPT_BYTES // (logits_bytes + TEXT_BYTES)

    def keep(self, continuations: np.ndarray, distributions: Distributions) -> None:
        """Keep distributions after continuations; the oldest make room."""
        self.evaluated += len(continuations)
        for row, continuation in enumerate(map(tuple, continuations.tolist())):
            # a distribution that is not kept is computed again if it is needed
            if len(self._kept) >= self._max_kept:
                del self._kept[next(iter(self._kept))]
            self._kept[continuation] = distributions, row

    def select(
        self, continuations: np.ndarray, alpha: float, k: int
    ) -> list[tuple[np.ndarray, Selection]]:
        """Return rows with a kept distribution, and the selections after them."""
        selections = []
        for row, continuation in enumerate(map(tuple, continuations.tolist())):
            if (found := self._kept.get(continuation)) is not None:
                distributions, index = found
                part = distributions[index : index + 1]
                selections.append((np.array([row]), select_tokens(part, alpha, k)))
        return selections

    def sample(self, request: TailRequest) -> np.ndarray:
        """Sample a token after each text, in proportion to its probability.

        Returns:
            (n,) int64, token ids.

        Raises:
            InvalidEstimate: all tokens that are not excluded have probability 0.
        """
        if self._model.listed_tokens < self._model.vocabulary_size:
            self.evaluated += len(request.continuations)
            seeds = (request.uniforms * _SEED_COUNT).astype(np.int64).tolist()
            return self._open_prefix().sample_next(request.continuations, request.excluded, seeds)
        rows_of_texts: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for row, text in enumerate(map(tuple, request.continuations.tolist())):
            rows_of_texts[text].append(row)
        tokens = np.empty(len(request.continuations), dtype=np.int64)
        missing = [text for text in rows_of_texts if text not in self._kept]
        for text, rows in rows_of_texts.items():
            if text in self._kept:
                _sample_tokens(*self._kept[text], request, rows, tokens)
        if missing:
            self.evaluated += len(missing)
            # several samples may continue the same text, which the model reads only once
            first_rows = [rows_of_texts[text][0] for text in missing]
            parts = self._open_prefix().map_next(
                lambda positions, part: (positions, part), request.continuations[first_rows]
            )
            for positions, part in parts:
                for index, position in enumerate(positions.tolist()):
                    rows = rows_of_texts[missing[position]]
                    _sample_tokens(part, index, request, rows, tokens)
        return tokens


def _sample_tokens(
    distributions: Distributions,
    index: int,
    request: TailRequest,
    rows: Sequence[int],
    tokens: np.ndarray,
) -> None:
    """Fill in the next tokens of samples that continue the same text.

    Args:
        distributions, index: the distribution after the text.
        request: the request.
        rows: the rows of these samples in the request.
        tokens: (n,) int64, the tokens of all rows of the request.
    """
    # a text that was found twice, listed and unlisted, may have other visits each time
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row in rows:
        groups[request.excluded[row].tobytes()].append(row)
    for group in groups.values():
        excluded = request.excluded[group[0]]
        try:
            tokens[group] = distributions.sample_by_inversion(
                index, request.uniforms[group], excluded
            )
        except InvalidDistribution as error:
            raise InvalidEstimate(f"rest: nothing is left to sample: {error}") from error
