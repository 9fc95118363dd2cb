"""Results as Markdown, for the summary of a step in continuous integration."""

import string
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
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write

_MAX_ROWS = 500
"""Maximum number of rows, since readers limit the size of a summary."""
_SIGNS = {
    Status.ERROR: "❗",
    Status.VIOLATED: "❌",
    Status.UNKNOWN: "❔",
    Status.HOLDS: "✅",
    Status.MEASURED: "📏",
}
# every mark of Markdown and HTML, also those of automatic links and mentions
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in string.punctuation}


def write_markdown(result: SuiteResult, path: str | Path) -> None:
    """Write a result as Markdown."""
    with atomic_write(path) as partial:
        partial.write_text(format_markdown(result), encoding="utf-8")


def format_markdown(result: SuiteResult) -> str:
    """Format a result as Markdown: counts, and a table with failures first."""
    entries = sort_entries(build_entries(result))
    rows = [_format_row(entry) for entry in entries[:_MAX_ROWS]]
    notes = [f"- {_escape_markdown(n)}" for n in select_notes(build_notes(result), _MAX_ROWS)]
    lines = [
        f"## {_escape_markdown(result.suite.name)}",
        "",
        f"**{summarize(result)}**. {describe_confidence(result)}",
        "",
        *([*notes, ""] if notes else []),
        "| | verdict | case | model | figures | reasons |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    if len(entries) > _MAX_ROWS:
        lines += ["", f"{len(entries) - _MAX_ROWS:,} more rows are left out."]
    return "\n".join(lines) + "\n"


def _escape_markdown(text: str) -> str:
    """Escape a text so that no mark of Markdown or HTML has a meaning."""
    return text.translate(_ENTITIES)


def _format_row(entry: Entry) -> str:
    cells = [
        _escape_markdown(text)
        for text in (entry.verdict, entry.name, entry.deployment, entry.figures)
    ]
    reasons = "<br>".join(map(_escape_markdown, entry.reasons))
    return f"| {' | '.join([_SIGNS[entry.status], *cells, reasons])} |"
