"""Checks of many start strings side by side, in shared batches.

With truncating decoding a check has few texts of one length at a time, and small batches waste the
processor. So the requests of all active checks for texts of one length are answered together. The
tokens that all prompts share at their beginning are computed once.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from os.path import commonprefix
from typing import Any

import numpy as np

from llmchecker.checking.anytime.anytime_run import AnytimeRun
from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.model_batches import BatchSize, ServerStreams
from llmchecker.checking.anytime.path_sampler import ModelAnswer, Request
from llmchecker.checking.anytime.prompt_reader import PromptReader
from llmchecker.checking.anytime.run import CheckOutcome, name_failure
from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.checking.question import Question
from llmchecker.errors import CancelledCheck
from llmchecker.models.continuation import ContinuationTask
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import ContinuationStream, LanguageModel
from llmchecker.properties.custom_class import FOREIGN_ERRORS
from llmchecker.utils.processes import raise_interrupt

_MAX_ACTIVE = 64
"""The largest number of active checks. Each of them holds its tree in memory."""


_OpenProcess = Callable[[Question], CheckedProcess]
"""Opens the process of a question."""


def check_side_by_side(
    model: LanguageModel,
    questions: Sequence[Question],
    *,
    prompts: Iterable[Start] = (),
    is_wanted: Callable[[int], bool] = lambda index: True,
    open_process: _OpenProcess,
) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield the number of each question and its result, as soon as it is known.

    Any exception of a question is its result, and the other questions go on: one of a quantifier,
    of the check itself, or of the model on a text of the question. Only an interrupt ends all
    questions. A limit of seconds counts the time of all questions that are active together, and the
    question ends at most one batch later. A verdict has bounds, but no value of the final tree and
    no witnesses.

    Args:
        model: the language model.
        questions: the questions; only limits of passes make results reproducible.
        prompts: start strings whose common beginning the questions share, where theirs begin with
            it; without these, their own. The last bits of a result depend on it, so that calls with
            parts of the questions need the same ones.
        is_wanted: returns whether the answer to a question, by its number, is still needed, which
            may depend on the results so far. An active question is cancelled by false, with
            `CancelledCheck` as its result; another one is not begun, and has no result.
        open_process: opens the process of a question on the model.
    """
    groups: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for index, question in enumerate(questions):
        prompt = _encode(model, question.prompt)
        if isinstance(prompt, BaseException):
            yield index, prompt
        else:
            groups[_group_key(model, prompt)].append((index, prompt))
    own = [prompt for group in groups.values() for _, prompt in group]
    encoded = [_encode(model, start) for start in set(prompts)]
    # the call with its question reports an error
    known = [prompt for prompt in encoded if not isinstance(prompt, BaseException)]
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    for prompt in known or own:
        key = _group_key(model, prompt)
        shared[key] = _find_beginning([shared.get(key, prompt), prompt])
    for key, group in groups.items():
        # prompts of a group begin with its key
        with _SharedBatches(model, shared.get(key, key)) as batches:
            yield from _check_group(questions, open_process, is_wanted, group, batches)


def _encode(model: LanguageModel, start: Start) -> tuple[int, ...] | BaseException:
    """Return the tokens of a prompt, or the error that they have."""
    try:
        with _translate_failures(model):
            return tuple(model.encode(start))
    except FOREIGN_ERRORS as error:
        raise_interrupt(error)
        return error


