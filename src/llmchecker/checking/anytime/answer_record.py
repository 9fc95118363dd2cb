"""Files of answers for the whole model, with the check and the budget that they belong to.

A file contains the sha256 of its content, which reveals a changed answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.checking.answer import Answer, Costs
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.formatting import FEW_DIGITS, format_interval, format_value
from llmchecker.errors import DamagedFile
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from llmchecker.utils.number_format import format_count, format_number

# tables read records without the packages that compute answers
if TYPE_CHECKING:
    from llmchecker.checking.answer import Progress

_HISTORY_FIELDS = ("passes", "samples", "lower", "upper", "low", "high")
_TIME_NOTE = "The limit of seconds makes this answer depend on the machine's speed."
_NO_SAMPLE_NOTE = "There is no estimate: the limits allow no sample."


@dataclass(frozen=True)
class AnswerRecord:
    """The answer to a check of the workflow, and how it was made.

    If passes or the width ended the work, the answer depends on model, check and seed alone, but
    for its seconds.

    Attributes:
        check: name of model, start string, tree and query, as in the file's path.
        answer: the answer, without sizes of the refined tree; without witnesses for a check with a
            tree, whose answer has them.
        limits: passes, width, seconds and seed of the budget; None for no limit.
        history: passes, samples and both intervals after each round, as equally long lists. For a
            threshold query the intervals are those of the probability. Empty if single texts do not
            decide the query.
        making: the fields of a `run_metadata.RunMetadata`.
    """

    check: str
    answer: Answer
    limits: Mapping[str, float | None]
    history: Mapping[str, Sequence[float | None]]
    making: Mapping[str, Any]

    def __str__(self) -> str:
        answer = self.answer
        certain = (
            f"{format_value(answer.lower, FEW_DIGITS)} to {format_value(answer.upper, FEW_DIGITS)}"
        )
        parts = [f"certain {certain}"]
        # without samples there is no interval
        if answer.sampled is not None:
            parts.append(
                f"{format_value(answer.sampled.estimate, FEW_DIGITS)} in "
                f"{format_interval(answer.sampled.interval, FEW_DIGITS)} with confidence "
                f"{format_number(answer.confidence)}, {format_count(answer.samples, 'sample')}"
            )
        passes = format_count(answer.passes, "pass")
        return f"{', '.join(parts)}, {passes}, {answer.seconds:.1f} s"

    def write(self, path: str | Path) -> None:
        """Write the answer as JSON, with the further fields and the digest."""
        details = {
            "check": self.check,
            "limits": dict(self.limits),
            "history": {name: list(column) for name, column in self.history.items()},
            "making": dict(self.making),
        }
        write_json_with_digest(self.answer.as_json() | details, path)

    @classmethod
    def read(cls, path: str | Path) -> "AnswerRecord":
        """Read a file that `write` wrote.

        Raises:
            DamagedFile: the file changed, or contains no answer of this format.
        """
        content = read_json_with_digest(path)
        answer = Answer.from_json(content, path)
        names = ("limits", "history", "making")
        try:
            return cls(content["check"], answer, **{name: content[name] for name in names})
        # the answer of a tree belongs to no check
        except KeyError as error:
            raise DamagedFile(
                f"{path}: damaged or from another version: the answer has no {error}",
                path,
                "; delete it and run the same command again",
            ) from error


def build_record(
    check: str,
    asked: CheckedQuery,
    budget: Budget,
    answer: Answer,
    making: Mapping[str, Any],
    has_tree: bool,
) -> AnswerRecord:
    """Build the record of an answer.

    Args:
        check: name of the check.
        asked: the query, its quantifiers and the horizon.
        budget: the limits of the answer.
        answer: the answer.
        making: the fields of a `run_metadata.RunMetadata`.
        has_tree: whether the check has a tree too, whose answer has the witnesses.
    """
    stored = replace(
        answer,
        notes=_build_notes(asked, budget, answer),
        # the refined tree has no size of an alpha and k, and a forecast depends on the speed
        costs=Costs(passes=answer.passes, seconds=answer.seconds),
        forecast=None,
    )
    return AnswerRecord(
        check=check,
        answer=stored.with_witnesses(()) if has_tree else stored,
        limits={
            "passes": budget.passes,
            "width": budget.width or None,
            "seconds": budget.seconds,
            "seed": budget.seed,
        },
        history=_build_history(asked, answer.history),
        making=making,
    )


def _build_history(
    asked: CheckedQuery, history: "Sequence[Progress]"
) -> dict[str, list[float | None]]:
    # the masses of a query that single texts do not decide are no bounds of its answer
    if asked.estimation_obstacle is not None:
        return {}
    return {name: [getattr(row, name) for row in history] for name in _HISTORY_FIELDS}


def _build_notes(asked: CheckedQuery, budget: Budget, answer: Answer) -> tuple[str, ...]:
    notes = list(answer.notes)
    obstacle = asked.estimation_obstacle
    if obstacle is not None:
        notes.append(f"There is no estimate: {obstacle}.")
    # where everything is decided, no sample is missing
    elif answer.sampled is None and not answer.certain.is_exact:
        notes.append(_NO_SAMPLE_NOTE)
    if budget.seconds is not None:
        notes.append(_TIME_NOTE)
    return tuple(notes)
