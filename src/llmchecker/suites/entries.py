"""Entries of outputs: a line for each verdict, with its reasons, as inert text.

Texts of prompts, files and models are printed without control characters. Each output escapes its
own markup besides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from llmchecker.checking.figures import Bar, Figure, Row, format_row
from llmchecker.checking.formatting import format_interval
from llmchecker.checking.interval import DIFFERENCES, PROBABILITIES, Interval
from llmchecker.checking.measurement import Measurement, Threshold
from llmchecker.suites.cases import Suite
from llmchecker.suites.multiple_testing import METHOD
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Aggregate, CaseResult, Status
from llmchecker.utils.number_format import format_count, format_lower, format_number, format_upper
from llmchecker.utils.printable_text import escape_unprintable

_DIGITS = 4
"""Significant digits of a figure, unless it needs more to show its verdict."""
_MAX_DIGITS = 17
"""The number of significant digits that tell all floats apart."""
_MAX_NAME = 300
"""Maximum number of characters of a name in an output."""
_ORDER = (Status.ERROR, Status.VIOLATED, Status.UNKNOWN, Status.HOLDS, Status.MEASURED)
"""The order of entries: failures first."""


@dataclass(frozen=True)
class Entry:
    """A verdict or a figure in an output, as inert text.

    Attributes:
        deployment: name of the model.
        group: the entry of the suite file, `average`, `group` or `difference`.
        name: name of the case or aggregate.
        query: the query, or the requirement of an aggregate; empty without one.
        prompt: the prompt; empty for an aggregate.
        status: the status.
        certainty: `certain`, `with confidence …` or empty.
        row: the intervals as figures; empty if the verdict needs none.
        reasons: lines with the reasons: texts, passes or an error.
        seconds: duration in seconds.
    """

    deployment: str
    group: str
    name: str
    query: str
    prompt: str
    status: Status
    certainty: str
    row: Row
    reasons: tuple[str, ...]
    seconds: float

    @property
    def figures(self) -> str:
        """The intervals as text; empty if the verdict needs none."""
        return format_row(self.row)

    @property
    def verdict(self) -> str:
        """The status with its certainty."""
        return f"{self.status}, {self.certainty}" if self.certainty else str(self.status)


def build_entries(result: SuiteResult) -> list[Entry]:
    """Build the entries of a result, in the order of the suite."""
    return list(_iter_entries(result))


def list_requirements(suite: Suite) -> list[tuple[str, str]]:
    """List the deployment and the name of each requirement, as its entry has them.

    Without results, requirements of stored results are not known.
    """
    # trivial results have the same requirements as any others
    results = tuple(
        CaseResult(case.name, case.deployment.name, Status.UNKNOWN) for case in suite.cases
    )
    entries = build_entries(SuiteResult(suite, results))
    return [
        (entry.deployment, entry.name) for entry in entries if entry.status is not Status.MEASURED
    ]


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries: errors first, then violated and unknown cases."""
    return sorted(entries, key=lambda entry: _ORDER.index(entry.status))


def summarize(result: SuiteResult) -> str:
    """Summarize the numbers of verdicts."""
    counts = result.counts
    parts = [
        (counts.errors, "failed to run"),
        (counts.violated, "violated"),
        (counts.unknown, "unknown"),
        (counts.holds, "hold" if counts.holds != 1 else "holds"),
    ]
    return ", ".join(f"{number:,} {noun}" for number, noun in parts if number) or "no verdicts"


def describe_confidence(result: SuiteResult) -> str:
    """Describe the confidence of the verdicts."""
    suite = result.suite
    text = (
        f"All verdicts together have confidence {format_number(suite.confidence)} "
        f"({METHOD}, {format_count(suite.interval_count, 'interval')})."
    )
    if result.baseline is not None:
        confidence = format_number(result.difference_confidence)
        text += f" Differences from stored results have confidence {confidence}."
    return text


def _build_row(
    measurement: Measurement, threshold: Threshold | None, axis: Interval = PROBABILITIES
) -> Row:
    """Build the figures of the certain bounds and the interval; empty without evidence."""
    certain, sampled = measurement.certain, measurement.sampled
    digits = _DIGITS if threshold is None else _choose_digits(threshold, certain, sampled)
    if certain.is_exact:
        return (Figure(format_number(certain.lower, digits)),)
    row: Row = ()
    # trivial bounds inform nobody
    if certain not in (PROBABILITIES, DIFFERENCES):
        row = (Figure(f"certain {format_interval(certain, digits)}", bar=Bar(certain, axis)),)
    if sampled != certain:
        text = f"estimate {format_interval(sampled, digits)}"
        row = (*row, Figure(text, " with confidence", Bar(sampled, axis)))
    return row