def _group_key(model: LanguageModel, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Return equal keys for prompts whose questions can share a batch."""
    # prompts without a common beginning cannot share a batch, and a decoding that compares texts
    # with the prompt needs the whole prompt
    return prompt if model.compares_prompt else prompt[:1]


def _find_beginning(prompts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the tokens at the beginning of all prompts."""
    return tuple(commonprefix(list(prompts)))  # noqa: RUF071 - of tokens, not paths


def _check_group(
    questions: Sequence[Question],
    open_process: _OpenProcess,
    is_wanted: Callable[[int], bool],
    group: Sequence[tuple[int, tuple[int, ...]]],
    batches: "_SharedBatches",
) -> Iterator[tuple[int, CheckOutcome]]:
    """Check questions whose prompts have a common beginning."""
    waiting = list(group)[::-1]
    jobs: dict[int, _Job] = {}
    while waiting or jobs:
        while waiting and len(jobs) < _MAX_ACTIVE:
            # places become free one by one, but many prompts share batches
            if (len(group) - len(waiting)) % _MAX_ACTIVE == 0:
                following = [each for each in waiting[-_MAX_ACTIVE:] if is_wanted(each[0])]
                batches.read_ahead(questions, following)
            index, _ = waiting.pop()
            if not is_wanted(index):
                continue
            try:
                job = _Job(questions[index], open_process, tuple(batches.shared))
            # a quantifier may fail on the start string
            except FOREIGN_ERRORS as error:
                raise_interrupt(error)
                yield index, error
                continue
            jobs[index] = job
        for index, job in jobs.items():
            if not is_wanted(index):
                job.cancel()
        batches.answer([job for job in jobs.values() if job.request is not None])
        for job in jobs.values():
            job.stop_if_due()
        for index in [index for index, job in jobs.items() if job.request is None]:
            yield index, jobs.pop(index).build_outcome()


class _Job:
    """The check of one question.

    Attributes:
        process: the process of its texts.
        has_deadline: whether the time of the check is limited.
        request: the request that waits for an answer; None once the check has ended.
        rows: (n,) int64, the texts of the request that have no answer yet, the shortest first.
        tails: the tokens after the shared ones of each prompt of a request for next tokens; None
            where a prompt does not begin with the shared ones, or another model reads it.
        reader: reads such prompts.

    Args:
        question: the question.
        open_process: opens its process.
        shared: the tokens at the beginning of the first prompts of all jobs.
    """

    def __init__(
        self, question: Question, open_process: _OpenProcess, shared: tuple[int, ...]
    ) -> None:
        self._shared = shared
        self.has_deadline = question.budget.seconds is not None
        self._is_cancelled = False
        self.request: Request | None = None
        # the quantifiers of a suite are created once for each check
        question = replace(question, asked=question.asked.create_quantifiers())
        self.process = open_process(question)
        self.reader = PromptReader(self.process)
        self._run = AnytimeRun(self.process, question.asked, question.budget)
        self._requests = self._run.check.run()
        self.advance(None)

    def advance(self, answer: ModelAnswer | None) -> None:
        """Pass an answer on, and wait for the next request."""
        self._parts: list[ModelAnswer] = []
        self._answered: list[np.ndarray] = []
        try:
            # a generator that has not begun takes no answer
            self.request = next(self._requests) if answer is None else self._requests.send(answer)
            self.rows = np.arange(len(self.request.continuations))
        except StopIteration:
            self.request = None
        except FOREIGN_ERRORS as error:
            self.fail(error)
        if self.request is not None:
            self._find_tails(self.request)

    def _find_tails(self, request: Request) -> None:
        """Find what follows the shared tokens in the prompts of a request."""
        model, first = self.process.model, self.process.first
        try:
            with _translate_failures(request.parts[0].stage.writer):
                prompts = [part.prompt for part in request.parts]
        except FOREIGN_ERRORS as error:
            self.interrupt(error)
            return
        is_first = request.parts[0] is first
        self.tails: list[tuple[int, ...]] | None = None
        # a server shares the beginnings of continuations itself
        if isinstance(request, ContinuationRequest):
            return
        # a decoding that compares texts with the prompt needs the whole prompt
        if request.parts[0].stage.writer is not model or (model.compares_prompt and not is_first):
            return
        size = len(self._shared)
        if all(prompt[:size] == self._shared for prompt in prompts):
            self.tails = [prompt[size:] for prompt in prompts]
            lengths = np.array([len(tail) for tail in self.tails])
            self.rows = np.argsort(lengths[request.part_of], kind="stable")

    def take_new_tails(self) -> list[tuple[int, ...]]:
        """Return the ends of prompts that begin later parts, once; they rarely have equal lengths.

        The first prompts of all jobs are read together.
        """
        if not isinstance(self.request, StepRequest) or self.tails is None or self._answered:
            return []
        is_new = self.request.continuations.shape[1] == 0 and not self.has_deadline
        is_new = is_new and self.request.parts[0] is not self.process.first
        return [tail for tail in self.tails if len(tail) > 1] if is_new else []

    @property
    def next_rows(self) -> np.ndarray:
        """(n,) int64: the first remaining texts, which have one length."""
        if not isinstance(self.request, StepRequest) or self.tails is None:
            return self.rows
        lengths = np.array([len(tail) for tail in self.tails])[self.request.part_of[self.rows]]
        rows: np.ndarray = self.rows[lengths == lengths[0]]
        return rows

    @property
    def batch_key(self) -> tuple[Any, ...]:
        """A key, length first; jobs of equal keys can share a batch."""
        request = self.request
        # only jobs with a request are in a batch
        assert request is not None
        # continuations begin at texts of any lengths
        if isinstance(request, ContinuationRequest):
            return (0, id(request.parts[0].stage.writer))
        length = request.continuations.shape[1]
        if self.tails is None:
            return (length, request.will_extend, id(self))
        tail = self.tails[request.part_of[self.rows[0]]]
        return (len(tail) + length, request.will_extend)

    def receive(self, rows: np.ndarray, answer: ModelAnswer) -> None:
        """Store the answer for the first of the remaining texts; pass a complete one on.

        Args:
            rows: (n,) int64, these texts.
            answer: as if the request had only these texts.
        """
        self.rows = self.rows[len(rows) :]
        self._parts.append(answer)
        self._answered.append(rows)
        if len(self.rows) == 0:
            self.advance(_join_answers(self._parts, self._answered))

    def stop_if_due(self) -> None:
        """End the check if its time is over; its answer so far is right."""
        try:
            if self.request is not None and self._run.must_stop:
                self._close()
        except FOREIGN_ERRORS as error:
            self.fail(error)

    def cancel(self) -> None:
        """End the check unless it has ended."""
        if self.request is not None:
            self._is_cancelled = True
            self._close()

    def fail(self, error: BaseException) -> None:
        """End the check with an error.

        Raises:
            BaseException: the error, if it is an interrupt.
        """
        raise_interrupt(error)
        self._close()
        self._run.error = error

    def interrupt(self, error: BaseException) -> None:
        """End the check with an error of the model, which the answer so far survives.

        Raises:
            BaseException: the error, if it is an interrupt.
        """
        raise_interrupt(error)
        self._close()
        self._run.failure = error

    def build_outcome(self) -> CheckOutcome:
        """Return the answer of the check or its error, and release its memory."""
        try:
            answer = self._run.conclude(bounds_only=True)
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            return error
        return CancelledCheck(answer) if self._is_cancelled else answer

    def _close(self) -> None:
        self._requests.close()
        self.request = None


@dataclass(frozen=True)
class _Share:
    """The texts of a job in one batch.

    Attributes:
        job: the job.
        rows: (n,) int64, the first remaining texts of its request.
    """

    job: _Job
    rows: np.ndarray

    @property
    def step(self) -> StepRequest:
        """The request of the job, which is one for next tokens."""
        assert isinstance(self.job.request, StepRequest)
        return self.job.request

    @property
    def writer(self) -> LanguageModel:
        """The model that the job requests something of."""
        assert self.job.request is not None
        return self.job.request.parts[0].stage.writer

    @property
    def tasks(self) -> list[ContinuationTask]:
        """The tasks of the job's request, which is one for continuations."""
        assert isinstance(self.job.request, ContinuationRequest)
        tasks = self.job.request.prompted
        return [tasks[row] for row in self.rows.tolist()]


class _SharedBatches(AbstractContextManager["_SharedBatches"]):
    """The model's answers to requests of several jobs, whose prompts begin alike.

    Attributes:
        shared: the tokens at the beginning of every prompt.

    Args:
        model: the language model.
    """

    def __init__(self, model: LanguageModel, shared: Sequence[int]) -> None:
        self.shared = shared
        self._model = model
        self._open_prefix = cache(lambda: model.open_prefix(shared))
        self._stack = ExitStack()
        self._streams = ServerStreams(self._stack)
        # a model of unknown speed gets one text at first
        self._size = BatchSize(1, model.batch_texts)
        self._length = 0

    def __exit__(self, *error: object) -> None:
        """End requests that are under way."""
        self._stack.close()

    def read_ahead(
        self, questions: Sequence[Question], prompts: Iterable[tuple[int, tuple[int, ...]]]
    ) -> None:
        """Read the ends of prompts together; they rarely have equal lengths.

        Args:
            questions: the questions.
            prompts: the number of a question and its prompt.
        """
        # the first request of a job reads the last token
        tails = [
            prompt[len(self.shared) : -1]
            for index, prompt in prompts
            if prompt[: len(self.shared)] == tuple(self.shared)
            # this takes longer than the one batch by which a deadline may be exceeded
            and questions[index].budget.seconds is None
        ]
        if not any(tails):
            return
        try:
            with _translate_failures(self._model):
                self._open_prefix().read_ahead(tails)
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            # the request of the job whose prompt fails reports the error

    def answer(self, jobs: Sequence[_Job]) -> None:
        """Answer requests for texts of one length, swept from short to long.

        A job whose texts are one token longer waits until the sweep arrives, and joins the batch.
        If any job has a deadline, the batch is limited, and answers only the first texts.
        """
        groups: dict[tuple[Any, ...], list[_Job]] = defaultdict(list)
        for job in jobs:
            groups[job.batch_key].append(job)
        if not groups:
            return
        lengths = [length for length, *_ in groups]
        # a sweep that has passed all texts begins again
        self._length = min((n for n in lengths if n >= self._length), default=min(lengths))
        largest = max(
            (group for (length, *_), group in groups.items() if length == self._length),
            key=lambda group: sum(len(job.next_rows) for job in group),
        )
        has_deadline = any(job.has_deadline for job in jobs)
        # a server works on all continuations of a round at once
        is_limited = has_deadline and not isinstance(largest[0].request, ContinuationRequest)
        self._answer_shares(_split_batch(largest, self._size.texts if is_limited else None))

    def _answer_shares(self, shares: Sequence[_Share]) -> None:
        start_time = time.monotonic()
        answers = None
        try:
            with _translate_failures(shares[0].writer), _locate(shares):
                answers = self._answer_together(shares)
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            if len(shares) == 1:
                shares[0].job.interrupt(error)
                return
        if answers is None:
            # one text may be too long for the model, and only its check must end; after the
            # exception, whose frames would keep the memory of the whole batch
            for share in shares:
                self._answer_shares([share])
            return
        if not isinstance(shares[0].job.request, ContinuationRequest):
            texts = sum(len(share.rows) for share in shares)
            self._size.update(texts, time.monotonic() - start_time)
        for share, answer in zip(shares, answers, strict=True):
            share.job.receive(share.rows, answer)

    def _answer_together(self, shares: Sequence[_Share]) -> list[ModelAnswer]:
        if isinstance(shares[0].job.request, ContinuationRequest):
            return _continue_together(self._streams.open(shares[0].writer), shares)
        if shares[0].job.tails is None:
            (share,) = shares
            return [share.job.reader.answer(share.step, share.rows)]
        prefix = self._open_prefix()
        for share in shares:
            if tails := share.job.take_new_tails():
                prefix.read_ahead([tail[:-1] for tail in tails])
        parts = [_continue_prompt(share) for share in shares]
        # jobs about one prompt visit the same texts, which are evaluated once
        texts, places = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
        boundaries = np.cumsum([len(part) for part in parts])[:-1]
        places_of = np.split(places.reshape(-1), boundaries)

        def compute_steps(
            rows: np.ndarray, distributions: Distributions
        ) -> list[tuple[np.ndarray, StepResult] | None]:
            return [
                _compute_step(share, places, rows, distributions)
                for share, places in zip(shares, places_of, strict=True)
            ]

        will_extend = shares[0].step.will_extend
        chunks = list(prefix.map_next(compute_steps, texts, will_extend))
        return [
            _join_found([found for found in column if found is not None])
            for column in zip(*chunks, strict=True)
        ]


def _continue_together(stream: ContinuationStream, shares: Sequence[_Share]) -> list[ModelAnswer]:
    """Return the continuations of each share; the server works on all of them at once."""
    tasks = [share.tasks for share in shares]
    expected = [
        task
        for share in shares
        if isinstance(share.job.request, ContinuationRequest)
        for task in share.job.request.expected_prompted
    ]
    answers = stream.continue_texts(list(chain.from_iterable(tasks)), expected)
    return [list(islice(answers, len(each))) for each in tasks]


def _join_answers(parts: Sequence[ModelAnswer], rows: Sequence[np.ndarray]) -> ModelAnswer:
    """Join the answers to the texts of one request.

    Args:
        parts: the answers.
        rows: the texts of each.
    """
    results = [part for part in parts if isinstance(part, StepResult)]
    if not results:
        return [each for part in parts if isinstance(part, list) for each in part]
    return StepResult.join(results, rows)


def _compute_step(
    share: _Share, places: np.ndarray, rows: np.ndarray, distributions: Distributions
) -> tuple[np.ndarray, StepResult] | None:
    """Compute the next tokens of a share's texts that are among some evaluated texts.

    Args:
        share: the share.
        places: (n,) int64, the number of each text of the share among the evaluated texts.
        rows: (m,) int64, the numbers of these evaluated texts, which rise.
        distributions: the m distributions.

    Returns:
        The positions in the share, and their results; None for no text.
    """
    positions = np.flatnonzero((places >= rows[0]) & (places <= rows[-1]))
    if len(positions) == 0:
        return None
    indices = places[positions] - rows[0]
    is_whole = len(indices) == len(rows) and (np.diff(indices) == 1).all()
    part = distributions if is_whole else distributions.select(indices)
    return positions, share.step.compute_step(share.rows[positions], part)


def _join_found(found: Sequence[tuple[np.ndarray, StepResult]]) -> StepResult:
    """Join the results of `_compute_step`."""
    positions, results = zip(*found, strict=True)
    return StepResult.join(results, positions)


def _split_batch(jobs: Sequence[_Job], max_texts: int | None) -> list[_Share]:
    """Return the shares of the first texts of jobs; of all texts without a limit."""
    shares = []
    for job in jobs:
        rows = job.next_rows[:max_texts]
        if len(rows) == 0:
            break
        shares.append(_Share(job, rows))
        if max_texts is not None:
            max_texts -= len(rows)
    return shares


def _locate(shares: Sequence[_Share]) -> AbstractContextManager[None]:
    """Prefix errors of the block with the place in a conversation, which few shares have alone."""
    job = shares[0].job
    if len(shares) > 1 or job.request is None:
        return nullcontext()
    if isinstance(job.request, ContinuationRequest):
        return job.reader.locate(job.request)
    # a reader of its own names the place itself
    if job.tails is None:
        return nullcontext()
    return job.process.locate(job.request.parts[0].stage)


@contextmanager
def _translate_failures(model: LanguageModel) -> Iterator[None]:
    """Turn an exception of the model into a `CheckFailed`."""
    try:
        yield
    except Exception as error:
        named = name_failure(model, error)
        if named is error:
            raise
        raise named from error


def _continue_prompt(share: _Share) -> np.ndarray:
    """Return the tokens of texts of a job after the shared tokens."""
    assert share.job.tails is not None
    tails = [share.job.tails[part] for part in share.step.part_of[share.rows].tolist()]
    continuations = share.step.continuations[share.rows]
    own = np.array(tails, np.int64).reshape(len(tails), -1)
    return np.concatenate([own, continuations], axis=1)
