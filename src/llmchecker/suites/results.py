"""Results of a suite: its cases, averages and differences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap

from llmchecker.checking.measurement import Measurement, Threshold
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.cases import Average, Case, CaseKey, Suite
from llmchecker.suites.deployments import name_difference
from llmchecker.suites.fingerprint import CaseFingerprint, match_cases
from llmchecker.suites.row_effort import WHOLE, RowPlan
from llmchecker.suites.row_reading import build_estimator
from llmchecker.suites.verdicts import (
    Aggregate,
    CaseResult,
    Counts,
    Status,
    count_statuses,
    find_decision,
)
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES


@dataclass(frozen=True)
class Baseline:
    """Stored results to compare with.

    Attributes:
        name: the file, for outputs.
        confidence: confidence of all stored intervals together.
        is_complete: whether the run that wrote them ended by itself.
        results: the results by the names of their deployment and case.
        fingerprints: what the results answer, by the same names.
        weights: as in `Suite`, of the suite that was run.
        versions: the versions of the packages of that run.
    """

    name: str
    confidence: float
    is_complete: bool
    results: Mapping[CaseKey, CaseResult]
    fingerprints: Mapping[CaseKey, CaseFingerprint]
    weights: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def deployments(self) -> tuple[str, ...]:
        """The names of the deployments, in the order of the file."""
        return tuple(dict.fromkeys(deployment for deployment, _ in self.results))

    def has_same_weights(self, suite: Suite, deployment: str) -> bool | None:
        """Return whether a deployment has the stored weights and settings; None if unknown."""
        own, stored = (
            suite.weights.get(deployment),
            self.weights.get(self.find_side(deployment) or ""),
        )
        return None if own is None or stored is None else own == stored

    def find_side(self, deployment: str) -> str | None:
        """Find the stored deployment to compare with one of a suite.

        It is that of the same name, or else the only one: a change may rename a model.
        """
        names = self.deployments
        if deployment in names:
            return deployment
        return names[0] if len(names) == 1 else None


@dataclass(frozen=True)
class NotCompared:
    """A figure without a difference from stored results.

    Attributes:
        baseline: the file of the stored results.
        deployment: name of its deployment; that of the file for a stored result.
        name: name of the average or case.
        reason: the reason, such as `length 6 → 8`.
    """

    baseline: str
    deployment: str
    name: str
    reason: str


@dataclass(frozen=True)
class SuiteResult:
    """The results of a suite.

    Attributes:
        suite: the suite.
        results: the results of all cases, in the order of `suite.cases`. A case that the run did
            not finish has the trivial interval.
        baseline: stored results to compare with; None without these.
        fingerprints: what the cases ask, by deployment and case; needed with a file of results or a
            baseline.
    """

    suite: Suite
    results: tuple[CaseResult, ...]
    baseline: Baseline | None = field(default=None, repr=False)
    fingerprints: Mapping[CaseKey, CaseFingerprint] = field(default_factory=dict, repr=False)

    @cached_property
    def finished_count(self) -> int:
        """Number of cases with a result; less than all after an interrupt."""
        return sum(result.status is not Status.UNFINISHED for result in self.results)

    @property
    def is_complete(self) -> bool:
        """Whether every case has a result."""
        return self.finished_count == len(self.results)

    @cached_property
    def verdicts(self) -> tuple[tuple[Case, CaseResult], ...]:
        """The finished cases with a requirement and their results, without those of `versus`."""
        versus = None if self.suite.versus is None else self.suite.versus.name
        return tuple(
            (case, result)
            for case, result in zip(self.suite.cases, self.results, strict=True)
            if not case.is_measured
            and case.deployment.name != versus
            and result.status is not Status.UNFINISHED
        )

    @cached_property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The averages, their groups, and the differences."""
        compared = starmap(self._build_difference, self._iter_compared())
        return (*self._iter_averages(), *(each for each in compared if each is not None))

    @cached_property
    def not_compared(self) -> tuple[NotCompared, ...]:
        """What has no difference from the stored results, with the reason."""
        return () if self.baseline is None else tuple(self._iter_not_compared(self.baseline))

    @cached_property
    def errors(self) -> tuple[CaseResult, ...]:
        """The results that are errors, also of cases without a verdict of their own."""
        return tuple(result for result in self.results if result.status is Status.ERROR)

    @cached_property
    def counts(self) -> Counts:
        """The numbers of verdicts, and of cases that failed to run."""
        return self._count([result for _, result in self.verdicts], self.aggregates, self.errors)

    def count_deployment(self, name: str) -> Counts:
        """Count the verdicts of a deployment, and its cases that failed to run."""
        return self._count(
            [result for _, result in self.verdicts if result.deployment == name],
            [aggregate for aggregate in self.aggregates if aggregate.deployment == name],
            [result for result in self.errors if result.deployment == name],
        )

    def _count(
        self,
        verdicts: Sequence[CaseResult],
        aggregates: Sequence[Aggregate],
        errors: Sequence[CaseResult],
    ) -> Counts:
        """Count verdicts and errors, so that a case that failed to run is one error."""
        statuses = [*(case.status for case in verdicts), *(each.status for each in aggregates)]
        decided = [status for status in statuses if status is not Status.ERROR]
        counts = count_statuses([*decided, *(error.status for error in errors)])
        decisions = [find_decision(each, self.suite.confidence) for each in verdicts]
        decisions += [find_decision(each, self.find_confidence(each)) for each in aggregates]
        return replace(counts, decisions=Counter(each for each in decisions if each is not None))

    def find_confidence(self, aggregate: Aggregate) -> float:
        """Return the confidence of an aggregate, which is that of differences for one of them."""
        is_difference = aggregate.kind == "difference"
        return self.difference_confidence if is_difference else self.suite.confidence

    @property
    def passes(self) -> int:
        """Number of texts that the models evaluated."""
        return sum(result.passes for result in self.results)

    @property
    def seconds(self) -> float:
        """Sum of the seconds of all cases."""
        return sum(result.seconds for result in self.results)

    @property
    def difference_confidence(self) -> float:
        """Confidence of all differences together.

        Stored results have their own error probability, which adds to that of the suite.
        """
        stored = 1.0 if self.baseline is None else self.baseline.confidence
        return max(0.0, self.suite.confidence + stored - 1)

    @cached_property
    def _results_by_case(self) -> Mapping[CaseKey, CaseResult]:
        return {result.key: result for result in self.results}

    def find_average(self, aggregate: Aggregate) -> Average | None:
        """Return the average of an aggregate, or of the rows of a group; None for a difference."""
        for average in self.suite.averages:
            if aggregate.kind == "average" and average.name == aggregate.name:
                return average
            for value, cases in average.groups.items():
                if aggregate.kind == "group" and aggregate.name == f"{average.name}, {value}":
                    return replace(average, cases=cases)
        return None

    def find_results(self, deployment: str, cases: Sequence[str]) -> list[CaseResult]:
        """Find the results of cases of a deployment."""
        return [self._results_by_case[deployment, case] for case in cases]

    @cached_property
    def _cases_by_key(self) -> Mapping[CaseKey, Case]:
        return {case.key: case for case in self.suite.cases}

    def _iter_averages(self) -> Iterator[Aggregate]:
        for deployment in self.suite.deployments:
            for average in self._list_averages(deployment.name):
                yield self._average(average, deployment.name, average.cases, average.threshold)
                for value, cases in average.groups.items():
                    yield self._average(average, deployment.name, cases, None, value)

    def _list_averages(self, deployment: str) -> list[Average]:
        """List the averages all of whose rows are selected for a deployment."""
        return [
            average
            for average in self.suite.averages
            if all((deployment, case) in self._results_by_case for case in average.cases)
        ]

    def _average(
        self,
        average: Average,
        deployment: str,
        cases: Sequence[str],
        threshold: Threshold | None,
        group: str | None = None,
    ) -> Aggregate:
        """Build an average, or that of a group."""
        results = self.find_results(deployment, cases)
        name = average.name if group is None else f"{average.name}, {group}"
        kind = "average" if group is None else "group"
        estimator = self._build_estimator(average, deployment, cases)
        measurement = estimator.measure(results)
        read = sum(result.status not in (Status.UNFINISHED, Status.UNREAD) for result in results)
        return _decide(
            Aggregate(
                name=name,
                deployment=deployment,
                kind=kind,
                measurement=measurement,
                threshold=threshold,
                status=Status.MEASURED,
                is_certain=measurement.certain.is_exact,
                cases=len(cases),
                read=read,
                subject=_describe(average, cases, read, self._describe_budgets(results)),
                noun=average.statistic.find_noun(average.threshold),
                values=estimator.values,
                reasons=estimator.list_reasons(results),
            ),
            self.suite.confidence,
        )

    def _describe_budgets(self, results: Sequence[CaseResult]) -> str:
        """Describe the budgets of rows, as `125 to 2,000 passes each`; empty if all are whole."""
        read = [each for each in results if each.effort is not None and each.answer is not None]
        if all(each.effort == WHOLE for each in read):
            return ""
        is_text_only = any(each.answer is not None and each.answer.is_text_only for each in read)
        whole = self._cases_by_key[read[0].key].question.budget
        scaled = [RowPlan(each).scale(whole) for each in {each.effort for each in read}]
        limits = [each.answers if is_text_only else each.passes or 0 for each in scaled]
        numbers = " to ".join(f"{each:,}" for each in sorted({min(limits), max(limits)}))
        return f"{numbers} {'answers' if is_text_only else 'passes'} each"

    def _build_estimator(
        self, average: Average, deployment: str, cases: Sequence[str]
    ) -> AverageEstimator:
        """Build the estimator of an average over these cases, all of them or those of a group."""
        rows = [self._cases_by_key[deployment, case] for case in cases]
        return build_estimator(self.suite, average, rows)

    def _iter_compared(self) -> Iterator[tuple[str, Average]]:
        """Yield deployment and figure of each difference; one case is an average of one row."""
        for deployment in self.suite.deployments:
            for average in self._list_averages(deployment.name):
                yield deployment.name, average
            for case in self.suite.cases:
                # a row of a worst figure has the threshold of the figure
                if case.deployment.name != deployment.name or case.is_measured:
                    continue
                if case.threshold is not None:
                    yield deployment.name, Average(case.name, case.label, (case.name,), None)

    def _iter_not_compared(self, baseline: Baseline) -> Iterator[NotCompared]:
        for deployment, compared in self._iter_compared():
            cases = compared.cases
            obstacles = (self._find_obstacle(baseline, deployment, case) for case in cases)
            if reasons := Counter(filter(None, obstacles)):
                reason = _format_obstacles(reasons, len(cases))
                yield NotCompared(baseline.name, deployment, compared.name, reason)
        sides = {baseline.find_side(each.name): each.name for each in self.suite.deployments}
        for deployment in baseline.deployments:
            if deployment not in sides:
                yield NotCompared(baseline.name, baseline.name, deployment, "not in this suite")
        matched = set(self._stored_keys.values())
        for deployment, case in baseline.results:
            if deployment in sides and (deployment, case) not in matched:
                name = case if len(sides) == 1 else f"{deployment}: {case}"
                yield NotCompared(baseline.name, baseline.name, name, "not in this suite")

    @cached_property
    def _stored_keys(self) -> Mapping[CaseKey, CaseKey]:
        """The keys of stored results by those of the cases of the whole suite."""
        found: dict[CaseKey, CaseKey] = {}
        if (baseline := self.baseline) is None:
            return found
        for deployment in self.suite.deployments:
            if (side := baseline.find_side(deployment.name)) is None:
                continue
            names = match_cases(
                _select_deployment(self.fingerprints, deployment.name),
                _select_deployment(baseline.fingerprints, side),
            )
            found |= {(deployment.name, own): (side, other) for own, other in names.items()}
        return found

    def _find_obstacle(self, baseline: Baseline, deployment: str, case: str) -> str | None:
        """Return why the stored result of a case cannot be compared; None if it can."""
        own = self._results_by_case[deployment, case]
        side = baseline.find_side(deployment)
        if side is None:
            return "no stored result of this model"
        key = self._stored_keys.get((deployment, case))
        # what the interrupt left out is not a property of the stored results
        if own.status is Status.UNFINISHED:
            return None
        if key is None:
            return "no stored result" if baseline.is_complete else "not in the incomplete file"
        stored = baseline.results[key]
        differences = self.fingerprints[deployment, case].list_differences(
            baseline.fingerprints[key]
        )
        if differences:
            return ", ".join(differences)
        if stored.status is Status.UNREAD:
            return "the stored average was decided without it; run it with --measure"
        if own.status is Status.ERROR:
            return "failed to run"
        return "the stored case failed to run" if stored.status is Status.ERROR else None

    def find_stored_results(self, deployment: str, cases: Sequence[str]) -> list[CaseResult]:
        """Find the stored results of cases of a deployment; without those not to be compared."""
        if (baseline := self.baseline) is None:
            return []
        keys = (self._stored_keys.get((deployment, case)) for case in cases)
        return [
            baseline.results[key]
            for key, case in zip(keys, cases, strict=True)
            if key is not None and self._find_obstacle(baseline, deployment, case) is None
        ]

    def _find_other_side(
        self, deployment: str, cases: Sequence[str]
    ) -> tuple[str, list[CaseResult]] | None:
        """Return name and results of the side to compare with, as far as it answers the cases."""
        if (baseline := self.baseline) is not None:
            found = self.find_stored_results(deployment, cases)
            # the mean of stored samples would need a share of this suite's error probability
            return baseline.name, [replace(each, evidence=None) for each in found]
        if (versus := self.suite.versus) is not None:
            return versus.name, self.find_results(versus.name, cases)
        return None

    def _name_difference(self, name: str, other: str) -> str:
        """Name both sides of a difference by what differs: `m, system 1 − system 2`."""
        versus = self.suite.versus
        if versus is None:
            return f"{name} − {other}"
        (own,) = (each for each in self.suite.deployments if each.name == name)
        return name_difference(own, versus)

    def _build_difference(self, deployment: str, compared: Average) -> Aggregate | None:
        """Build a difference; None if the other side does not answer all of the cases."""
        cases = compared.cases
        own = self.find_results(deployment, cases)
        side = self._find_other_side(deployment, cases)
        if side is None:
            return None
        other_name, others = side
        is_finished = all(result.status is not Status.UNFINISHED for result in (*own, *others))
        threshold = self.suite.differences.get(compared.label)
        # a requirement must not vanish with a case
        if (len(others) < len(cases) or not is_finished) and threshold is None:
            return None
        estimator = self._build_estimator(compared, deployment, cases)
        values = estimator.values
        differences = DIFFERENCES if values == PROBABILITIES else values - values
        measurement = Measurement(differences, differences)
        if len(others) == len(cases):
            measurement = estimator.measure_difference(own, others)
        return _decide(
            Aggregate(
                name=compared.name,
                deployment=self._name_difference(deployment, other_name),
                kind="difference",
                measurement=measurement,
                threshold=threshold,
                status=Status.MEASURED,
                is_certain=measurement.certain.is_exact,
                cases=len(cases),
                read=len(cases),
                subject=f"difference of the {_describe(compared, cases)}",
                noun="difference",
                values=differences,
                reasons=estimator.list_reasons(own),
            ),
            self.difference_confidence,
        )


