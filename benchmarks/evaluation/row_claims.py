"""Whether claims about many rows hold: misses over many seeds, at every stop.

A row is one of a few whose probabilities are known. Half of the rows are exact, as those of a table
model are; the others have a few answers each. Averages have the truth as their threshold, where
bets are largest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from llmchecker.checking.answer import Answer, Sampled
from llmchecker.checking.anytime.confidence_sequence import (
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.drift_evidence import SumEvidence, is_beyond, is_changed
from llmchecker.checking.anytime.mean_evidence import MeanEvidence, Member
from llmchecker.properties.logic.parser import parse
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.row_effort import WHOLE, find_block
from llmchecker.suites.statistic import RowFigure, Scope, Statistic
from llmchecker.suites.true_rate import bound_rate
from llmchecker.suites.verdicts import CaseResult, Status, parse_threshold
from llmchecker.utils.interval import PROBABILITIES, Interval

POPULATION = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
"""The probabilities of rows, which are drawn equally often."""
ROWS, ANSWERS, STEP = 16, 12, 2
"""Number of rows, answers to a sampled row, and rows between two stops."""
_MORE_ROWS, _BUDGET = 32, 128
"""Number of rows that choose efforts, and the answers of a whole budget."""
_FEW_ROWS, _ROUNDS = 6, 4
"""Rows that have an interval each, and their rounds of answers."""
_DAYS, _DAILY, _AT_RELEASE = 30, 8, 60
_TEXTS, _LABELS, _LABEL_STEP = 40, 24, 4
"""Number of judged texts, the most labels, and labels between two stops."""
_ROUNDING = 1e-6
LIKE = Statistic(Scope.POPULATION)
_QUERY = parse("P=? [ F x = 1 ]")
_MEAN = float(POPULATION.mean())


def count_misses(
    seeds: int, confidence: float, report: Callable[[str], None] = print
) -> Iterator[tuple[str, int]]:
    """Yield each claim and the number of runs that ever miss the truth.

    Args:
        seeds: number of runs of each claim.
        confidence: the nominal confidence.
        report: a function that receives the progress.
    """
    for names, is_missed in CLAIMS.items():
        misses = np.zeros(len(names), int)
        for seed in range(seeds):
            misses += is_missed(np.random.default_rng(seed), 1 - confidence, seed)
        for name, number in zip(names, misses.tolist(), strict=True):
            report(f"{name}: {number} of {seeds}")
            yield name, number


def _read_exact(name: str, probability: float) -> CaseResult:
    answer = Answer(_QUERY, 3, Interval(probability, probability))
    return CaseResult(name, "m", Status.MEASURED, answer=answer)


def _read_sampled(
    name: str, interval: Interval, estimate: float, evidence: MeanEvidence | None = None
) -> CaseResult:
    answer = Answer(_QUERY, 3, PROBABILITIES, Sampled(interval, estimate, 0.999, ANSWERS))
    return CaseResult(name, "m", Status.MEASURED, answer=answer, evidence=evidence)


def _read_row(name: str, probability: float, rng: np.random.Generator) -> CaseResult:
    """Read a row exactly, or by a few answers."""
    if rng.random() < 0.5:
        return _read_exact(name, probability)
    bits = (rng.random(ANSWERS) < probability).astype(float)
    evidence = MeanEvidence().add_round(bits, len(bits), 0.0, 1.0, ANSWERS)
    return _read_sampled(name, PROBABILITIES, float(bits.mean()), evidence)


def _read_rows(truth: Sequence[float], rng: np.random.Generator) -> list[CaseResult]:
    return [_read_row(f"{number:02}", p, rng) for number, p in enumerate(truth)]


def _hide(results: Sequence[CaseResult], read: set[int]) -> list[CaseResult]:
    """Return the results of a run that read some of the rows."""
    return [
        each if row in read else CaseResult(each.case, "m", Status.UNREAD)
        for row, each in enumerate(results)
    ]


def _list_stops(estimator: AverageEstimator, results: Sequence[CaseResult]) -> Iterator[set[int]]:
    """Yield the numbers of the rows that are read, at each stop."""
    clusters = estimator.order_rows([each.case for each in results])
    stops = range(STEP, len(clusters) + 1, STEP)
    return ({row for rows in clusters[:stop] for row in rows} for stop in stops)


def _misses(interval: Interval, truth: float) -> bool:
    return not interval.lower - _ROUNDING <= truth <= interval.upper + _ROUNDING


def _build_estimator(
    statistic: Statistic, truth: float | None, error: float, seed: int
) -> AverageEstimator:
    threshold = None if truth is None else parse_threshold(f">= {truth:.9f}")
    return AverageEstimator(statistic, threshold, error, PROBABILITIES, seed)


def _miss_mean(
    statistic: Statistic,
    results: Sequence[CaseResult],
    truth: float,
    threshold: float | None,
    error: float,
    seed: int,
) -> bool:
    estimator = _build_estimator(statistic, threshold, error, seed)
    return any(
        _misses(estimator.measure(_hide(results, read)).sampled, truth)
        for read in _list_stops(estimator, results)
    )


def _miss_these(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    truth = rng.choice(POPULATION, ROWS)
    mean = float(truth.mean())
    results = _read_rows(truth, rng)
    return [_miss_mean(Statistic(), results, mean, mean, error, seed)]


def _miss_like(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    results = _read_rows(rng.choice(POPULATION, ROWS), rng)
    return [_miss_mean(LIKE, results, _MEAN, threshold, error, seed) for threshold in (_MEAN, None)]


def _read_with_effort(
    name: str, probability: float, effort: float, rng: np.random.Generator, *, is_reread: bool
) -> CaseResult:
    """Read a row with a part of its budget, in two rounds; unless it is sure."""
    if probability in (0, 1):
        result = _read_exact(name, probability)
    else:
        bits = (rng.random(int(_BUDGET * effort)) < probability).astype(float)
        half, evidence = len(bits) // 2, MeanEvidence()
        for part, planned in ((bits[:half], len(bits)), (bits[half:], len(bits) - half)):
            evidence = evidence.add_round(part, len(part), 0.0, 1.0, planned)
        result = _read_sampled(name, PROBABILITIES, float(bits.mean()), evidence)
    return replace(result, effort=effort, is_reread=is_reread)


def _miss_efforts(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """Rows choose efforts, and are read again where these leave the mean of a list open."""
    truth = rng.choice(POPULATION, _MORE_ROWS)
    missed = []
    for statistic, mean in ((Statistic(), float(truth.mean())), (LIKE, _MEAN)):
        estimator = _build_estimator(statistic, mean, error, seed)
        results = [CaseResult(f"{row:02}", "m", Status.UNREAD) for row in range(_MORE_ROWS)]
        order = [row for (row,) in estimator.order_rows([each.case for each in results])]
        stops, effort = [], WHOLE
        for place, row in enumerate(order):
            if find_block(place) == place:
                before = [results[each] for each in order[:place]]
                effort = estimator.plan_effort(before, _MORE_ROWS)
            read = _read_with_effort(results[row].case, truth[row], effort, rng, is_reread=False)
            results[row] = read
            if (place + 1) % (2 * STEP) == 0:
                stops.append(estimator.measure(results).sampled)
        if statistic.scope is Scope.ROWS and not estimator.is_decided(results):
            left = [row for row in order if results[row].effort != WHOLE]
            for row in left:
                name = results[row].case
                results[row] = _read_with_effort(name, truth[row], WHOLE, rng, is_reread=True)
                stops.append(estimator.measure(results).sampled)
        missed.append(any(_misses(each, mean) for each in stops))
    return missed


def _miss_clusters(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """Rows of a cluster have one probability, and clusters differ in size."""
    clusters = {f"{n:02}.{row}": n for n in range(ROWS) for row in range(1 + 3 * (n % 2))}
    shared = rng.choice(POPULATION, ROWS)
    results = [_read_row(name, shared[number], rng) for name, number in clusters.items()]
    names = {name: str(number) for name, number in clusters.items()}
    statistic = Statistic(Scope.POPULATION, None, "topic", names)
    return [_miss_mean(statistic, results, _MEAN, _MEAN, error, seed)]


def _miss_paired(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """The other deployment is right on a row half as often."""
    truth = rng.choice(POPULATION, ROWS)
    own, other = _read_rows(truth, rng), _read_rows(truth / 2, rng)
    # a difference has half of the error probability
    estimator = _build_estimator(Statistic(Scope.POPULATION), None, 2 * error, seed)
    found = (
        estimator.measure_difference(_hide(own, read), _hide(other, read)).sampled
        for read in _list_stops(estimator, own)
    )
    return [any(_misses(each, _MEAN / 2) for each in found)]


class _Row:
    """A row with an interval of its own, after each round of answers."""

    def __init__(self, probability: float, error: float, rng: np.random.Generator) -> None:
        self._probability, self._rng = probability, rng
        self._sequence = ConfidenceSequence(1 - error)
        self._bits = np.zeros(0)

    def answer(self, name: str) -> CaseResult:
        bits = (self._rng.random(ANSWERS) < self._probability).astype(float)
        variances = predict_variances(self._bits, bits)
        planned = float(_ROUNDS * ANSWERS - len(self._bits))
        ones = np.ones(ANSWERS)
        self._sequence.narrow_interval(Values(bits, ones, 0.0, 1.0, 1.0, variances, planned))
        self._bits = np.append(self._bits, bits)
        interval = Interval(*self._sequence.interval)
        return _read_sampled(name, interval, interval.clip(self._sequence.estimate))


_REACHED = parse_threshold(">= 0.5")


def _miss_functions(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """The worst row, the share of reliable rows, and pass^5, of rows with an interval each."""
    truth = rng.choice(POPULATION, _FEW_ROWS)
    figures = [
        (Statistic(Scope.WORST), float(truth.max())),
        (
            Statistic(figure=RowFigure(reached=_REACHED)),
            float((truth >= float(_REACHED.number)).mean()),
        ),
        (Statistic(figure=RowFigure(5)), float((truth**5).mean())),
    ]
    estimators = [
        AverageEstimator(
            statistic, parse_threshold(f"<= {number:.9f}"), error / 2, PROBABILITIES, seed
        )
        for statistic, number in figures
    ]
    # the intervals of rows have half of the error probability together
    rows = [_Row(p, error / 2 / _FEW_ROWS, rng) for p in truth]
    missed = [False] * len(figures)
    for _ in range(_ROUNDS):
        results = [row.answer(str(number)) for number, row in enumerate(rows)]
        for index, (estimator, (_, number)) in enumerate(zip(estimators, figures, strict=True)):
            missed[index] |= _misses(estimator.measure(results).sampled, number)
    return missed


def _miss_days(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """Days like the release, and a requirement that holds by a hair."""
    probability = float(POPULATION[1 + seed % 3])

    def draw_day(answers: int) -> SumEvidence:
        bits = (rng.random(answers) < probability).astype(float)
        evidence = MeanEvidence().add_round(bits, answers, 0.0, 1.0, answers)
        return SumEvidence.add_members([Member(0.0, 1.0, evidence)])

    release, days = draw_day(_AT_RELEASE), [draw_day(_DAILY) for _ in range(_DAYS)]
    so_far = [days[: stop + 1] for stop in range(_DAYS)]
    return [
        any(is_changed(release, each, sign, 0.0, error / 2) for each in so_far for sign in (1, -1)),
        any(is_beyond(each, -1, probability, error) for each in so_far),
    ]


def _miss_labels(rng: np.random.Generator, error: float, seed: int) -> list[bool]:
    """Judges that are mostly right, guess, are mostly wrong, or get worse from text to text."""
    accuracies: list[float | np.ndarray] = [0.95, 0.5, 0.05, np.linspace(1, 0, _TEXTS)]
    truths = rng.random(_TEXTS) < POPULATION[1 + seed % 3]
    grades = truths == (rng.random(_TEXTS) < accuracies[seed % len(accuracies)])
    order = rng.permutation(_TEXTS)[:_LABELS]
    own, judged = truths[order].tolist(), grades[order].tolist()
    mean = float(grades.mean())
    found = (
        bound_rate(own[:stop], judged[:stop], mean, _TEXTS, error)
        for stop in range(0, _LABELS + 1, _LABEL_STEP)
    )
    return [any(_misses(each, float(truths.mean())) for each in found)]


CLAIMS: dict[tuple[str, ...], Callable[[np.random.Generator, float, int], Sequence[bool]]] = {
    ("these rows",): _miss_these,
    ("rows like these", "rows like these, no threshold"): _miss_like,
    ("these rows, efforts", "rows like these, efforts"): _miss_efforts,
    ("clusters",): _miss_clusters,
    ("paired difference",): _miss_paired,
    ("worst row", "share of rows", "pass^5"): _miss_functions,
    ("labels and judge",): _miss_labels,
    ("watch, as at release", "watch, requirement holds"): _miss_days,
}
"""The claims, and a run of each that says which claims ever miss the truth."""
