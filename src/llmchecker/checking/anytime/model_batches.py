"""Batches of model requests, within a deadline."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import cast

import numpy as np

from llmchecker.checking.anytime.path_sampler import ModelAnswer, Request, Requests
from llmchecker.checking.anytime.prompt_reader import PromptReader
from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.errors import InvalidDistribution
from llmchecker.models.continuation import Continuation
from llmchecker.models.interface import ContinuationStream, LanguageModel, TopLogprobsPrefix
from llmchecker.utils.processes import is_interrupt

_BATCH_SECONDS = 1.0
"""The wanted duration of a batch: a stop waits for its end."""
_MAX_GROWTH = 4
"""The largest ratio of a batch to the largest batch so far, whose duration was measured."""
_UNTIMED_TEXTS = 256
"""The least number of texts of a batch without a deadline, for whose end a stop waits.

It does not depend on time, since the last bits of a text may depend on its batch.
"""
_REMEMBERED_SHARE = 0.97
"""The weight of earlier batches in the speed, relative to the next batch.

The first batches are small, and the work between them includes what is computed once.
"""
_LEAST_SECONDS = 1e-9
"""The least duration of a text that a clock shows."""
_CHECK_SECONDS_PER_TEXT = 1e-5
"""The expected seconds of the final check for each text of the tree."""


class BatchSize:
    """The number of texts of the next batch, chosen by the durations of earlier ones.

    Attributes:
        texts: the number of texts.

    Args:
        texts: the number of texts of the first batch.
        least: the number of texts of a batch that is about as fast as one text. A slow model never
            gets smaller batches, which would be as slow.
    """

    def __init__(self, texts: int, least: int) -> None:
        self.texts, self._least = texts, least

    def update(self, texts: int, seconds: float, remaining_seconds: float = math.inf) -> None:
        """Choose the size of the next batch by the duration of this one."""
        speed = texts / max(seconds, _LEAST_SECONDS)
        wanted = min(_MAX_GROWTH * max(self.texts, texts), speed * _BATCH_SECONDS)
        # the last batch ends in time, also on a machine where many texts take longer than one
        self.texts = max(1, int(min(max(self._least, wanted), speed * remaining_seconds)))


class BatchTimes:
    """The durations of batches, as a line in the number of their texts.

    A batch has costs of its own, so that a larger one takes less time for each text. Least squares
    fit the line, and earlier batches count less.
    """

    def __init__(self) -> None:
        self._sums = np.zeros(5)
        # the work before a batch, such as scores of texts, slows down passes as well
        self._seconds_between = 0.0

    def add_work(self, seconds: float) -> None:
        """Add the work before a batch."""
        self._seconds_between += seconds

    def add(self, texts: int, seconds: float) -> None:
        """Add a batch of at least one text."""
        seconds += self._seconds_between
        self._seconds_between = 0.0
        terms = np.array([1.0, texts, seconds, texts * texts, texts * seconds])
        self._sums = _REMEMBERED_SHARE * self._sums + terms

    def expect_texts(self, seconds: float, batches: float) -> float | None:
        """Return the number of texts of all batches of a time; None before the first batch.

        Args:
            seconds: the time.
            batches: the number of batches.
        """
        count, texts, duration, squares, products = self._sums.tolist()
        if count == 0:
            return None
        spread = count * squares - texts * texts
        slope = (count * products - texts * duration) / spread if spread > 0 else 0.0
        own = (duration - slope * texts) / count
        # batches of one size, or durations that vary too much for a line
        if slope <= 0 or own < 0:
            own, slope = 0.0, duration / texts
        return max(0.0, seconds - batches * own) / max(slope, _LEAST_SECONDS)


class ModelBatches:
    """The model's answers to requests, in batches that end near a deadline.

    Args:
        reader: reads the texts of the requests.
        batch_texts: number of texts that the model evaluates about as fast as one.
        is_cancelled: called between batches.
        deadline: the time by `time.monotonic` at which the answer is due; None for no limit.

    Attributes:
        failure: the error of a model that ended the work; None without an error.
        failed_model: the model of the failure.
    """

    def __init__(
        self,
        reader: PromptReader,
        batch_texts: int,
        is_cancelled: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        self._reader = reader
        self._is_cancelled, self._deadline = is_cancelled, deadline
        self.failure: Exception | None = None
        self.failed_model: LanguageModel | None = None
        # a model of unknown speed gets one text at first if time is limited
        texts = max(_UNTIMED_TEXTS, batch_texts) if deadline is None else 1
        self._size = BatchSize(texts, batch_texts)
        self._times = BatchTimes()

    def must_stop(self, tree_size: int) -> bool:
        """Return whether the work is cancelled or its time is over.

        Args:
            tree_size: number of texts of the tree, whose check takes time too.
        """
        return self._is_cancelled() or self._remaining_seconds(tree_size) <= 0

    def affordable_texts(self, tree_size: int, batches: float = 1.0) -> float | None:
        """Return the number of texts that the remaining time allows; None for no limit.

        Args:
            tree_size: number of texts of the tree.
            batches: the number of batches that the texts are in.
        """
        if self._deadline is None:
            return None
        return self._times.expect_texts(max(0.0, self._remaining_seconds(tree_size)), batches)

    def serve(self, requests: Requests, get_tree_size: Callable[[], int]) -> None:
        """Answer requests until there are no more, or until the work must stop.

        An error of the model ends the work too, as `failure`.
        """
        answer: ModelAnswer | None = None
        with contextlib.ExitStack() as stack:
            self._streams = ServerStreams(stack)
            try:
                while True:
                    start_time = time.monotonic()
                    request = next(requests) if answer is None else requests.send(answer)
                    self._times.add_work(time.monotonic() - start_time)
                    answer = self._answer(request, get_tree_size())
                    if answer is None:
                        requests.close()
                        return
            except StopIteration:
                return
            # a second evaluation of a text contradicts the first one
            except InvalidDistribution as error:
                self.failure = error

    def _remaining_seconds(self, tree_size: int) -> float:
        if self._deadline is None:
            return math.inf
        return self._deadline - time.monotonic() - tree_size * _CHECK_SECONDS_PER_TEXT

    def _answer(self, request: Request, tree_size: int) -> ModelAnswer | None:
        """Answer one request in batches; None if the work must stop or the model fails."""
        try:
            if isinstance(request, ContinuationRequest):
                return self._continue_texts(request, tree_size)
            return self._answer_batches(request, tree_size)
        # the answer so far stays right, because the tree has only complete requests
        except Exception as error:
            if is_interrupt(error):
                raise
            self.failure, self.failed_model = error, request.parts[0].stage.writer
            return None

    def _answer_batches(self, request: StepRequest, tree_size: int) -> StepResult | None:
        parts: list[StepResult] = []
        done, count = 0, len(request.continuations)
        while done < count:
            if self.must_stop(tree_size):
                return None
            rows = np.arange(done, min(count, done + self._size.texts))
            start_time = time.monotonic()
            parts.append(self._reader.answer(request, rows))
            texts, seconds = len(rows), time.monotonic() - start_time
            self._times.add(texts, seconds)
            if self._deadline is not None:
                self._size.update(texts, seconds, self._remaining_seconds(0))
            done += texts
        return StepResult.concatenate(parts)

    def _continue_texts(
        self, request: ContinuationRequest, tree_size: int
    ) -> list[Continuation] | None:
        """Return the continuations of a request, the first of them if the work must stop."""
        found: list[Continuation] = []
        if self.must_stop(tree_size):
            return None
        start_time = time.monotonic()
        stream = self._streams.open(request.parts[0].stage.writer)
        # a prompt that its model rejects has a place of its own in the error
        tasks, expected = request.prompted, request.expected_prompted
        with self._reader.locate(request):
            for continuation in stream.continue_texts(tasks, expected):
                found.append(continuation)
                # the server works on all of them at once, and the stream's end cancels the others
                if self.must_stop(tree_size):
                    break
        if tokens := sum(len(continuation.tokens) for continuation in found):
            self._times.add(tokens, time.monotonic() - start_time)
        return found


class ServerStreams:
    """Streams of the continuations that servers sample, each opened at its first use.

    The texts of their tasks begin with their prompts.

    Args:
        stack: closes the streams.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._streams: dict[int, ContinuationStream] = {}

    def open(self, model: LanguageModel) -> ContinuationStream:
        """Return the stream of a model."""
        if id(model) not in self._streams:
            prefix = model.open_prefix(())
            assert hasattr(prefix, "open_stream")
            server = cast("TopLogprobsPrefix", prefix)
            self._streams[id(model)] = self._stack.enter_context(server.open_stream())
        return self._streams[id(model)]
