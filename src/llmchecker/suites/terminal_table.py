"""The table of a result as plain text."""

from collections.abc import Sequence

from llmchecker.suites.entries import (
    Entry,
    build_entries,
    describe_confidence,
    sort_entries,
    summarize,
)
from llmchecker.suites.notes import build_notes, select_notes
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status

_MAX_HOLDS = 50
"""Maximum number of entries without a failure in the table."""
_MAX_NOTES = 20
"""Maximum number of notes after the table."""
_FAILURES = (Status.ERROR, Status.VIOLATED, Status.UNKNOWN)


def format_table(result: SuiteResult) -> str:
    """Format a result as text: a line for each verdict, failures first."""
    entries = build_entries(result)
    shown, with_model = select_entries(entries), has_several_models(result)
    lines = [line for entry in shown for line in _format_entry(entry, with_model)]
    return "\n".join([*lines, *format_end(result, entries, len(entries) - len(shown))])


def select_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Select all failures, and the first entries without a failure, in the order of outputs."""
    selected, quiet_count = [], 0
    for entry in sort_entries(entries):
        quiet_count += entry.status not in _FAILURES
        if entry.status in _FAILURES or quiet_count <= _MAX_HOLDS:
            selected.append(entry)
    return selected


def has_several_models(result: SuiteResult) -> bool:
    """Return whether the result has several models or differences, so that names need theirs."""
    return len(result.suite.deployments) > 1 or any(
        aggregate.kind == "difference" for aggregate in result.aggregates
    )


def format_name(entry: Entry, with_model: bool) -> str:
    """Format the name of an entry: its prompt and its requirement, and its model on request."""
    subject = f"{entry.deployment}: {entry.subject}" if with_model else entry.subject
    return f"{subject}: {entry.content}" if entry.content else subject


def format_end(result: SuiteResult, entries: Sequence[Entry], hidden: int) -> list[str]:
    """Format the number of entries that are left out, notes and the summary, as lines."""
    lines = [f"… and {hidden:,} more without a failure"] if hidden else []
    if notes := select_notes(build_notes(result), _MAX_NOTES):
        lines += ["", *notes]
    return [*lines, "", " ".join([f"{summarize(result)}.", *describe_confidence(result, entries)])]


def _format_entry(entry: Entry, with_model: bool) -> list[str]:
    """Return the lines of an entry."""
    return [
        f"{entry.verdict:<9}{' ' * (len(entry.verdict) > 8)}{format_name(entry, with_model)}",
        *(f"{'':<11}{line}" for line in (entry.details, *entry.lines) if line),
    ]
