"""Files of anytime answers, and verdicts with them.

A file contains the sha256 of its content, which reveals a changed answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.estimate import Estimate, with_estimate
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.formatting import FEW_DIGITS, format_interval, format_value
from llmchecker.checking.interval import Interval
from llmchecker.checking.verdict import Verdict
from llmchecker.errors import CheckFailed, DamagedFile
from llmchecker.properties.logic.query import Query
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from llmchecker.utils.number_format import format_count, format_number

# tables read records without the packages that compute answers
if TYPE_CHECKING:
    from llmchecker.checking.anytime.answer import AnytimeResult
    from llmchecker.checking.anytime.anytime_check import AnytimeProgress

_HISTORY_FIELDS = ("passes", "samples", "lower", "upper", "low", "high")
_TIME_NOTE = "The limit of seconds makes this answer depend on the machine's speed."
_NO_SAMPLE_NOTE = "There is no estimate: the limits allow no sample."


@dataclass(frozen=True)
class AnswerRecord:
    """The answer to a check for the whole model.

    If passes or the width ended the work, all fields but `seconds` and `making` depend on model,
    check and seed alone.

    Attributes:
        check: name of model, start string, tree and query, as in the file's path.
        query: text of the query as the user wrote it.
        lower, upper: the certain bounds, as in `Verdict`.
        estimate: the estimated number, for a threshold query that of the probability; None without
            samples.
        low, high: the interval of that number, within the certain bounds; None without samples.
        confidence: confidence of the interval; None without samples.
        samples: number of samples in the interval; None without samples.
        passes: number of texts that the model evaluated.
        seed: seed of the samples.
        limits: passes, width and seconds at which the work ends; None for no limit.
        decision: the fields of a `Decision`; None for a query with =?.
        history: passes, samples and both intervals after each round, as equally long lists. For a
            threshold query the intervals are those of the probability. Empty if single texts do not
            decide the query.
        witnesses: the fields of each `Witness`; None for a check with a tree, whose verdict has
            them.
        notes: sentences with the reason of wide bounds or of a missing estimate.
        seconds: seconds of the whole computation, without loading the model.
        versions: versions of storm, stormpy and llmchecker.
        making: the fields of a `run_metadata.RunMetadata`.
    """

    check: str
    query: str
    lower: float | bool | None
    upper: float | bool | None
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float | None
    samples: int | None
    passes: int
    seed: int
    limits: Mapping[str, float | None]
    decision: Mapping[str, str | float | None] | None
    history: Mapping[str, Sequence[float | None]]
    witnesses: Sequence[Mapping[str, Any]] | None
    notes: Sequence[str]
    seconds: float
    versions: Mapping[str, str]
    making: Mapping[str, Any]

    def __str__(self) -> str:
        certain = (
            f"{format_value(self.lower, FEW_DIGITS)} to {format_value(self.upper, FEW_DIGITS)}"
        )
        parts = [f"certain {certain}"]
        # without samples there is no interval
        if self.samples is not None:
            parts.append(
                f"{format_value(self.estimate, FEW_DIGITS)} in "
                f"{format_interval(Interval(self.low, self.high), FEW_DIGITS)} with confidence "
                f"{format_number(self.confidence)}, {format_count(self.samples, 'sample')}"
            )
        return f"{', '.join(parts)}, {format_count(self.passes, 'pass')}, {self.seconds:.1f} s"

    def write(self, path: str | Path) -> None:
        """Write a JSON object with these fields, and its digest."""
        write_json_with_digest(asdict(self), path)

    @classmethod
    def read(cls, path: str | Path) -> "AnswerRecord":
        """Read a file that `write` wrote.

        Raises:
            DamagedFile: the content of the file has changed.
        """
        try:
            return cls(**read_json_with_digest(path))
        except TypeError as error:
            raise DamagedFile(f"{path}: not an answer of this version: {error}", path) from error

    def build_verdict(self, query: Query) -> Verdict:
        """Build the verdict of a check without a tree: it has no value and no sizes."""
        verdict = Verdict.without_process(self.query, self.versions)
        return self.add_to(verdict.with_witnesses(self.witnesses or ()), query)

    def add_to(self, verdict: Verdict, query: Query) -> Verdict:
        """Add the answer to the verdict of a tree.

        The certain bounds are the intersection of both, and cut the interval.

        Raises:
            CheckFailed: the bounds do not intersect.
        """
        lower, upper = (
            pick((end for end in ends if end is not None), default=None)
            for pick, ends in (
                (max, (verdict.lower, self.lower)),
                (min, (verdict.upper, self.upper)),
            )
        )
        if None not in (lower, upper) and lower > upper:
            raise CheckFailed(
                f"{self.check}: the bounds of tree and answer are disjoint; compute both on one "
                "machine"
            )
        notes = tuple(dict.fromkeys((*verdict.notes, *self.notes)))
        verdict = replace(verdict, lower=lower, upper=upper, notes=notes)
        # without samples there is no interval
        if self.samples is None:
            return verdict
        estimate = Estimate(
            self.estimate,
            self.low,
            self.high,
            self.confidence,
            self.samples,
            self.passes,
            self.seed,
        )
        return with_estimate(verdict, query, estimate)


def build_record(
    check: str,
    asked: CheckedQuery,
    budget: AnswerBudget,
    result: "AnytimeResult",
    making: Mapping[str, Any],
    has_tree: bool,
) -> AnswerRecord:
    """Build the record of an answer.

    Args:
        check: name of the check.
        asked: the query, its quantifiers and the horizon.
        budget: the limits of the answer.
        result: the answer.
        making: the fields of a `run_metadata.RunMetadata`.
        has_tree: whether the check has a tree too, whose verdict has the witnesses.
    """
    verdict, estimate = result.verdict, result.estimate
    return AnswerRecord(
        check=check,
        query=asked.query.text,
        lower=verdict.lower,
        upper=verdict.upper,
        estimate=None if estimate is None else _clip(estimate.estimate, verdict),
        low=verdict.low,
        high=verdict.high,
        confidence=verdict.confidence,
        samples=verdict.samples,
        passes=result.passes,
        seed=budget.seed,
        limits={
            "passes": budget.passes,
            "width": budget.width or None,
            "seconds": budget.seconds,
        },
        decision=None if verdict.decision is None else asdict(verdict.decision),
        history=_build_history(asked, result.history),
        witnesses=None if has_tree else verdict.witnesses,
        notes=_build_notes(asked, budget, result),
        seconds=result.seconds,
        versions=verdict.versions,
        making=making,
    )


def _clip(estimate: float | None, verdict: Verdict) -> float | None:
    # a conditional whose condition no sample meets has an interval, but no estimate
    return None if estimate is None else min(max(estimate, verdict.low), verdict.high)


def _build_history(
    asked: CheckedQuery, history: "Sequence[AnytimeProgress]"
) -> dict[str, list[float | None]]:
    # the masses of a query that single texts do not decide are no bounds of its answer
    if asked.estimation_obstacle is not None:
        return {}
    return {name: [getattr(row, name) for row in history] for name in _HISTORY_FIELDS}


def _build_notes(
    asked: CheckedQuery, budget: AnswerBudget, result: "AnytimeResult"
) -> tuple[str, ...]:
    verdict = result.verdict
    # the first note of an unknown value is about the value, which an answer does not have
    notes = list(verdict.notes[1:] if verdict.value is None else verdict.notes)
    obstacle = asked.estimation_obstacle
    if obstacle is not None:
        notes.append(f"There is no estimate: {obstacle}.")
    # where everything is decided, no sample is missing
    elif verdict.samples is None and verdict.lower != verdict.upper:
        notes.append(_NO_SAMPLE_NOTE)
    if budget.seconds is not None:
        notes.append(_TIME_NOTE)
    return tuple(notes)