def _choose_digits(threshold: Threshold, *intervals: Interval) -> int:
    """Return the digits with which rounded intervals meet a threshold as the exact ones do."""
    for digits in range(_DIGITS, _MAX_DIGITS):
        if all(
            threshold.compare_ends(
                Decimal(format_lower(each.lower, digits)), Decimal(format_upper(each.upper, digits))
            )
            == threshold.compare(each)
            for each in intervals
        ):
            return digits
    return _MAX_DIGITS


def _iter_entries(result: SuiteResult) -> Iterator[Entry]:
    confidence = f"with confidence {format_number(result.suite.confidence)}"
    verdicts = {(case.deployment.name, case.name) for case, _ in result.verdicts}
    for case, case_result in zip(result.suite.cases, result.results, strict=True):
        # members of averages are entries only if they failed to run
        is_verdict = (case.deployment.name, case.name) in verdicts
        if not is_verdict and case_result.status is not Status.ERROR:
            continue
        yield Entry(
            deployment=_clean(case.deployment.name),
            group=_clean(case.entry),
            name=_clean(case.name),
            query=_clean(" ".join(case.question.query.text.split())),
            prompt=_clean(case.prompt),
            status=case_result.status,
            certainty=_describe_certainty(case_result.status, case_result.is_certain, confidence),
            row=_build_case_row(case_result, case.threshold),
            reasons=tuple(_iter_reasons(case_result)),
            seconds=case_result.seconds,
        )
    for aggregate in result.aggregates:
        yield _build_aggregate_entry(result, aggregate)


def _build_case_row(result: CaseResult, threshold: Threshold | None) -> Row:
    """Build the figures of a case; a certain verdict needs no samples."""
    if result.is_certain and result.measurement.certain == PROBABILITIES:
        return ()
    return _build_row(result.measurement, threshold)


def _build_aggregate_entry(result: SuiteResult, aggregate: Aggregate) -> Entry:
    is_difference = aggregate.kind == "difference"
    confidence = result.difference_confidence if is_difference else result.suite.confidence
    noun = "difference" if is_difference else "mean"
    return Entry(
        deployment=_clean(aggregate.deployment),
        group=aggregate.kind,
        name=_clean(aggregate.name),
        query="" if aggregate.threshold is None else f"{noun} {aggregate.threshold}",
        prompt="",
        status=aggregate.status,
        certainty=_describe_certainty(
            aggregate.status, aggregate.is_certain, f"with confidence {format_number(confidence)}"
        ),
        row=_build_row(
            aggregate.measurement,
            aggregate.threshold,
            DIFFERENCES if is_difference else PROBABILITIES,
        ),
        reasons=(),
        seconds=0.0,
    )


def _describe_certainty(status: Status, is_certain: bool, confidence: str) -> str:
    if status not in (Status.HOLDS, Status.VIOLATED):
        return ""
    return "certain" if is_certain else confidence


def _iter_reasons(result: CaseResult) -> Iterator[str]:
    """Yield the lines that explain a result."""
    if result.error is not None:
        yield _clean(result.error)
    for witness in result.witnesses:
        text = _clean(witness.continuation, quoted=True)
        yield f"{format_number(witness.probability, _DIGITS)}  {text}"
    answers = None if result.answer is None else result.answer.costs.answers
    unit, units = ("pass", "passes") if answers is None else ("answer", "answers")
    if result.status is Status.UNKNOWN:
        used = format_count(result.passes if answers is None else answers, unit)
        needed = (
            f"no forecast of the {units} that would decide it"
            if result.required_passes is None
            else f"about {format_count(result.required_passes, unit)} would decide it"
        )
        yield f"{used} used; {needed}"
    # what a provider did with the answers is a part of the verdict
    if result.answer is not None and answers is not None:
        yield from map(_clean, result.answer.notes)


def _clean(text: str, *, quoted: bool = False) -> str:
    """Return a text on one line, without control characters and not too long."""
    shown = text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}…"
    shown = escape_unprintable(shown)
    return f'"{shown}"' if quoted else shown
