"""Notes of a result for all outputs: the verdicts of each model, and what is missing."""

from collections.abc import Iterator, Sequence

from llmchecker.checking.endings import describe_beginnings
from llmchecker.suites.entries import describe_counts, find_beginnings
from llmchecker.suites.results import NotCompared, SuiteResult
from llmchecker.suites.warnings import list_warnings
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable, shorten

_MAX_NOTE = 500
"""Maximum number of characters of a note."""


def build_notes(result: SuiteResult) -> list[str]:
    """Build the notes of a result, each a line of inert text."""
    incomplete = describe_incomplete(result)
    confidence = result.suite.confidence
    found = (find_beginnings(case, each, confidence) for case, each in result.verdicts)
    return [
        *([] if incomplete is None else [incomplete]),
        *_iter_counts(result),
        *(_clean(warning) for warning in list_warnings(result.suite)),
        *describe_beginnings(each for each in found if each is not None),
        *_list_case_notes(result),
        *(_describe_missing(result, missing) for missing in result.not_compared),
    ]


def _list_case_notes(result: SuiteResult) -> list[str]:
    """List the notes on the queries of cases, as of judges, and on their models, each once."""
    notes = [note for case in result.suite.representatives for note in case.question.asked.notes]
    # what a provider did with the answers is next to each case
    answers = [each.answer for each in result.results if each.answer is not None]
    notes += [note for each in answers if not each.is_text_only for note in each.notes]
    return [_clean(note) for note in dict.fromkeys(notes)]


def select_notes(notes: Sequence[str], maximum: int) -> list[str]:
    """Select the first notes, and state the number of the others."""
    hidden = len(notes) - maximum
    return [*notes[:maximum], *([f"… and {hidden:,} more notes"] if hidden > 0 else [])]


def describe_incomplete(result: SuiteResult) -> str | None:
    """Describe how many results an interrupted run has; None for a complete run."""
    if result.is_complete:
        return None
    total = format_count(len(result.results), "result")
    return f"incomplete: the run ended early with {result.finished_count:,} of {total}"


def _iter_counts(result: SuiteResult) -> Iterator[str]:
    """Yield the numbers of verdicts of each model, if there are several."""
    deployments = result.suite.deployments
    for deployment in deployments if len(deployments) > 1 else ():
        counts = describe_counts(result.count_deployment(deployment.name))
        yield _clean(f"{deployment.name}: {counts}")


def _describe_missing(result: SuiteResult, missing: NotCompared) -> str:
    is_stored = missing.deployment == missing.baseline
    has_several = len(result.suite.deployments) > 1 and not is_stored
    name = f"{missing.deployment}: {missing.name}" if has_several else missing.name
    text = f"not compared with {missing.baseline}: {name}: {missing.reason}"
    return _clean(text)


def _clean(text: str) -> str:
    return shorten(escape_unprintable(text), _MAX_NOTE)