def _select_deployment(
    fingerprints: Mapping[CaseKey, CaseFingerprint], name: str
) -> dict[str, CaseFingerprint]:
    """Return the fingerprints of the cases of a deployment by the name of the case."""
    return {case: each for (deployment, case), each in fingerprints.items() if deployment == name}


def _decide(aggregate: Aggregate, confidence: float) -> Aggregate:
    """Return an aggregate with a verdict if it has a threshold.

    A case that failed to run has any of its possible values, so that the aggregate stays sound.
    """
    if aggregate.threshold is None:
        return aggregate
    decision = aggregate.threshold.decide(aggregate.measurement, confidence)
    return replace(aggregate, status=Status(decision.outcome), is_certain=decision.is_certain)


def _describe(
    average: Average, cases: Sequence[str], read: int | None = None, budget: str = ""
) -> str:
    """Describe what an average or a group of it reports."""
    statistic = average.statistic
    clusters = {statistic.clusters[case] for case in cases if case in statistic.clusters}
    return statistic.describe(len(cases), average.threshold, len(clusters), read, budget)


def _format_obstacles(reasons: Mapping[str, int], cases: int) -> str:
    """Format the reasons of the cases of a figure, each with the number of its rows."""
    if cases == 1:
        return next(iter(reasons))
    return "; ".join(f"{reason} ({count} of {cases:,} rows)" for reason, count in reasons.items())
