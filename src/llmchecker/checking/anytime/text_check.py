"""Checks of models that return texts alone: every sample is a whole answer.

An answer satisfies the path formula, violates it, or leaves this open: because the formula needs
the division into tokens, because a content filter withheld the answer, or because it was lost. An
open answer counts as violating for the lower end of the interval and as satisfying for the upper
end. So the interval covers the probability, whatever the open answers would have been. Certain
bounds are [0, 1]: texts without probabilities rule nothing out.

For an expected score an answer has a score, and an open one the least or the greatest of all. The
scores are computed with as numbers from 0 to 1.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from llmchecker import __version__
from llmchecker.checking.answer import (
    Answer,
    Costs,
    Evidence,
    Progress,
    Sampled,
    select_trivial_interval,
)
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.answer_monitor import AnswerMonitor
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.anytime.confidence_sequence import (
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.anytime.side_by_side import CheckOutcome, QuestionLike
from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence
from llmchecker.checking.endings import Endings
from llmchecker.checking.interval import Interval
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.sample_values import SampleValues
from llmchecker.checking.witnesses import COUNTEREXAMPLE, CUT, ENDED, WITNESS, Witness
from llmchecker.errors import InterruptedCheck, LLMCheckerError, RequestRefused
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream
from llmchecker.properties.custom_class import FOREIGN_ERRORS
from llmchecker.properties.logic.ast import Expectation
from llmchecker.utils.number_format import format_count
from llmchecker.utils.processes import raise_interrupt

_FIRST_REQUESTS = 8
"""Number of answers to request before the first of them was read.

