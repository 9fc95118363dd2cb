"""The run of a suite: its cases side by side, and their results.

A case ends as soon as it is decided, so its budget is only a limit. The interval of a case holds at
every stop. So each case needs one share of the suite's error probability.
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.checking.answer import Answer, Costs
from llmchecker.checking.decision import Decision, Outcome
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.question import Question
from llmchecker.config.deployment import Deployment
from llmchecker.config.opening import load_opened_model
from llmchecker.errors import CancelledCheck, InterruptedCheck
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.text_answer import TextModel
from llmchecker.properties.custom_class import FOREIGN_ERRORS
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.examples import find_texts
from llmchecker.suites.json_lines import JsonLinesLog
from llmchecker.suites.row_reading import RowReading
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.error_messages import find_user_message
from llmchecker.utils.processes import is_interrupt

if TYPE_CHECKING:
    from llmchecker.checking.anytime.run import CheckOutcome
    from llmchecker.processes.conversation import SimulatedUser
    from llmchecker.trees.shards import Shard


_MAX_UNDER_WAY = 64
"""The largest number of cases that a model in this process or a server evaluates side by side."""
_MAX_BUILT = 4_096
"""Largest number of cases of a model in this process or a server whose questions are in memory."""
_MAX_READ = 256
"""Largest number of cases that are evaluated together while an average may need fewer rows."""
_MAX_PROMPTS = 1_000
"""Largest number of prompts that decide the common beginning."""
_MAX_STORED_ANSWERS = 60
"""Largest number of answers of a conversation that a result has, and a page draws."""


@dataclass(frozen=True)
class SuiteProgress:
    """The progress of a run.

    Attributes:
        decided: number of requirements with a verdict.
        done: number of requirements and rows of averages with a result.
        total: number of requirements and rows of averages.
        passes: number of texts that the model evaluated in this run.
        seconds_left: forecast of the remaining seconds; None without one.
        cases_done: number of cases all of whose requirements have a result.
        cases: number of cases: of prompts, each once for every model.
    """

    decided: int
    done: int
    total: int
    passes: int
    seconds_left: float | None
    cases_done: int
    cases: int


def iter_results(
    suite: Suite,
    open_model: Callable[[Deployment], LazyModel | TextModel],
    log: JsonLinesLog | None,
    *,
    shard: "Shard | None" = None,
    selected: Collection[CaseKey] | None = None,
    is_measuring: bool = False,
    report: Callable[[SuiteProgress], None] = lambda progress: None,
) -> Iterator[CaseResult]:
    """Evaluate the cases of a suite, and yield each result as soon as it is known.

    Any exception of a case becomes its result, and the other cases continue.

    Args:
        suite: the suite.
        open_model: opens the model of a deployment, which may return texts alone.
        log: the log, which may contain results of an earlier run; None for no file.
        shard: the part of the cases to evaluate; None for all.
        selected: the cases to evaluate; None for all. No bit of a result depends on the others.
        is_measuring: whether thresholds must not end cases early, because probabilities are
            compared with those of other results.
        report: called after each case.

    Raises:
        LLMCheckerError: a model cannot be loaded, or the log cannot be written.
    """
    chosen = suite.cases if shard is None else select_shard(suite, shard)
    if selected is not None:
        chosen = [case for case in chosen if case.key in selected]
    find_stored = (lambda case: None) if log is None else log.find
    reading = RowReading(suite, chosen, find_stored, is_measuring=is_measuring)
    chosen = reading.sort_cases(chosen)
    tracker = _ProgressTracker(chosen, report)
    groups: dict[Hashable, list[Case]] = {}
    # by id, since a hundred thousand cases share few deployments
    keys = {id(case.deployment): case.deployment.key for case in chosen}
    for case in chosen:
        groups.setdefault(keys[id(case.deployment)], []).append(case)
    for cases in groups.values():
        opened = open_model(cases[0].deployment)
        evaluator = _Evaluator(
            suite, cases[0].deployment, opened, open_model, is_measuring, log, tracker, reading
        )
        yield from evaluator.run(cases)


def select_shard(suite: Suite, shard: "Shard") -> list[Case]:
    """Select the cases of a shard, without building what they ask.

    All requirements of a prompt are in one shard, which evaluates each text once.
    """
    prompts = dict.fromkeys(case.prompt_key for case in suite.cases)
    selected = set(list(prompts)[shard.number :: shard.count])
    return [case for case in suite.cases if case.prompt_key in selected]


class _ProgressTracker:
    """Counts of a run, and the forecast of its remaining time."""

    def __init__(self, cases: Sequence[Case], report: Callable[[SuiteProgress], None]) -> None:
        self._left = Counter(case.prompt_key for case in cases)
        self._total, self._prompts = len(cases), len(self._left)
        self._report = report
        self._decided = self._done = self._evaluated = self._passes = self._finished = 0
        self._first_time = 0.0

    def update(self, case: Case, result: CaseResult, *, is_stored: bool, under_way: int) -> None:
        """Count the result of a case.

        Args:
            case, result: the case and its result.
            is_stored: whether an earlier run evaluated it.
            under_way: the largest number of cases that are evaluated side by side.
        """
        self._decided += result.status in (Status.HOLDS, Status.VIOLATED)
        self._done += 1
        self._left[case.prompt_key] -= 1
        # to count them anew would take quadratic time
        self._finished += self._left[case.prompt_key] == 0
        # stored results took no time in this run
        self._evaluated += not is_stored
        self._passes += 0 if is_stored else result.passes
        self._report(
            SuiteProgress(
                self._decided,
                self._done,
                self._total,
                self._passes,
                None if is_stored else self._forecast_seconds(under_way),
                self._finished,
                self._prompts,
            )
        )

    def extend(self, cases: Sequence[Case]) -> None:
        """Count cases that are evaluated a second time, whose prompts are not finished."""
        self._total += len(cases)
        for case in cases:
            self._finished -= self._left[case.prompt_key] == 0
            self._left[case.prompt_key] += 1

    def _forecast_seconds(self, under_way: int) -> float | None:
        """Forecast the remaining seconds by the pace since the first result; None without one."""
        current_time = time.monotonic()
        if self._evaluated == 1:
            # a model was loaded before
            self._first_time = current_time
            return None
        remaining = self._total - self._done
        # cases that are all under way may end together
        if remaining <= under_way:
            return None
        return (current_time - self._first_time) / (self._evaluated - 1) * remaining


@dataclass
class _Evaluator:
    """An evaluator of the cases of one deployment."""

    suite: Suite
    deployment: Deployment
    opened: LazyModel | TextModel
    open_model: Callable[[Deployment], LazyModel | TextModel]
    is_measuring: bool
    log: JsonLinesLog | None
    tracker: _ProgressTracker
    reading: RowReading
    users: dict[Deployment, LazyModel | TextModel] = field(default_factory=dict)

    def run(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """Yield the results of cases: first those of the log, then each when it is known."""
        missing = []
        for case in cases:
            stored = None if self.log is None else self.log.find(case)
            if stored is None or not self.reading.is_usable(case, stored):
                missing.append(case)
            else:
                self.reading.add(stored)
                yield stored
                self.tracker.update(case, stored, is_stored=True, under_way=0)
        yield from self._read(missing)
        # all rows may leave an average open that a whole budget of each decides
        second = self.reading.begin_second(cases)
        self.tracker.extend(second)
        yield from self._read(second)

    def _read(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """Yield the result of each case when it is known."""
        # the answers of a model that returns texts alone are requested for all cases in turns
        is_text_only = isinstance(self.opened, TextModel)
        side_by_side = len(cases) if is_text_only else _MAX_UNDER_WAY
        # so that memory has the questions of few cases
        size = len(cases) if is_text_only else _MAX_BUILT
        # rows end in turns, or in groups, and an average may need the first ones alone
        size = min(size, _MAX_READ) if self.reading.is_needed else size
        for part in self.reading.split(cases, size):
            left = {case.key: case for case in part}
            wanted = [case for case in part if self.reading.is_wanted(case)]
            for case, result in self._evaluate(wanted):
                del left[case.key]
                if self.log is not None and result.status is not Status.UNREAD:
                    self.log.add(case, result)
                self.reading.add(result)
                yield result
                self.tracker.update(case, result, is_stored=False, under_way=side_by_side)
            for case in left.values():
                result = CaseResult(case.name, case.deployment.name, Status.UNREAD)
                yield result
                self.tracker.update(case, result, is_stored=True, under_way=0)

    def _evaluate(self, cases: Sequence[Case]) -> Iterator[tuple[Case, CaseResult]]:
        """Yield each case and its result, as soon as it is known."""
        if not cases:
            return
        last_time = time.monotonic()
        plans = [self.reading.plan(case) for case in cases]
        questions = [
            replace(question, budget=plan.scale(question.budget))
            for plan, question in zip(plans, map(self._build_question, cases), strict=True)
        ]
        # imported here: Storm and torch take seconds, and a suite is checked before
        from llmchecker.checking.runs import answer_side_by_side

        model = load_opened_model(self.opened)
        for index, answer in answer_side_by_side(
            model,
            questions,
            self._load_user,
            prompts=self._prompts,
            is_wanted=lambda index: self.reading.is_wanted(cases[index]),
        ):
            # cases share batches, so only the sum of these seconds has a meaning
            seconds = time.monotonic() - last_time
            last_time += seconds
            result = self._build_result(cases[index], answer, seconds)
            result = replace(result, **vars(plans[index]))
            yield cases[index], self.reading.add_first_costs(result)

    @cached_property
    def _prompts(self) -> list[Start]:
        """An even choice of the deployment's prompts, by which questions share beginnings.

        So no bit depends on the cases of other shards, or of an earlier run.
        """
        found = {id(case.deployment): case.deployment for case in self.suite.cases}
        own = {number for number, each in found.items() if each.key == self.deployment.key}
        cases = [case for case in self.suite.cases if id(case.deployment) in own]
        step = -(-len(cases) // _MAX_PROMPTS)
        return [case.question.prompt for case in cases[::step]]

    def _build_question(self, case: Case) -> Question:
        return (case.measure() if self.is_measuring else case).question

    def _load_user(self, user: "SimulatedUser") -> Any:
        """Load the model of a simulated user, whose messages have an end if answers have none."""
        if user.model not in self.users:
            self.users[user.model] = self.open_model(user.model)
        opened = self.users[user.model]
        return opened if isinstance(opened, TextModel) else opened.own_model

    def _build_result(self, case: Case, answer: "CheckOutcome", seconds: float) -> CaseResult:
        failure = answer if isinstance(answer, BaseException) else None
        # the answer before a failure is right, and is kept with the error
        found = answer.result if isinstance(answer, InterruptedCheck) else answer
        if not isinstance(found, Answer):
            return _build_error(case, found, seconds)
        try:
            result = _build_result(case, found, self.suite.confidence, seconds)
        except FOREIGN_ERRORS as error:
            if is_interrupt(error):
                raise
            return _build_error(case, error, seconds)
        if isinstance(failure, CancelledCheck):
            return replace(result, status=Status.UNREAD, is_certain=False)
        if failure is None:
            return result
        return replace(result, status=Status.ERROR, error=_describe_error(failure))


def _build_error(case: Case, error: BaseException, seconds: float) -> CaseResult:
    return CaseResult(
        case.name,
        case.deployment.name,
        Status.ERROR,
        seconds=seconds,
        error=_describe_error(error),
    )


def _describe_error(error: BaseException) -> str:
    """Return the message of an error on one line."""
    # an unexpected exception has no message for users
    message = find_user_message(error) or _describe_exception(error)
    return " ".join(message.split())


def _describe_exception(error: BaseException) -> str:
    """Describe an exception by its type, its text and the line that raised it."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    # an exception that was never raised has none
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _build_result(case: Case, answer: Answer, confidence: float, seconds: float) -> CaseResult:
    """Build the result of a case from the answer to its query.

    Args:
        case: the case.
        answer: the answer, to the query with or without the threshold.
        confidence: confidence of all verdicts of the suite together.
        seconds: seconds of the case.
    """
    # a member of an average has no verdict of its own
    decision = None if case.is_measured else _find_decision(case, answer, confidence)
    status = Status.MEASURED if decision is None else Status(decision.outcome)
    texts = find_texts(case.question.query, answer)
    explored = None if answer.evidence is None else answer.evidence.conversation
    return CaseResult(
        case=case.name,
        deployment=case.deployment.name,
        status=status,
        is_certain=decision is not None and decision.is_certain,
        # a line of a log has no times of a machine, and memory has no trees of thousands of cases
        answer=replace(
            answer,
            witnesses=texts.violating if status is Status.VIOLATED else (),
            costs=Costs(passes=answer.passes, answers=answer.costs.answers),
            history=(),
            forecast=_forecast_decision(case, answer) if status is Status.UNKNOWN else None,
            evidence=None,
        ),
        seconds=seconds,
        evidence=answer.evidence.mean if answer.evidence else None,
        examples=texts.examples,
        conversation=None if explored is None else explored.build_tree(_MAX_STORED_ANSWERS),
    )


def _find_decision(case: Case, answer: Answer, confidence: float) -> Decision:
    """Return the decision of a requirement."""
    if (decision := answer.decision) is not None:
        return decision
    # the answer to a query without its threshold is a number
    if case.threshold is not None:
        return case.threshold.decide(answer.measurement, confidence)
    return Decision(Outcome.UNKNOWN)


def _forecast_decision(case: Case, answer: Answer) -> Forecast | None:
    """Forecast the costs of a decision of a case; None if nothing shows them."""
    from llmchecker.checking.anytime.answer_forecast import forecast_decision

    if case.threshold is None:
        return None
    # the answer to a query with its threshold has its forecast
    if not answer.query.is_numeric:
        forecast = answer.forecast
    else:
        forecast = forecast_decision(answer, case.threshold, case.question.budget)
    return None if forecast is None else forecast.without_times()
