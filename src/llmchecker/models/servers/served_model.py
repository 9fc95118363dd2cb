"""A model on a server: its most probable next tokens, and tokens that it samples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from llmchecker.errors import LLMCheckerError, UnusableText, prefix_errors
from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.apis import (
    ContinuationQuestion,
    SampledTokens,
    ServedModelInfo,
    ServerApi,
    check_sampled_token,
)
from llmchecker.models.servers.http_client import RequestPool, ServerClient, ServerSession
from llmchecker.models.servers.sampling_test import SamplingTest
from llmchecker.models.servers.top_logprobs import TopLogprobs, parse_top_logprobs
from llmchecker.models.transformers.base import TokenizedModel
from llmchecker.utils.number_format import format_count

_MAX_SHOWN_CHARACTERS = 40
"""Number of a text's last characters in messages; many texts have the same beginning."""

_T = TypeVar("_T")


class ServedModel(TokenizedModel):
    """A language model on a server, with a local tokenizer.

    Args:
        name: name of the model in trees and messages.
        tokenizer: the model's tokenizer.
        end_tokens: ids of the tokens that end a text.
        vocabulary_size: number of tokens of the model.
        listed_tokens: number of most probable next tokens in a response.
        client: HTTP client of the server.
        api: API of the server.
        info: the server's description of itself and of the model.
        files: sha256 of every file of the model's directory, by name.
    """

    def __init__(
        self,
        name: str,
        tokenizer: PreTrainedTokenizerBase,
        end_tokens: frozenset[int],
        vocabulary_size: int,
        listed_tokens: int,
        client: ServerClient,
        api: ServerApi,
        info: ServedModelInfo,
        files: Mapping[str, str],
    ) -> None:
        super().__init__(name, tokenizer, end_tokens)
        self.vocabulary_size = vocabulary_size
        # a small model may have fewer tokens than the configured number
        self.listed_tokens = min(listed_tokens, vocabulary_size)
        self.client = client
        self.api = api
        self.info = info
        self.files = files
        self.sampling_test = SamplingTest()
        # a round fills the requests that may be under way
        self.batch_texts = max(self.batch_texts, client.source.concurrency)

    def encode(self, start: Start) -> tuple[int, ...]:
        """Return the tokens of a prompt; `start_token` for an empty prompt."""
        return super().encode(start) or (self.start_token,)

    def open_prefix(
        self, prompt: Sequence[int], max_length: int = 0, *, batch_invariant: bool = True
    ) -> "_ServedPrefix":
        """Open the continuations of a prompt."""
        # the server decides
        del batch_invariant
        return _ServedPrefix(self, prompt, max_length)


class _ServedPrefix:
    """Continuations whose next tokens a server returns, by concurrent requests.

    Args:
        model: the served model.
        prompt: token ids at the beginning of every text.
        max_length: number of tokens after the prompt in the longest text, as far as known.

    Raises:
        UnusableText: the texts are too long for the server.
    """

    def __init__(self, model: ServedModel, prompt: Sequence[int], max_length: int = 0) -> None:
        self._model = model
        self._prompt = list(prompt)
        self._check_length(max_length)

    def map_next(
        self,
        function: Callable[[np.ndarray, TopLogprobs], _T],
        continuations: np.ndarray,
        will_extend: bool = False,
    ) -> Iterator[_T]:
        """Apply a function to the top log probabilities after continuations, in batches.

        Raises:
            InvalidDistribution: an answer is not part of a distribution; the message names server
                and text.
            SourceUnavailable: the server does not answer.
        """
        # nothing is stored between requests
        del will_extend
        self._check_length(continuations.shape[1])
        size = self._model.client.limits.texts
        starts = range(0, len(continuations), size)
        texts = [continuations[first : first + size].tolist() for first in starts]
        answers = self._model.client.map_concurrently(self._request_top_logprobs, texts)
        for first, distributions in zip(starts, answers, strict=True):
            yield function(np.arange(first, first + len(distributions)), distributions)

    def read_ahead(self, continuations: Sequence[Sequence[int]]) -> None:
        """Do nothing: a server shares beginnings itself."""

    @contextmanager
    def open_stream(self) -> Iterator["_ServedStream"]:
        """Open a stream of continuations; requests that are under way end with it."""
        # a request that waits for a place at the server would use up its time limit
        with self._model.client.open_pool(self._model.api.slots) as pool:
            yield _ServedStream(self, self._model, pool)

    def check_tasks(self, tasks: Sequence[ContinuationTask]) -> None:
        """Check that the server reads texts as long as those of tasks.

        Raises:
            UnusableText: a text is too long.
        """
        for task in tasks:
            self._check_length(len(task.tokens) + task.max_tokens - 1)

    async def request_continuations(
        self, session: ServerSession, tasks: Sequence[ContinuationTask]
    ) -> list[Continuation]:
        """Request a continuation of each task; several have one text and consecutive seeds."""
        model, task = self._model, tasks[0]
        text, begun, seed = self._join_prompt(task.tokens), [], task.seed
        with self.prefix_errors(task.tokens):
            # the bias of a request counts at every position, so the first token is requested alone
            if task.excluded:
                (first,) = await self._request(session, [text], seed=seed, excluded=task.excluded)
                begun, seed = list(first.tokens), task.second_seed
                check_sampled_token(begun[0], task.excluded, model.vocabulary_size)
                if task.max_tokens == 1 or begun[0] in model.end_tokens:
                    nothing = SampledTokens([], [], [])
                    return [self._build_continuation(begun, nothing)]
            answers = await self._request(
                session,
                [text + begun],
                max_tokens=task.max_tokens - len(begun),
                count=len(tasks),
                seed=seed,
            )
            return [self._build_continuation(begun, answer) for answer in answers]

    async def _request_top_logprobs(
        self, session: ServerSession, continuations: list[list[int]]
    ) -> TopLogprobs:
        with self.prefix_errors(continuations[0]):
            texts = list(map(self._join_prompt, continuations))
            answers = await self._request(session, texts)
        rows = []
        for continuation, answer in zip(continuations, answers, strict=True):
            with self.prefix_errors(continuation):
                rows.append(self._parse_lists(answer))
        return TopLogprobs(
            np.concatenate([row.tokens for row in rows]),
            np.concatenate([row.token_probabilities for row in rows]),
            self._model.vocabulary_size,
        )

    async def _request(
        self, session: ServerSession, texts: list[list[int]], **settings: Any
    ) -> list[SampledTokens]:
        model = self._model
        question = ContinuationQuestion(texts, model.listed_tokens, **settings)
        return await model.api.continue_texts(session, model.info.model, question)

    def _parse_lists(self, answer: SampledTokens) -> TopLogprobs:
        model = self._model
        return parse_top_logprobs(
            answer.listed_tokens, answer.logprobs, model.listed_tokens, model.vocabulary_size
        )

    def _build_continuation(self, begun: Sequence[int], answer: SampledTokens) -> Continuation:
        """Build a continuation.

        Args:
            begun: the tokens before the answer, which have no list.
            answer: the server's answer.

        Raises:
            InvalidDistribution: the answer is not part of a distribution.
        """
        for token in answer.tokens:
            check_sampled_token(token, (), self._model.vocabulary_size)
        lists = self._parse_lists(answer)
        tokens = np.array([*begun, *answer.tokens], dtype=np.int64)
        return Continuation(tokens, lists.tokens, lists.token_probabilities)

    @contextmanager
    def prefix_errors(self, continuation: Sequence[int]) -> Iterator[None]:
        """Prefix errors with the model, the server and the end of a text."""
        try:
            yield
        except LLMCheckerError as error:
            (end,) = self._model.decode_unfinished([self._join_prompt(continuation)])
            place = f"{self._model.name} at {self._model.client.address}"
            with prefix_errors(f"{place}, after {end[-_MAX_SHOWN_CHARACTERS:]!r}"):
                raise error from None

    def _join_prompt(self, continuation: Sequence[int]) -> list[int]:
        return [*self._prompt, *continuation]

    def _check_length(self, max_length: int) -> None:
        # a request generates one token after the text
        limit, tokens = self._model.info.longest, len(self._prompt) + max_length + 1
        if limit is not None and tokens > limit:
            raise UnusableText(
                f"{self._model.name}: {self._model.client.address} reads at most "
                f"{format_count(limit, 'token')}, but prompt and continuation have {tokens}; "
                "shorten the prompt or L"
            )


