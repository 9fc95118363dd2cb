"""The table of a result on a terminal."""

from llmchecker.suites.entries import (
    Entry,
    build_entries,
    describe_confidence,
    sort_entries,
    summarize,
)
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status

_MAX_HOLDS = 50
"""Maximum number of entries without a failure in the table."""
_FAILURES = (Status.ERROR, Status.VIOLATED, Status.UNKNOWN)


def format_table(result: SuiteResult) -> str:
    """Format a result as text: a line for each verdict, failures first."""
    entries = sort_entries(build_entries(result))
    has_models = len({entry.deployment for entry in entries}) > 1
    quiet_entries = [entry for entry in entries if entry.status not in _FAILURES]
    shown = [entry for entry in entries if entry.status in _FAILURES] + quiet_entries[:_MAX_HOLDS]
    lines = [line for entry in shown for line in _format_entry(entry, has_models)]
    hidden = len(entries) - len(shown)
    if hidden:
        lines.append(f"… and {hidden:,} more without a failure")
    return "\n".join([*lines, "", f"{summarize(result)}. {describe_confidence(result)}"])


def _format_entry(entry: Entry, has_models: bool) -> list[str]:
    """Return the lines of an entry."""
    name = f"{entry.deployment}: {entry.name}" if has_models else entry.name
    figures = f"  {entry.figures}" if entry.figures else ""
    certainty = f" ({entry.certainty})" if entry.certainty else ""
    return [
        f"{entry.status:<9}{name}{certainty}{figures}",
        *(f"{'':<11}{reason}" for reason in entry.reasons),
    ]
