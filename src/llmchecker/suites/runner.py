"""The run of a suite: two looks at each case, and the aggregates.

The first look at a case has the case's own budget. Cases that are decided early leave the rest of
theirs. The second look gives it to unknown cases, those that need the least first.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.decision import Decision, decide
from llmchecker.errors import LLMCheckerError, MachineLimit
from llmchecker.suites.cases import Case, Suite
from llmchecker.suites.deployments import Deployment
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.verdicts import (
    CaseResult,
    Interval,
    Status,
    Text,
    forecast_passes,
    is_certain,
)

if TYPE_CHECKING:
    from llmchecker.checking.anytime.answer import AnytimeResult
    from llmchecker.checking.anytime.path_formulas import CheckedQuery
    from llmchecker.checking.verdict import Verdict
    from llmchecker.models.decoding.chat_template import Start
    from llmchecker.models.interface import LanguageModel
    from llmchecker.trees.distribution_cache import PromptDistributions
    from llmchecker.trees.expansion import EndOfSequence

_SEEDS = 2**64
"""Number of seeds."""
FINAL_LOOK = 0
"""The number under which a log has the result of a complete run."""
_MAX_TEXTS = 5
"""Maximum number of violating texts of a case."""
_SECOND_LOOK_FACTOR = 1.5
"""Budget of a second look, as a multiple of the forecast that would decide."""


class OpenModel(Protocol):
    """A model that is loaded on first use, with its stored distributions."""

    end_of_sequence: "EndOfSequence"

    @property
    def model(self) -> "LanguageModel":
        """The loaded model."""
        ...

    def open_distributions(self, start: "Start") -> "PromptDistributions | None":
        """Open the stored distributions after a start string; None without a cache."""
        ...


class ResultLog(Protocol):
    """A log of results that a later run continues."""

    def find(self, case: Case, look: int) -> CaseResult | None:
        """Return the stored result of a look at a case; None if it has none."""
        ...

    def add(self, case: Case, look: int, result: CaseResult) -> None:
        """Store the result of a look at a case."""
        ...


@dataclass(frozen=True)
class SuiteProgress:
    """The progress of a run.

    Attributes:
        decided: number of cases with a verdict.
        done: number of cases after their first look.
        total: number of cases.
        passes: number of texts that the model evaluated in this run.
        seconds_left: forecast of the remaining seconds; None without one.
    """

    decided: int
    done: int
    total: int
    passes: int
    seconds_left: float | None


def run_cases(
    suite: Suite,
    open_model: Callable[[Deployment], OpenModel],
    log: ResultLog,
    *,
    is_measuring: bool = False,
    report: Callable[[SuiteProgress], None] = lambda progress: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[CaseResult]:
    """Evaluate all cases of a suite.

    An error of a case becomes its result, and the other cases continue.

    Args:
        suite: the suite.
        open_model: opens the model of a deployment.
        log: the log, which may contain results of an earlier run.
        is_measuring: whether thresholds must not end cases early, because probabilities are
            compared with those of other results.
        report: called after each case.
        is_cancelled: whether to end the run; called often.

    Returns:
        The results in the order of the cases.

    Raises:
        LLMCheckerError: a model cannot be loaded, or the log cannot be written.
        KeyboardInterrupt: `is_cancelled` returned true.
    """
    confidence = split_confidence(suite.confidence, len(suite.cases))
    tracker = _ProgressTracker(len(suite.cases), report)
    results: list[CaseResult] = []
    for deployment in dict.fromkeys(case.deployment.name for case in suite.cases):
        cases = [case for case in suite.cases if case.deployment.name == deployment]
        opened = open_model(cases[0].deployment)
        evaluator = _Evaluator(suite, opened, confidence, is_measuring, is_cancelled, log, tracker)
        results += evaluator.run(cases)
    return results


class _ProgressTracker:
    """Counts of a run, and the forecast of its remaining time."""

    def __init__(self, total: int, report: Callable[[SuiteProgress], None]) -> None:
        self._total = total
        self._report = report
        self._start_time = time.monotonic()
        self._decided = self._done = self._evaluated = self._passes = 0

    def update(self, result: CaseResult, look: int, is_stored: bool) -> None:
        """Count a look at a case."""
        is_decided = result.status in (Status.HOLDS, Status.VIOLATED)
        self._decided += is_decided
        self._done += look == 1
        # stored results took no time in this run
        self._evaluated += look == 1 and not is_stored
        self._passes += 0 if is_stored else result.passes
        seconds = time.monotonic() - self._start_time
        remaining = self._total - self._done
        seconds_left = seconds / self._evaluated * remaining if self._evaluated else None
        self._report(
            SuiteProgress(self._decided, self._done, self._total, self._passes, seconds_left)
        )


@dataclass(frozen=True)
class _Evaluator:
    """An evaluator of the cases of one deployment."""

    suite: Suite
    opened: OpenModel
    confidence: float
    is_measuring: bool
    is_cancelled: Callable[[], bool]
    log: ResultLog
    tracker: _ProgressTracker

    def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """Evaluate cases with their own budgets, and some again with the spare budget."""
        results, open_indices = [], []
        for index, case in enumerate(cases):
            final = self.log.find(case, FINAL_LOOK)
            # the result of a complete run has all its looks
            if final is None:
                open_indices.append(index)
            else:
                self.tracker.update(final, 1, is_stored=True)
            results.append(final or self._look(case, 1, 1.0))
        grants = _allocate([cases[i] for i in open_indices], [results[i] for i in open_indices])
        for position, grant in grants.items():
            index = open_indices[position]
            first = results[index]
            second = self._look(cases[index], 2, grant)
            results[index] = replace(
                second,
                passes=first.passes + second.passes,
                samples=first.samples + second.samples,
                seconds=first.seconds + second.seconds,
            )
        return results

    def _look(self, case: Case, look: int, share: float) -> CaseResult:
        """Return the result of a look at a case, from the log if it is there."""
        stored = self.log.find(case, look)
        result = stored or self._evaluate(case, look, share)
        if stored is None:
            self.log.add(case, look, result)
        self.tracker.update(result, look, stored is not None)
        return result

    def _evaluate(self, case: Case, look: int, share: float) -> CaseResult:
        limits = case.budget
        budget = AnswerBudget(
            passes=None if limits.passes is None else math.ceil(limits.passes * share),
            seconds=None if limits.seconds is None else limits.seconds * share,
            confidence=self.confidence,
            # the budget of a second look depends on the first samples, so it needs others
            seed=(self.suite.seed + look - 1) % _SEEDS,
        )
        # an error of the model itself concerns all cases, so it is raised here
        _ = self.opened.model
        asked_case = case.measure() if self.is_measuring else case
        start_time = time.monotonic()
        try:
            asked = self.suite.build_query(asked_case)
            result = evaluate(self.opened, case.start, asked, budget, self.is_cancelled)
        except MachineLimit:
            raise
        except LLMCheckerError as error:
            seconds = time.monotonic() - start_time
            message = " ".join(str(error).split())
            return CaseResult(
                case.name, case.deployment.name, Status.ERROR, seconds=seconds, error=message
            )
        # an incomplete answer must not be stored
        if self.is_cancelled():
            raise KeyboardInterrupt
        return build_result(case, asked, result, self.suite.confidence)


def evaluate(
    opened: OpenModel,
    start: "Start",
    asked: "CheckedQuery",
    budget: AnswerBudget,
    is_cancelled: Callable[[], bool],
) -> "AnytimeResult":
    """Answer the query of one case within its budget."""
    # imported here: Storm and torch take seconds, and a suite is checked before
    from llmchecker.checking.anytime.answer import check_anytime

    return check_anytime(
        opened.model,
        start,
        asked,
        budget,
        end_of_sequence=opened.end_of_sequence,
        distributions=opened.open_distributions(start),
        is_cancelled=is_cancelled,
    )


def build_result(
    case: Case, asked: "CheckedQuery", result: "AnytimeResult", confidence: float
) -> CaseResult:
    """Build the result of a case from the answer to its query.

    Args:
        case: the case.
        asked: its query, with or without the threshold.
        result: the answer.
        confidence: confidence of all verdicts of the suite together.
    """
    verdict = result.verdict
    interval = _find_interval(verdict)
    # a member of an average has no verdict of its own
    decision = None if case.is_measured else _find_decision(case, verdict, interval, confidence)
    status = Status.MEASURED if decision is None else Status(decision.outcome)
    required_passes = None
    if status is Status.UNKNOWN and case.threshold is not None:
        required_passes = forecast_passes(case.threshold, interval, result.passes)
    texts = _find_violating_texts(case, asked, result) if status is Status.VIOLATED else ()
    return CaseResult(
        case=case.name,
        deployment=case.deployment.name,
        status=status,
        is_certain=decision is not None and is_certain(decision),
        interval=interval,
        passes=result.passes,
        samples=verdict.samples or 0,
        seconds=result.seconds,
        texts=texts,
        required_passes=required_passes,
    )


def _find_interval(verdict: "Verdict") -> Interval:
    """Return the interval of the probability that a query names."""
    lower, upper = verdict.lower, verdict.upper
    if isinstance(lower, bool) or lower is None or upper is None:
        # the bounds of a threshold query are truth values
        lower, upper = 0.0, 1.0
    low, high = verdict.low, verdict.high
    if low is None or high is None:
        # without samples the bounds are the interval
        low, high = lower, upper
    estimate: Any = verdict.estimate
    if estimate is None or isinstance(estimate, bool):
        has_samples = verdict.low is not None
        estimate = (low + high) / 2 if has_samples or low == high else None
    return Interval(lower, upper, low, high, estimate)


def _find_decision(
    case: Case, verdict: "Verdict", interval: Interval, confidence: float
) -> Decision:
    """Return the decision of a requirement."""
    # the answer to a query without a threshold is a number
    if case.threshold is not None and not isinstance(verdict.lower, bool):
        return case.threshold.decide(interval, confidence)
    return decide(verdict.lower, verdict.upper, verdict.estimate, verdict.confidence)


def _find_violating_texts(
    case: Case, asked: "CheckedQuery", result: "AnytimeResult"
) -> tuple[Text, ...]:
    """Return the most probable texts that speak against a requirement."""
    from llmchecker.checking import witnesses
    from llmchecker.checking.markov import dtmc

    # combinations of several probabilities have no single texts
    if case.threshold is None:
        return ()
    is_lower_bound = case.threshold.comparison in (">=", ">")
    kind = witnesses.COUNTEREXAMPLE if is_lower_bound else witnesses.WITNESS
    chain = dtmc.build_dtmc(result.tree, result.scores)
    texts = witnesses.find_texts(result.tree, chain, asked.query.root.path, kind, _MAX_TEXTS)
    return tuple(Text(text.text[text.kept :], text.probability) for text in texts)


def _allocate(cases: Sequence[Case], results: Sequence[CaseResult]) -> Mapping[int, float]:
    """Allocate the spare budget to unknown cases, those that need the least first.

    Returns:
        For the index of each case that gets a second look, its share of the case's own budget.
    """
    spare = sum(
        max(0.0, 1 - _used_share(case, result))
        for case, result in zip(cases, results, strict=True)
        # an error says nothing about the budget that a case needs
        if result.status is not Status.ERROR
    )
    grants: dict[int, float] = {}
    for needed, index in sorted(_iter_needed_shares(cases, results)):
        grant = min(needed * _SECOND_LOOK_FACTOR, spare)
        # the next cases need even more
        if grant < needed:
            break
        grants[index] = grant
        spare -= grant
    return grants


def _iter_needed_shares(
    cases: Sequence[Case], results: Sequence[CaseResult]
) -> Iterator[tuple[float, int]]:
    """Yield the needed share of its own budget and the index of each unknown case."""
    for index, (case, result) in enumerate(zip(cases, results, strict=True)):
        if result.status is Status.UNKNOWN and result.required_passes is not None:
            needed = result.required_passes / max(1, result.passes)
            yield needed * max(_used_share(case, result), 1e-6), index


def _used_share(case: Case, result: CaseResult) -> float:
    """Return the used share of a case's budget, that of its scarcest limit."""
    shares = [
        used / limit
        for used, limit in (
            (result.passes, case.budget.passes),
            (result.seconds, case.budget.seconds),
        )
        if limit is not None
    ]
    return max(shares, default=1.0)