class _ServedStream:
    """Continuations that a server samples, by requests that may be under way in advance.

    Args:
        prefix: the prompt's prefix.
        model: the served model.
        pool: the requests.
    """

    def __init__(self, prefix: _ServedPrefix, model: ServedModel, pool: RequestPool) -> None:
        self._prefix, self._model, self._pool = prefix, model, pool
        # for each task its request, and its position in the answer
        self._places: dict[ContinuationTask, tuple[Future[list[Continuation]], int]] = {}
        self._tested: set[Future[list[Continuation]]] = set()

    def continue_texts(
        self, tasks: Sequence[ContinuationTask], expected: Sequence[ContinuationTask] = ()
    ) -> Iterator[Continuation]:
        """Let the server sample continuations, in proportion to the model's probabilities.

        Args:
            tasks: the texts.
            expected: tasks of a later call, whose requests begin after those of this one.

        Yields:
            A continuation of each task, in order.

        Raises:
            InvalidDistribution: an answer is not part of a distribution, or its tokens do not
                follow it; the message names server and text.
            SourceUnavailable: the server does not answer.
        """
        self._begin(tasks)
        self._begin(expected)
        for task in tasks:
            future, position = self._places[task]
            continuations = future.result()
            if future not in self._tested:
                with self._prefix.prefix_errors(task.tokens):
                    self._model.sampling_test.add(continuations)
                self._tested.add(future)
            yield continuations[position]
        for task in tasks:
            self._tested.discard(self._places.pop(task)[0])

    def _begin(self, tasks: Sequence[ContinuationTask]) -> None:
        """Begin with the requests of tasks that are not under way."""
        new = [task for task in dict.fromkeys(tasks) if task not in self._places]
        if not new:
            return
        self._prefix.check_tasks(new)
        groups = _group_tasks(new, self._model.api.max_continuations)
        requests = [[new[index] for index in group] for group in groups]
        futures = self._pool.submit(self._prefix.request_continuations, requests, len)
        for request, future in zip(requests, futures, strict=True):
            self._places |= {task: (future, position) for position, task in enumerate(request)}


def _group_tasks(tasks: Sequence[ContinuationTask], max_tasks: int) -> list[list[int]]:
    """Return the positions of tasks by request: one text, consecutive seeds, no exclusion."""
    groups: list[list[int]] = []
    index_of_last = -1
    for index in sorted(range(len(tasks)), key=lambda index: tasks[index].seed):
        if groups and len(groups[-1]) < max_tasks and _follows(tasks[index], tasks[index_of_last]):
            groups[-1].append(index)
        else:
            groups.append([index])
        index_of_last = index
    # results are needed in the order of the tasks
    return sorted(groups, key=min)


def _follows(task: ContinuationTask, last: ContinuationTask) -> bool:
    """Return whether one request may have both tasks, one after the other."""
    return (
        not task.excluded
        and not last.excluded
        and task.tokens == last.tokens
        and task.max_tokens == last.max_tokens
        and task.seed == last.seed + 1
    )
