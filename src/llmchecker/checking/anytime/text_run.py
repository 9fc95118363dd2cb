"""Runs of questions on models that return texts alone, and the driver of one or several runs.

A sample is a conversation: the answer to a prompt, then the answer to the messages with that
answer, and so on. A single answer is a conversation of one turn.

A sample that is decided early ends early. So samples are counted in the order in which they began,
whatever the order of their ends: a stop never depends on a sample that is not counted. Those that
are under way when the last one is counted leave no value.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.listed_mass import ListedMass
from llmchecker.checking.anytime.run import CheckOutcome, Run
from llmchecker.checking.anytime.text_estimator import TextEstimator
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.errors import CancelledCheck, LLMCheckerError, RequestRefused
from llmchecker.models.decoding.answer_reader import find_reader
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import TextAnswer, TextModel, TextStream
from llmchecker.properties.custom_class import FOREIGN_ERRORS
from llmchecker.properties.property import Property
from llmchecker.utils.processes import raise_interrupt

_FIRST_SAMPLES = 8
"""Number of samples to begin before the first of them is over.

Later at most as many are under way as are over, so that few are paid for in vain.
"""


@dataclass(eq=False)
class TextSample:
    """A sample that is under way.

    Attributes:
        number: its number.
        model: the model that writes the next text.
        stream: the sequence of the next text, which has the number of the sample in it.
        obligation: the obligation of the formula after its answers.
        answers: its answers so far.
        simulated: the messages of simulated users so far.
        truth: the truth of the formula, or the score; None if it is open.
        scores: the scores that decide it.
        is_over: whether no further text is wanted.
    """

    number: int
    model: TextModel
    stream: TextStream
    obligation: int = 0
    answers: list[TextAnswer] = field(default_factory=list)
    simulated: list[TextAnswer] = field(default_factory=list)
    truth: float | None = None
    scores: dict[str, int] = field(default_factory=dict)
    is_over: bool = False


class TextRun(Run):
    """The run of a question to a model that returns texts alone, which a `TextDriver` requests.

    Attributes:
        models: the model, and those of simulated users.
        answer_count: number of answers and simulated messages so far.
        is_exhausted: whether a limit forbids the texts that the run still wants.
        is_unwanted: whether it ended because its answer is not needed.

    Args:
        models: the model, then those of simulated users.
        start: the prompt.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence. `answers` limits the answers and the
            simulated messages of all turns.
        is_cancelled: called while a text is awaited; the work ends when it returns true.
        watch: called with the interval after each round; the work ends when it returns true.
        turns: the largest number of turns; None for single answers.
        sample_texts: the largest number of texts of a sample.
        decide: as in `ListedMass`.
        known_turns: likewise.

    Raises:
        ConfigError: the model does not accept the form of the prompt.
    """

    def __init__(
        self,
        models: Sequence[TextModel],
        start: Start,
        asked: Property,
        budget: Budget,
        is_cancelled: Callable[[], bool],
        watch: Callable[[Progress], bool | None],
        *,
        turns: int | None = None,
        sample_texts: int = 1,
        decide: Callable[[str], bool | None] = lambda beginning: None,
        known_turns: int = 1,
    ) -> None:
        super().__init__(models[0])
        models[0].check_prompt(start)
        self.models = tuple(dict.fromkeys(models))
        self.answer_count = 0
        self.is_exhausted = self.is_unwanted = False
        self._budget, self._is_cancelled, self._watch = budget, is_cancelled, watch
        # each sample may need all of its texts
        self._most = max(1, budget.answers // sample_texts)
        limits = budget.model_copy(update={"answers": self._most})
        masses = None
        if top_logprobs := getattr(models[0], "top_logprobs", 0):
            length = find_reader(models[0]).limit_length(asked.length)
            masses = ListedMass(decide, length, top_logprobs, known_turns)
        self._estimator = TextEstimator(models[0], start, asked, limits, turns, masses)
        self._is_decided = False
        self._requested = self._begun = self._over = 0
        # samples whose next text is not requested, by the model that writes it
        self._waiting: dict[TextModel, deque[TextSample]] = {each: deque() for each in self.models}
        self._uncounted: deque[TextSample] = deque()

    @abstractmethod
    def _create_sample(self, number: int) -> TextSample:
        """Return a sample without a text."""

    @abstractmethod
    def _read(self, sample: TextSample, text: TextAnswer) -> None:
        """Read the next text of a sample: it is over, or has another request."""

    @abstractmethod
    def _join(self, sample: TextSample) -> TextAnswer:
        """Return a sample that is over as one text."""

    @property
    def has_texts(self) -> bool:
        """Whether an answer was received."""
        return self.answer_count > 0

    @property
    def must_stop(self) -> bool:
        """Whether the run is cancelled, or its time is over."""
        return self._is_cancelled() or self._estimator.is_late

    @property
    def is_finished(self) -> bool:
        """Whether the answer is decided, or the work must stop."""
        return self.is_exhausted or not self._is_unsettled or self.must_stop

    @property
    def _is_unsettled(self) -> bool:
        return not self._is_decided and self.failure is None and self.error is None

    def find_wanted(self, model: TextModel) -> TextSample | None:
        """Return the sample whose next text a model should write now; None without one."""
        is_spent = self._requested >= self._budget.answers
        if is_spent or not self._is_unsettled or self.must_stop:
            return None
        if self._waiting[model]:
            return self._waiting[model][0]
        has_room = self._begun - self._over < max(_FIRST_SAMPLES, self._over)
        # only the model begins a sample
        if model is not self.models[0] or self._begun >= self._most or not has_room:
            return None
        return self._create_sample(self._begun)

    def request(self, sample: TextSample) -> None:
        """Count the next text of a sample of `find_wanted` as requested."""
        self._requested += 1
        if sample.number == self._begun:
            self._begun += 1
            self._uncounted.append(sample)
        else:
            self._waiting[sample.model].popleft()

    def receive(self, sample: TextSample, text: TextAnswer) -> None:
        """Read the requested text of a sample, unless the answer is decided."""
        if not self._is_unsettled:
            return
        self.answer_count += 1
        try:
            self._read(sample, text)
            if sample.is_over:
                self._over += 1
            else:
                self._waiting[sample.model].append(sample)
            self._count()
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            self.error = error

    def compute_progress(self) -> Progress:
        """Return the interval so far."""
        return self._estimator.compute_progress()

    @property
    def spent_passes(self) -> None:
        """None: the model makes no passes that a budget counts."""
        return None

    def limit_passes(self, passes: float) -> None:
        """Change nothing, since `answers` limits the texts."""

    def release(self) -> None:
        """Drop the samples that are under way."""
        self._uncounted.clear()

    @cached_property
    def _own_texts(self) -> Iterator[object]:
        """The texts of a run that no other shares."""
        return TextDriver([self]).read_texts()

    def advance(self) -> None:
        """Request texts until the interval narrows."""
        rounds = self._estimator.round_count
        while not self.is_finished and self._estimator.round_count == rounds:
            next(self._own_texts, None)
        if self.error is not None:
            raise self.error

    def complete(self) -> None:
        """Request texts until the answer is decided."""
        deque(self._own_texts, maxlen=0)

    def stop(self) -> None:
        """Want no further text, and receive those that are under way."""
        self._is_decided = self._is_decided or not self.is_finished
        self.complete()

    def finish(self, *, bounds_only: bool = False) -> Answer:
        """Compute the answer from the texts so far, which has no sizes of a tree."""
        limit = None
        if not self._is_decided and not self.must_stop:
            wanted = filter(None, map(self.find_wanted, self.models))
            limits = (each.model.find_spent_limit(each.stream, each.number) for each in wanted)
            limit = next(filter(None, limits), None)
            # this ends the samples under way, whatever they would have become
            for sample in self._uncounted:
                sample.is_over = bool(sample.answers)
            self._count()
        return self._estimator.build_answer(self.answer_count, limit)

    def cancel(self) -> None:
        """Want no further text, unless the run has ended."""
        if not self.is_finished:
            self.is_unwanted = self._is_decided = True

    def _count(self) -> None:
        """Count samples that are over, in the order in which they began."""
        while not self._is_decided and self._uncounted and self._uncounted[0].is_over:
            sample, rounds = self._uncounted.popleft(), self._estimator.round_count
            text_count = len(sample.answers) + len(sample.simulated)
            found = sample.truth, sample.scores
            self._estimator.add(self._join(sample), *found, sample.answers, text_count)
            has_narrowed = self._estimator.round_count > rounds
            is_stopped = has_narrowed and self._watch(self.compute_progress())
            self._is_decided = bool(is_stopped) or self._estimator.is_decided


class AnswerRun(TextRun):
    """A question about single answers.

    Args:
        model: the model.
        start, asked, budget, is_cancelled, watch: as in `TextRun`.

    Raises:
        InvalidQuery: whole answers do not decide the query.
        ConfigError: as in `TextRun`.
    """

    def __init__(
        self,
        model: TextModel,
        start: Start,
        asked: Property,
        budget: Budget,
        is_cancelled: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], bool | None] = lambda progress: None,
    ) -> None:
        text = start if isinstance(start, str) else start.as_text
        self._monitor = AnswerMonitor(asked, text, find_reader(model))
        decide = self._monitor.decide
        super().__init__([model], start, asked, budget, is_cancelled, watch, decide=decide)
        self._stream = TextStream(start, asked.length, budget.seed)

    def _create_sample(self, number: int) -> TextSample:
        return TextSample(number, self.models[0], self._stream)

    def _read(self, sample: TextSample, text: TextAnswer) -> None:
        sample.answers.append(text)
        sample.is_over = True
        if text.is_sample:
            sample.truth, sample.scores = self._monitor.read(text.text, text.has_ended)

    def _join(self, sample: TextSample) -> TextAnswer:
        return sample.answers[0]


_Key = tuple[TextModel, TextStream, int]
"""What a text depends on: its model, its sequence, and its number in the sequence."""


class TextDriver:
    """The requests of one or several runs, which share texts.

    All runs take turns. A text that several runs want is requested once. An error of a provider
    ends all runs that need it, and a refused request those that want its text.

    Args:
        runs: the runs.
    """

    def __init__(self, runs: Iterable[TextRun]) -> None:
        self._active = deque(runs)
        self._models = list(dict.fromkeys(each for run in self._active for each in run.models))
        self._texts: dict[_Key, TextAnswer] = {}
        self._under_way: dict[_Key, list[tuple[TextRun, TextSample]]] = {}
        self._readers: list[TextRun] = []

    def iter_ended(
        self, is_wanted: Callable[[TextRun], bool] = lambda run: True
    ) -> Iterator[TextRun]:
        """Yield each run when it ends, and the last one when no text is under way.

        A run that is not wanted any more, after the end of another, is cancelled.

        Texts that are under way after the last decision are paid, and the model stores them.
        """
        for readers in self.read_texts():
            for run in readers:
                if run.is_finished and run in self._active and len(self._active) > 1:
                    self._active.remove(run)
                    yield run
                    for other in self._active:
                        if not is_wanted(other):
                            other.cancel()
        while self._active:
            yield self._active.popleft()

    def read_texts(self) -> Iterator[list[TextRun]]:
        """Request the texts that the runs want, and yield the runs that have read each."""
        has_read = True
        while has_read:
            has_read = False
            # the models take turns, each until no run wants its texts
            for model in self._models:
                for readers in self._read_model(model):
                    has_read = True
                    yield readers
        for run in self._active:
            run.is_exhausted = True

    def _read_model(self, model: TextModel) -> Iterator[list[TextRun]]:
        requested: deque[_Key] = deque()

        def choose() -> tuple[TextStream, int] | None:
            if (key := self._choose(model)) is None:
                return None
            requested.append(key)
            return key[1:]

        failure: LLMCheckerError | None = None
        try:
            for _, text in model.iter_answers(choose, self._must_stop):
                readers = self._under_way.pop(key := requested.popleft())
                if not isinstance(text, LLMCheckerError):
                    self._texts[key] = text
                    for run, sample in readers:
                        self._receive(run, sample, text)
                elif isinstance(text, RequestRefused):
                    self._fail((run for run, _ in readers), text)
                else:
                    # this would be the error of every further request
                    failure = text
                    break
                yield self._take_readers()
        except LLMCheckerError as error:
            failure = error
        if failure is not None:
            self._fail((run for run in self._active if model in run.models), failure)
            yield self._take_readers()

    def _choose(self, model: TextModel) -> _Key | None:
        """Return the next text to request from a model."""
        for _ in range(len(self._active)):
            run = self._active[0]
            self._active.rotate(-1)
            while (sample := run.find_wanted(model)) is not None:
                key = (model, sample.stream, sample.number)
                is_new = key not in self._texts and key not in self._under_way
                if is_new and model.find_spent_limit(sample.stream, sample.number) is not None:
                    break
                run.request(sample)
                if key in self._texts:
                    self._receive(run, sample, self._texts[key])
                    continue
                self._under_way.setdefault(key, []).append((run, sample))
                if is_new:
                    return key
        return None

    def _must_stop(self) -> bool:
        return bool(self._active) and all(run.must_stop for run in self._active)

    def _receive(self, run: TextRun, sample: TextSample, text: TextAnswer) -> None:
        run.receive(sample, text)
        self._readers.append(run)

    def _fail(self, runs: Iterable[TextRun], error: LLMCheckerError) -> None:
        for run in runs:
            if not run.is_finished:
                run.failure = error
                self._readers.append(run)

    def _take_readers(self) -> list[TextRun]:
        readers, self._readers = self._readers, []
        return readers


def check_texts(
    questions: Sequence[Question],
    open_run: Callable[[Question], TextRun],
    is_wanted: Callable[[int], bool] = lambda index: True,
) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield the number of each question and its outcome, as soon as it is known.

    Questions read the same answers, as in `TextDriver`. An exception is the outcome of its
    question, and an error of the provider that of all questions without one.

    Args:
        questions: the questions to one model.
        open_run: opens the run of a question.
        is_wanted: as in `check_side_by_side`.
    """
    numbers: dict[TextRun, int] = {}
    for number, question in enumerate(questions):
        if not is_wanted(number):
            continue
        try:
            numbers[open_run(question)] = number
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            yield number, error
    for run in TextDriver(numbers).iter_ended(lambda run: is_wanted(numbers[run])):
        outcome: CheckOutcome
        try:
            answer = run.conclude()
            outcome = CancelledCheck(answer) if run.is_unwanted else answer
        except FOREIGN_ERRORS as error:
            raise_interrupt(error)
            outcome = error
        yield numbers.pop(run), outcome