Later at most as many are under way as were read, so that few are paid for in vain.
"""
_ROUND_SHARE = 8
"""The interval narrows when the number of answers has grown by this part."""
_SCALE_ERROR = 2.0**-50
"""A limit above the relative rounding error of two conversions of a score."""
_MAX_TEXTS = 5
"""Maximum number of texts that satisfy a formula, and of those that violate it."""


class TextCheck:
    """The check of one question on answers, which a caller requests.

    Attributes:
        unit: the noun for a sample.
        budget: the limits on the costs, and the confidence.

    Args:
        model: the model.
        start: the prompt.
        asked: the query, its quantifiers and the horizon.
        budget: as in the attribute.

    Raises:
        InvalidQuery: whole answers do not decide the query.
    """

    unit = "answer"

    def __init__(self, model: TextModel, start: Start, asked: CheckedQuery, budget: Budget) -> None:
        self._model, self._asked, self.budget = model, asked, budget
        self._start = start if isinstance(start, str) else start.as_text
        self._monitor = self._build_monitor()
        self._range = asked.value_range
        self._threshold = find_threshold(asked.query)
        number = None if self._threshold is None else float(self._threshold.number)
        # the lower end is that of the first values, the upper end that of the second
        self._sequences = tuple(ConfidenceSequence(budget.confidence) for _ in range(2))
        self._evidences: tuple[ThresholdEvidence, ...] = ()
        if number is not None:
            error = (1 - budget.confidence) / 2
            self._evidences = tuple(ThresholdEvidence(error, sign, number) for sign in (1, -1))
        self._values: tuple[list[float], list[float]] = ([], [])
        self._read_count = 0
        self._next_round = 1
        self._evidence = MeanEvidence()
        self._finishes: Counter[Finish] = Counter()
        self._repeated_count = self._open_count = self._plural_count = 0
        self._texts: Counter[tuple[bool, str]] = Counter()
        # how the first of equal answers ends, and its scores
        self._readings: dict[tuple[bool, str], tuple[str, dict[str, int]]] = {}
        self._times: list[str] = []
        self._history: list[Progress] = []
        self._start_time = time.monotonic()

    @property
    def count(self) -> int:
        """Number of answers so far."""
        return len(self._values[0])

    @property
    def round_count(self) -> int:
        """Number of rounds after which the interval narrowed."""
        return len(self._history)

    @property
    def is_late(self) -> bool:
        """Whether the time of the check is over."""
        return self.budget.is_late(self._start_time)

    @property
    def is_finished(self) -> bool:
        """Whether the answer is decided or a limit is reached."""
        if self.count >= self.budget.answers or self.is_late:
            return True
        if self._read_count == 0:
            return False
        if self._threshold is not None:
            return self._threshold.compare(self._interval) is not None
        return 0 < self._interval.width <= self.budget.width

    def _build_monitor(self) -> AnswerMonitor | None:
        """Return the monitor of `add`; None for a check that gets the truths themselves."""
        return AnswerMonitor(self._asked, self._start)

    def add(self, answer: TextAnswer) -> None:
        """Read an answer."""
        assert self._monitor is not None
        found: float | None = None
        scores: dict[str, int] = {}
        if answer.is_sample:
            found, scores = self._monitor.read(answer.text, answer.finish == Finish.ENDED)
        self.count_answer(answer, found, scores)

    def count_answer(
        self, answer: TextAnswer, found: float | None, scores: Mapping[str, int]
    ) -> None:
        """Count an answer.

        Args:
            answer: the answer.
            found: the truth or the score that was found; None if it is open.
            scores: the scores that decide it.
        """
        value = None
        if answer.is_sample:
            # an open answer of a whole sample depends on its tokens
            self._open_count += found is None
            if found is not None:
                self._texts[bool(found), answer.text] += 1
                ending = ENDED if answer.finish == Finish.ENDED else CUT
                self._readings.setdefault((bool(found), answer.text), (ending, dict(scores)))
                value = self._normalize(found)
        self._finishes[answer.finish] += 1
        self._repeated_count += answer.is_repeated
        self._plural_count += answer.choice_count > 1
        self._times.append(answer.time)
        self._values[0].append(0.0 if value is None else value)
        self._values[1].append(1.0 if value is None else value)
        self._add_evidence(value)
        for evidence, values in zip(self._evidences, self._values, strict=False):
            evidence.add(values[-1])
        is_decided = any(each.has_refuted_threshold for each in self._evidences)
        is_last = self.count == self.budget.answers
        if is_decided or is_last or self.count >= self._next_round:
            self._narrow()

    def compute_progress(self) -> Progress:
        """Return the interval so far, of the answers that were read."""
        return Progress(
            passes=self.count,
            seconds=time.monotonic() - self._start_time,
            certain=self._range,
            sampled=self._interval if self._read_count > 0 else None,
            samples=self.count,
        )

    def finish(self, limit: str | None = None) -> Answer:
        """Compute the answer from the texts so far.

        Args:
            limit: the limit of tokens or money that ended the check; None for none.
        """
        self._narrow()
        query, count = self._asked.query, self.count
        is_score = isinstance(query.root, Expectation)
        answer = Answer(
            query=query,
            horizon=self._asked.length,
            certain=self._range if is_score else select_trivial_interval(query),
            witnesses=self._list_witnesses(),
            notes=tuple(self._iter_notes(limit)),
            costs=Costs(answers=count, seconds=time.monotonic() - self._start_time),
            versions={"llmchecker": __version__},
            endings=Endings(counted=(self._finishes[Finish.TRUNCATED], count)),
            tally=None if is_score else (self._count_texts(True), self._count_texts(False)),
            history=tuple(self._history),
            evidence=Evidence(
                None,
                self._evidence,
                (*self._list_texts(True), *self._list_texts(False)),
                samples=self._sample_values,
            ),
        )
        answer = self._asked.define(answer)
        if count == 0:
            return answer
        low, high = self._interval.lower, self._interval.upper
        if is_score:
            # scores are converted to numbers from 0 to 1 and back
            margin = _SCALE_ERROR * max(map(abs, (self._range.lower, self._range.upper)))
            low, high = low - margin, high + margin
        answer = answer.with_samples(
            Sampled(
                Interval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf)),
                self._scale(sum(map(sum, self._values)) / (2 * count)),
                self.budget.confidence,
                count,
                self.budget.seed,
            )
        )
        return replace(answer, forecast=forecast_answer(answer, self.budget))

    @property
    def _sample_values(self) -> SampleValues:
        lower, upper = map(np.array, self._values)
        ones = np.ones(self.count)
        values = SampleValues(lower, upper, ones, 0 * ones, ones, ones)
        return values.scale(self._range.lower, self._range.width)

    @property
    def _interval(self) -> Interval:
        if self._evidences:
            low, high = (each.end for each in self._evidences)
        else:
            low, high = self._sequences[0].interval[0], self._sequences[1].interval[1]
        # the two cross as rarely as the interval misses
        return Interval(self._scale(min(low, high)), self._scale(max(low, high)))

    def _normalize(self, value: float) -> float:
        """Return a truth value or a score as a number from 0 to 1."""
        return (value - self._range.lower) / (self._range.width or 1.0)

    def _scale(self, share: float) -> float:
        """Return the probability or the score of a number from 0 to 1."""
        return self._range.lower + share * self._range.width

    def _add_evidence(self, value: float | None) -> None:
        """Add a value to the evidence about a mean; an open one counts as the worst of all."""
        values = np.array([] if value is None else [value])
        planned = self.budget.answers - self.count + 1
        self._evidence = self._evidence.add_round(values, 1, 0.0, 1.0, planned)

    def _narrow(self) -> None:
        """Narrow the interval by the values since the last round."""
        done, count = self._read_count, self.count
        if done == count:
            return
        for evidence in self._evidences:
            evidence.narrow()
        # the sequences are for a number that is only estimated
        sequences = () if self._evidences else self._sequences
        for sequence, values in zip(sequences, self._values, strict=False):
            column = np.array(values)
            sequence.narrow_interval(
                Values(
                    numerator=column[done:],
                    denominator=np.ones(count - done),
                    low=0.0,
                    high=1.0,
                    size=1.0,
                    variances=predict_variances(column[:done], column[done:]),
                    planned=self.budget.answers - done,
                )
            )
        self._read_count = count
        # the size of a round depends on nothing that its answers show
        self._next_round = count + 1 + count // _ROUND_SHARE
        self._history.append(self.compute_progress())

    def _count_texts(self, truth: bool) -> int:
        """Return the number of answers that satisfy or violate the path formula."""
        return sum(count for (found, _), count in self._texts.items() if found is truth)

    def _list_witnesses(self) -> tuple[Witness, ...]:
        """List the most frequent answers that speak against a requirement."""
        if self._threshold is None:
            return ()
        return self._list_texts(self._threshold.comparison not in (">=", ">"))

    def _list_texts(self, truth: bool) -> tuple[Witness, ...]:
        """List the most frequent answers that satisfy or violate the path formula."""
        found = [each for each in self._texts.most_common() if each[0][0] is truth]
        return tuple(
            Witness(
                uid=0,
                text=self._start + text,
                probability=count / self.count,
                kind=WITNESS if truth else COUNTEREXAMPLE,
                rest=False,
                kept=len(self._start),
                ending=self._readings[truth, text][0],
                scores=self._readings[truth, text][1],
            )
            for (_, text), count in found[:_MAX_TEXTS]
        )

    def _iter_notes(self, limit: str | None) -> Iterator[str]:
        count = self.count
        days = sorted({each[:10] for each in self._times if each})
        period = "" if not days else f", as it answered on {days[0]}"
        if len(days) > 1:
            period = f", as it answered from {days[0]} to {days[-1]}"
        yield f"about the sampler of {self._model.description}{period}"
        answers, finishes = format_count(count, self.unit), self._finishes
        for number, problem in (
            (finishes[Finish.FILTERED], "withheld by a content filter"),
            (finishes[Finish.CALLED], "ended in a call of a tool"),
            (finishes[Finish.MISSING], "missing in the provider's responses"),
            (self._repeated_count, "requested again after one was lost"),
            (self._open_count, "undecided without their division into tokens"),
        ):
            if number:
                yield f"{number:,} of {answers} {problem}, counted neither for nor against"
        if self._plural_count:
            yield f"{self._plural_count:,} of {answers} came with others, which were ignored"
        yield from self._asked.notes
        if limit is not None:
            yield limit


@dataclass
class StreamState:
    """The checks that read a sequence of answers.

    Attributes:
        checks: the active checks by the number of their question.
        limit: the largest number of answers that a check may read.
        requested: number of requested answers.
        received: number of received answers.
    """

    checks: dict[int, TextCheck] = field(default_factory=dict)
    limit: int = 0
    requested: int = 0
    received: int = 0

    @property
    def wants_more(self) -> bool:
        """Whether a further answer should be requested now."""
        under_way = self.requested - self.received
        has_room = under_way < max(_FIRST_REQUESTS, self.received)
        return bool(self.checks) and self.requested < self.limit and has_room


def check_texts(
    model: TextModel, questions: Sequence[QuestionLike]
) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield the number of each question and its result, as soon as it is known.

    Questions with the same prompt, length and seed read the same answers. An exception is the
    result of its question, and an error of the provider that of all questions without one.

    Args:
        model: the model.
        questions: the questions.
    """
    yield from _Checks(model, questions).run()


