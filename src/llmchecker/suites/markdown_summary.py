"""Results as Markdown, for the summary of a step in continuous integration."""

from pathlib import Path

from llmchecker.suites.entries import (
    Entry,
    build_entries,
    describe_confidence,
    sort_entries,
    summarize,
)
from llmchecker.suites.notes import build_notes, select_notes
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.terminal_table import format_name, has_several_models
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.markdown_text import format_block, format_cell, format_text

_MAX_ROWS = 500
"""Maximum number of rows, since readers limit the size of a summary."""
_SIGNS = {
    Status.ERROR: "❗",
    Status.VIOLATED: "❌",
    Status.UNKNOWN: "❔",
    Status.HOLDS: "✅",
    Status.MEASURED: "📏",
}
_COLUMNS = ("verdict", "probability", "requirement", "threshold", "case", "model")


def write_markdown(result: SuiteResult, path: str | Path) -> None:
    """Write a result as Markdown."""
    with atomic_write(path) as partial:
        partial.write_text(format_markdown(result), encoding="utf-8")


def format_markdown(result: SuiteResult) -> str:
    """Format a result as Markdown: counts, a table with failures first, and their reasons."""
    entries = sort_entries(build_entries(result))
    shown = entries[:_MAX_ROWS]
    columns = _COLUMNS if has_several_models(result) else _COLUMNS[:-1]
    notes = [f"- {format_text(note)}" for note in select_notes(build_notes(result), _MAX_ROWS)]
    lines = [
        f"## {format_text(result.suite.name)}",
        "",
        " ".join([f"**{summarize(result)}**.", *describe_confidence(result, entries)]),
        "",
        *([*notes, ""] if notes else []),
        f"| {' | '.join(['', *columns])} |",
        f"|{' --- |' * (len(columns) + 1)}",
        *(_format_row(entry, len(columns)) for entry in shown),
    ]
    if len(entries) > _MAX_ROWS:
        lines += ["", f"{len(entries) - _MAX_ROWS:,} more rows are left out."]
    for entry in shown:
        if entry.lines:
            name = format_text(format_name(entry, has_several_models(result)))
            lines += ["", f"{_SIGNS[entry.status]} {name}", "", format_block(entry.lines)]
    return "\n".join(lines) + "\n"


def _format_row(entry: Entry, columns: int) -> str:
    texts = (
        *(entry.verdict, entry.details, entry.labelled_requirement),
        *(entry.threshold, entry.subject, entry.deployment),
    )
    return f"| {' | '.join([_SIGNS[entry.status], *map(format_cell, texts[:columns])])} |"
