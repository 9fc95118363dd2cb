"""The reading of rows in a random order, until their averages are decided.

An average with a threshold needs no more rows than those that decide it, and few passes on a row
may be enough (see `row_effort`). Its groups, a comparison and a measurement need all of them, and
so does an average that is only reported.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.cases import Average, Case, CaseKey, Suite
from llmchecker.suites.row_effort import (
    NO_PLAN,
    WHOLE,
    RowPlan,
    find_block,
    has_efforts,
)
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

    Attributes:
        order: the numbers of its rows in the order of reading.
        places: the place of each row in it, by the name of its case.
        is_decided: whether it is decided.
        has_efforts: whether it chooses the efforts of its rows.

    Args:
        estimator: its estimator.
        names: the names of its cases.
        deployment: the name of their deployment.
    """

    def __init__(self, estimator: AverageEstimator, names: Sequence[str], deployment: str) -> None:
        self.is_decided = self.has_efforts = self._is_second = False
        self.order = [row for rows in estimator.order_rows(names) for row in rows]
        self._estimator = estimator
        self._results = [CaseResult(name, deployment, Status.UNFINISHED) for name in names]
        self._numbers = {name: number for number, name in enumerate(names)}
        self.places = {names[row]: place for place, row in enumerate(self.order)}
        self._read, self._next_look = 0, 1
        self._plan_block = cache(self._plan_effort)

    @property
    def can_choose(self) -> bool:
        """Whether efforts of its rows may differ."""
        return self._estimator.is_mean

    def find_block(self, case: Case) -> int | None:
        """Return the block of a row, whose effort depends on those before it; None without."""
        return find_block(self.places[case.name]) if self.has_efforts else None

    def plan(self, case: Case) -> RowPlan:
        """Plan the reading of a row, by the results of the blocks before its own."""
        if (block := self.find_block(case)) is None:
            return NO_PLAN
        return RowPlan(WHOLE, is_reread=True) if self._is_second else self._plan_block(block)

    def find_result(self, case: str) -> CaseResult:
        """Return the last result of a row."""
        return self._results[self._numbers[case]]

    def _plan_effort(self, start: int) -> RowPlan:
        before = [self._results[row] for row in self.order[:start]]
        return RowPlan(self._estimator.plan_effort(before, len(self.order)))

    def add(self, result: CaseResult) -> None:
        """Add the result of a row, and look whether the average is decided where it is due."""
        self._results[self._numbers[result.case]] = result
        while (
            self._read < len(self.order)
            and self._results[self.order[self._read]].status is not Status.UNFINISHED
        ):
            self._read += 1
        self._is_second |= result.is_reread
        # a second reading ends with its last row
        if self._is_second:
            self.is_decided = False
            return
        # one row decides a worst one, wherever it is in the order
        is_due = self._read >= self._next_look
        if self._estimator.statistic.scope is Scope.WORST:
            self.is_decided |= self._estimator.is_decided([result])
        elif is_due and not self.is_decided:
            self._next_look = max(self._read + 1, int(self._read * (1 + _STEP)))
            self.is_decided = self._estimator.is_decided(self._results)

    def begin_second(self) -> set[str]:
        """Begin any second reading, and return the names of its rows."""
        is_list = self._estimator.statistic.scope is Scope.ROWS
        # an error may be temporary, and a row of a decided average has no result
        has_all = all(result.status is Status.MEASURED for result in self._results)
        if not (self.has_efforts and is_list and has_all) or self.is_decided:
            return set()
        left = {each.case for each in self._results if each.effort != WHOLE}
        if left and not self._is_second:
            self._is_second = not self._estimator.is_decided(self._results)
        return left if self._is_second else set()


class RowReading:
    """The rows that averages still need.

    Args:
        suite: the suite.
        cases: the cases of the run, a part of the suite's.
        find_stored: returns the stored result of a case; None if it has none.
        is_measuring: whether results are compared with others, so that all rows are needed.
    """

    def __init__(
        self,
        suite: Suite,
        cases: Sequence[Case],
        find_stored: Callable[[Case], CaseResult | None],
        *,
        is_measuring: bool,
    ) -> None:
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
        entries: dict[tuple[str, str], list[Case]] = defaultdict(list)
        for case in cases:
            entries[case.deployment.name, case.entry].append(case)
        for rows in entries.values():
            self._allow_efforts(rows, find_stored)

    def _allow_efforts(
        self, rows: Sequence[Case], find_stored: Callable[[Case], CaseResult | None]
    ) -> None:
        """Let the averages of an entry choose efforts, if they are all that its rows are for."""
        found = [self._readings.get(case.key) for case in rows]
        readings = [each for each in dict.fromkeys(found) if each is not None]
        # a requirement of a prompt evaluates its texts anyway, as does an average in another order
        is_alone = None not in found and len({tuple(each.order) for each in readings}) == 1
        if not is_alone or not all(each.can_choose for each in readings):
            return
        if not has_efforts(rows[0].question.budget, len(readings[0].order)):
            return
        stored = [each for each in map(find_stored, rows) if each is not None]
        # a shard gives its rows the whole budget
        if all(each.effort is not None for each in stored):
            for reading in readings:
                reading.has_efforts = True

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

    def is_usable(self, case: Case, stored: CaseResult) -> bool:
        """Return whether a stored result of a case has an effort that this run allows."""
        reading = self._readings.get(case.key)
        if reading is not None and reading.has_efforts:
            return stored.effort is not None
        return stored.effort in (None, WHOLE) and not stored.is_reread

    def split(self, cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
        """Split cases into parts of at most a size, each of which needs the results before it."""
        for _, group in groupby(cases, self._find_block):
            block = list(group)
            for first in range(0, len(block), size):
                yield block[first : first + size]

    def _find_block(self, case: Case) -> tuple[str, int] | None:
        reading = self._readings.get(case.key)
        block = None if reading is None else reading.find_block(case)
        return None if block is None else (case.entry, block)

    def plan(self, case: Case) -> RowPlan:
        """Plan the reading of a case of the next part."""
        reading = self._readings.get(case.key)
        return NO_PLAN if reading is None else reading.plan(case)

    def add_first_costs(self, result: CaseResult) -> CaseResult:
        """Return a result with the costs of any first reading of its row."""
        reading, answer = self._readings.get(result.key), result.answer
        if reading is None or not result.is_reread or answer is None:
            return result
        first = reading.find_result(result.case)
        assert first.answer is not None
        costs = replace(
            answer.costs,
            passes=_add(answer.costs.passes, first.answer.costs.passes),
            answers=_add(answer.costs.answers, first.answer.costs.answers),
        )
        return replace(result, answer=replace(answer, costs=costs))

    def begin_second(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases, of those with results, that averages need a second time."""
        readings = dict.fromkeys(filter(None, (self._readings.get(case.key) for case in cases)))
        names = {reading: reading.begin_second() for reading in readings}
        return [
            case
            for case in cases
            if (reading := self._readings.get(case.key)) and case.name in names[reading]
        ]

    def add(self, result: CaseResult) -> None:
        """Add the result of a case."""
        if result.status is not Status.UNREAD and (reading := self._readings.get(result.key)):
            reading.add(result)


def _add(first: int | None, second: int | None) -> int | None:
    """Add counts, of which neither or both are known."""
    return None if first is None or second is None else first + second