class _Checks:
    """The checks of several questions on one model."""

    def __init__(self, model: TextModel, questions: Sequence[QuestionLike]) -> None:
        self._model, self._questions = model, questions
        self._streams: dict[TextStream, StreamState] = defaultdict(StreamState)
        self._turn = 0

    def run(self) -> Iterator[tuple[int, CheckOutcome]]:
        """Yield the result of each question."""
        for index, question in enumerate(self._questions):
            try:
                asked, budget = question.checked_query.create_quantifiers(), question.budget
                check = TextCheck(self._model, question.prompt, asked, budget)
            except FOREIGN_ERRORS as error:
                raise_interrupt(error)
                yield index, error
                continue
            state = self._streams[TextStream(question.prompt, asked.length, budget.seed)]
            state.checks[index] = check
            state.limit = max(state.limit, budget.answers)
        try:
            for stream, answer in self._model.iter_answers(self._choose_request):
                yield from self._receive(self._streams[stream], answer)
        except LLMCheckerError as error:
            for state in self._streams.values():
                yield from _fail_all(state, error)
            return
        # what is left had no further answer: a limit of the whole run forbids it
        for stream, state in self._streams.items():
            limit = self._model.find_spent_limit(stream, state.received)
            for index, check in state.checks.items():
                yield index, check.finish(limit)

    def _choose_request(self) -> tuple[TextStream, int] | None:
        """Return the next answer to request; all sequences take turns."""
        streams = list(self._streams)
        for offset in range(len(streams)):
            position = (self._turn + offset) % len(streams)
            stream = streams[position]
            state = self._streams[stream]
            number = state.requested
            if state.wants_more and self._model.find_spent_limit(stream, number) is None:
                self._turn = position + 1
                state.requested += 1
                return stream, number
        return None

    def _receive(
        self, state: StreamState, answer: TextAnswer | LLMCheckerError
    ) -> Iterator[tuple[int, CheckOutcome]]:
        state.received += 1
        if isinstance(answer, LLMCheckerError):
            # another provider's failure would be that of every request
            if not isinstance(answer, RequestRefused):
                raise answer
            yield from _fail_all(state, answer)
            return
        for index, check in list(state.checks.items()):
            try:
                check.add(answer)
                outcome: CheckOutcome | None = check.finish() if check.is_finished else None
            except FOREIGN_ERRORS as error:
                raise_interrupt(error)
                outcome = error
            if outcome is not None:
                del state.checks[index]
                yield index, outcome


def _fail_all(state: StreamState, error: LLMCheckerError) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield an error as the result of all checks of a sequence, with their answers so far."""
    checks = dict(state.checks)
    state.checks.clear()
    for index, check in checks.items():
        # without an answer there is no result that the error could hold
        if check.count == 0:
            yield index, error
            continue
        interrupted = InterruptedCheck(str(error), check.finish())
        interrupted.__cause__ = error
        yield index, interrupted
