"""The reading of rows in a random order, until their averages are decided.

An average with a threshold needs no more rows than those that decide it. Its groups, a comparison
and a measurement need all of them, and so does an average that is only reported.
"""

from collections.abc import Mapping, Sequence

from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.cases import Average, Case, CaseKey, Suite
from llmchecker.suites.statistic import Scope
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.interval import Interval

_STEP = 0.1
"""The rows between two looks at an average, as a share of those before; a look takes time."""


def build_estimator(suite: Suite, average: Average, rows: Sequence[Case]) -> AverageEstimator:
    """Build the estimator of an average.

    Args:
        suite: its suite.
        average: the average.
        rows: the cases of one deployment, all of the average or those of a group.
    """
    # the possible values of the other rows are those of the first one
    shown = [case for number, case in enumerate(rows) if case.differs or number == 0]
    ranges = [case.question.asked.value_range for case in shown]
    return AverageEstimator(
        statistic=average.statistic,
        threshold=average.threshold,
        error_probability=1 - suite.mean_confidence,
        values=Interval(min(each.lower for each in ranges), max(each.upper for each in ranges)),
        seed=suite.seed,
    )


class _AverageReading:
    """The rows of one average that have a result.

    Args:
        estimator: its estimator.
        names: the names of its cases.
        deployment: the name of their deployment.
    """

    def __init__(self, estimator: AverageEstimator, names: Sequence[str], deployment: str) -> None:
        self.is_decided = False
        self._estimator = estimator
        self._results = [CaseResult(name, deployment, Status.UNFINISHED) for name in names]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._order = [row for rows in estimator.order_rows(names) for row in rows]
        self._read, self._next_look = 0, 1

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each row in the order of reading, by the name of its case."""
        return {self._results[row].case: place for place, row in enumerate(self._order)}

    def add(self, result: CaseResult) -> None:
        """Add the result of a row, and look whether the average is decided where it is due."""
        self._results[self._numbers[result.case]] = result
        while (
            self._read < len(self._order)
            and self._results[self._order[self._read]].status is not Status.UNFINISHED
        ):
            self._read += 1
        # one row decides a worst one, wherever it is in the order
        is_due = self._read >= self._next_look
        if self._estimator.statistic.scope is Scope.WORST:
            self.is_decided |= self._estimator.is_decided([result])
        elif is_due and not self.is_decided:
            self._next_look = max(self._read + 1, int(self._read * (1 + _STEP)))
            self.is_decided = self._estimator.is_decided(self._results)


class RowReading:
    """The rows that averages still need.

    Args:
        suite: the suite.
        cases: the cases of the run, a part of the suite's.
        is_measuring: whether results are compared with others, so that all rows are needed.
    """

    def __init__(self, suite: Suite, cases: Sequence[Case], *, is_measuring: bool) -> None:
        self._readings: dict[CaseKey, _AverageReading] = {}
        averages = [
            each for each in suite.averages if each.threshold is not None and not each.groups
        ]
        if is_measuring or not averages:
            return
        by_key = {case.key: case for case in cases}
        for deployment in suite.deployments:
            for average in averages:
                keys = [(deployment.name, name) for name in average.cases]
                # a shard or a selection may have some of the rows
                if all(key in by_key for key in keys):
                    estimator = build_estimator(suite, average, [by_key[key] for key in keys])
                    reading = _AverageReading(estimator, average.cases, deployment.name)
                    self._readings |= dict.fromkeys(keys, reading)

    @property
    def is_needed(self) -> bool:
        """Whether an average may need fewer rows than it has."""
        return bool(self._readings)

    def sort_cases(self, cases: Sequence[Case]) -> list[Case]:
        """Sort the cases of each entry by the random order of its rows; each row's stay together.

        No bit of a result depends on the order.
        """
        if not self.is_needed:
            return list(cases)
        places: dict[tuple[str, str], int] = {}
        entries: dict[str, int] = {}
        for reading in dict.fromkeys(self._readings.values()):
            found = reading.places
            for case in cases:
                if self._readings.get(case.key) is reading:
                    places.setdefault(case.prompt_key, found[case.name])
        for case in cases:
            entries.setdefault(case.entry, len(entries))
        return sorted(
            cases, key=lambda case: (entries[case.entry], places.get(case.prompt_key, -1))
        )

    def is_wanted(self, case: Case) -> bool:
        """Return whether the result of a case is still needed."""
        reading = self._readings.get(case.key)
        return reading is None or not reading.is_decided

    def add(self, result: CaseResult) -> None:
        """Add the result of a case."""
        if result.status is not Status.UNREAD and (reading := self._readings.get(result.key)):
            reading.add(result)
