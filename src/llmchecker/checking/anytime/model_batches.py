"""Batches of model requests, within a deadline."""

import math
import time
from collections.abc import Callable

import numpy as np

from llmchecker.checking.anytime.anytime_check import Requests
from llmchecker.checking.anytime.partial_tree import ModelRequest, Selections, TailRequest
from llmchecker.checking.anytime.token_sampler import TailSampler
from llmchecker.models.interface import LanguageModel, Prefix
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import iter_selections
from llmchecker.trees.selection import Selection
from llmchecker.utils.processes import is_interrupt

_BATCH_SECONDS = 1.0
"""The wanted duration of a batch: a stop waits for its end."""
_MAX_GROWTH = 4
"""The largest ratio of a batch to the largest batch so far, whose duration was measured."""
_FIRST_TEXTS = 64
"""The number of texts of the first batch without a deadline."""
_CHECK_SECONDS_PER_TEXT = 1e-5
"""The expected seconds of the final check for each text of the tree."""


class BatchSize:
    """The number of texts of the next batch, chosen by the durations of earlier ones.

    Attributes:
        texts: the number of texts.
    """

    def __init__(self, texts: int) -> None:
        self.texts = texts

    def update(self, texts: int, seconds: float, remaining_seconds: float = math.inf) -> None:
        """Choose the size of the next batch by the duration of this one."""
        # the last batch ends in time
        wanted = min(_BATCH_SECONDS, remaining_seconds)
        affordable = texts * wanted / max(seconds, 1e-9)
        self.texts = max(1, int(min(_MAX_GROWTH * max(self.texts, texts), affordable)))


class ModelBatches:
    """The model's answers to requests, in batches that end near a deadline.

    Args:
        model: the language model.
        open_prefix: returns the prompt's prefix.
        distributions: as in `expansion.build_tree`.
        is_cancelled: called between batches.
        deadline: the time by `time.monotonic` at which the answer is due; None for no limit.

    Attributes:
        failure: the error of the model that ended the work; None without an error.
    """

    def __init__(
        self,
        model: LanguageModel,
        open_prefix: Callable[[], Prefix],
        distributions: PromptDistributions | None,
        is_cancelled: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        self._model, self._open_prefix, self._distributions = model, open_prefix, distributions
        self._is_cancelled, self._deadline = is_cancelled, deadline
        self.failure: Exception | None = None
        # a model of unknown speed gets one text at first if time is limited
        self._size = BatchSize(_FIRST_TEXTS if deadline is None else 1)
        self._texts, self._seconds = 0, 0.0
        self._tails = TailSampler(model, open_prefix)

    def must_stop(self, tree_size: int) -> bool:
        """Return whether the work is cancelled or its time is over.

        Args:
            tree_size: number of texts of the tree, whose check takes time too.
        """
        return self._is_cancelled() or self._remaining_seconds(tree_size) <= 0

    def affordable_texts(self, tree_size: int) -> float | None:
        """Return the number of texts that the remaining time allows; None for no limit."""
        if self._deadline is None or self._texts == 0:
            return None
        return max(0.0, self._remaining_seconds(tree_size)) * self._texts / self._seconds

    def serve(self, requests: Requests, get_tree_size: Callable[[], int]) -> None:
        """Answer requests until there are no more, or until the work must stop.

        An error of the model ends the work too, as `failure`.
        """
        answer: Selections | np.ndarray | None = None
        try:
            while True:
                start_time = time.monotonic()
                request = requests.send(answer)
                # the work between two requests slows down passes as well
                self._seconds += time.monotonic() - start_time
                answer = self._answer(request, get_tree_size())
                if answer is None:
                    requests.close()
                    return
        except StopIteration:
            return
        finally:
            # the next run reads these distributions from the cache
            if self._distributions is not None:
                self._distributions.save()

    def _remaining_seconds(self, tree_size: int) -> float:
        if self._deadline is None:
            return math.inf
        return self._deadline - time.monotonic() - tree_size * _CHECK_SECONDS_PER_TEXT

    def _answer(
        self, request: ModelRequest | TailRequest, tree_size: int
    ) -> Selections | np.ndarray | None:
        """Answer one request in batches; None if the work must stop or the model fails."""
        try:
            return self._answer_batches(request, tree_size)
        # the answer so far stays right, because the tree has only complete requests
        except Exception as error:
            if is_interrupt(error):
                raise
            self.failure = error
            return None

    def _answer_batches(
        self, request: ModelRequest | TailRequest, tree_size: int
    ) -> Selections | np.ndarray | None:
        parts, done, count = [], 0, len(request.continuations)
        while done < count:
            if self.must_stop(tree_size):
                return None
            rows = np.arange(done, min(count, done + self._size.texts))
            start_time = time.monotonic()
            parts += self._answer_rows(request, rows)
            self._measure(len(rows), time.monotonic() - start_time)
            done += len(rows)
        return parts if isinstance(request, ModelRequest) else np.concatenate(parts)

    def _answer_rows(self, request: ModelRequest | TailRequest, rows: np.ndarray) -> list:
        if isinstance(request, TailRequest):
            return [self._tails.sample(request.select(rows))]
        continuations = request.continuations[rows]
        selections = select_next(
            self._open_prefix, self._distributions, self._tails, continuations, request
        )
        return [(rows[index], selection) for index, selection in selections]

    def _measure(self, texts: int, seconds: float) -> None:
        """Count a batch, and choose the size of the next one."""
        self._texts += texts
        self._seconds += seconds
        self._size.update(texts, seconds, self._remaining_seconds(0))


def select_next(
    open_prefix: Callable[[], Prefix],
    distributions: PromptDistributions | None,
    tails: TailSampler,
    continuations: np.ndarray,
    request: ModelRequest,
) -> list[tuple[np.ndarray, Selection]]:
    """Return rows of continuations and the selections after them.

    Args:
        open_prefix, distributions: as in `expansion.iter_selections`.
        tails: keeps the computed distributions, and serves later visits of the same texts.
        continuations: (n, d) int64, the tokens after the prefix.
        request: alpha, k and whether longer continuations will follow.
    """
    # a second visit of a text needs more tokens of the same distribution
    kept = tails.select(continuations, request.alpha, request.k)
    if distributions is not None:
        for rows, selection in kept:
            distributions.add(continuations[rows], selection)
    is_missing = np.ones(len(continuations), dtype=bool)
    is_missing[[row for rows, _ in kept for row in rows]] = False
    missing = np.flatnonzero(is_missing)
    selections = iter_selections(
        open_prefix,
        distributions,
        continuations[missing],
        request.alpha,
        request.k,
        request.will_extend,
        lambda rows, computed: tails.keep(continuations[missing[rows]], computed),
    )
    return kept + [(missing[rows], selection) for rows, selection in selections]
