"""Results of a suite: its cases, averages and differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from llmchecker.suites.cases import Average, Case, Suite
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.verdicts import (
    Aggregate,
    CaseResult,
    Counts,
    Interval,
    Status,
    Threshold,
    average_members,
    count_statuses,
    is_certain,
    subtract_intervals,
)


@dataclass(frozen=True)
class Baseline:
    """Stored results to compare with.

    Attributes:
        name: the file or deployment, for outputs.
        confidence: confidence of all stored intervals together.
        results: the results by the name of the case.
    """

    name: str
    confidence: float
    results: Mapping[str, CaseResult]


@dataclass(frozen=True)
class SuiteResult:
    """The results of a suite.

    Attributes:
        suite: the suite.
        results: the results of all cases, in the order of `suite.cases`.
        baseline: stored results to compare with; None without these.
    """

    suite: Suite
    results: tuple[CaseResult, ...]
    baseline: Baseline | None = field(default=None, repr=False)

    @cached_property
    def verdicts(self) -> tuple[tuple[Case, CaseResult], ...]:
        """The cases with a requirement and their results, without those of `versus`."""
        versus = None if self.suite.versus is None else self.suite.versus.name
        return tuple(
            (case, result)
            for case, result in zip(self.suite.cases, self.results, strict=True)
            if not case.is_measured and case.deployment.name != versus
        )

    @cached_property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The averages, their groups, and the differences."""
        return (*self._iter_averages(), *self._iter_differences())

    @cached_property
    def errors(self) -> tuple[CaseResult, ...]:
        """The results that are errors, also of cases without a verdict of their own."""
        return tuple(result for result in self.results if result.status is Status.ERROR)

    @cached_property
    def counts(self) -> Counts:
        """The numbers of verdicts, and of cases that failed to run."""
        statuses = [result.status for _, result in self.verdicts]
        statuses += [aggregate.status for aggregate in self.aggregates]
        counts = count_statuses([status for status in statuses if status is not Status.ERROR])
        return Counts(counts.holds, counts.violated, counts.unknown, len(self.errors))

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

    @property
    def _error_probability(self) -> float:
        """The share of the error probability for one mean of samples."""
        return 1 - split_confidence(self.suite.confidence, self.suite.interval_count)

    @cached_property
    def _results_by_case(self) -> Mapping[tuple[str, str], CaseResult]:
        return {(result.deployment, result.case): result for result in self.results}

    def _find_results(self, deployment: str, cases: Sequence[str]) -> list[CaseResult]:
        return [self._results_by_case[deployment, case] for case in cases]

    def _iter_averages(self) -> Iterator[Aggregate]:
        for deployment in self.suite.deployments:
            for average in self.suite.averages:
                yield self._average(average, deployment.name, average.cases, average.threshold)
                for value, cases in average.groups.items():
                    yield self._average(average, deployment.name, cases, None, value)

    def _average(
        self,
        average: Average,
        deployment: str,
        cases: Sequence[str],
        threshold: Threshold | None,
        group: str | None = None,
    ) -> Aggregate:
        """Build an average, or that of a group."""
        results = self._find_results(deployment, cases)
        name = average.name if group is None else f"{average.name}, {group}"
        kind = "average" if group is None else "group"
        interval = average_members(results, self._error_probability)
        confidence = self.suite.confidence
        return _build_aggregate(name, deployment, kind, interval, threshold, len(cases), confidence)

    def _iter_differences(self) -> Iterator[Aggregate]:
        """Yield the differences of averages and of cases with a single probability."""
        if self.suite.versus is None and self.baseline is None:
            return
        for deployment in self.suite.deployments:
            for average in self.suite.averages:
                yield from self._difference(
                    deployment.name, average.name, average.label, average.cases
                )
            for case in self.suite.cases:
                if case.deployment.name == deployment.name and case.threshold is not None:
                    yield from self._difference(
                        deployment.name, case.name, case.label, (case.name,)
                    )

    def _difference(
        self, deployment: str, name: str, label: str, cases: Sequence[str]
    ) -> Iterator[Aggregate]:
        """Yield a difference; none if the other side has not all of the cases."""
        own = self._find_results(deployment, cases)
        if self.baseline is not None:
            other_name = self.baseline.name
            stored = [self.baseline.results.get(case) for case in cases]
            others = [result for result in stored if result is not None]
        else:
            other_name = self.suite.versus.name
            others = self._find_results(other_name, cases)
        threshold = self.suite.differences.get(label)
        # a requirement must not vanish with a case
        if len(others) < len(cases) and threshold is None:
            return
        interval = Interval(-1.0, 1.0, -1.0, 1.0)
        if len(others) == len(cases):
            interval = subtract_intervals(
                average_members(own, self._error_probability),
                average_members(others, self._error_probability),
            )
        yield _build_aggregate(
            name,
            f"{deployment} - {other_name}",
            "difference",
            interval,
            threshold,
            len(cases),
            self.difference_confidence,
        )


def _build_aggregate(
    name: str,
    deployment: str,
    kind: str,
    interval: Interval,
    threshold: Threshold | None,
    cases: int,
    confidence: float,
) -> Aggregate:
    """Build an aggregate, with a verdict if it has a threshold.

    A case that failed to run has the trivial interval, so that the aggregate stays sound.
    """
    if threshold is None:
        status, certain = Status.MEASURED, interval.lower == interval.upper
    else:
        decision = threshold.decide(interval, confidence)
        status, certain = Status(decision.outcome), is_certain(decision)
    return Aggregate(name, deployment, kind, interval, threshold, status, certain, cases)
