"""Results as Markdown, for the summary of a step in continuous integration."""

import re
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
_MARKS = re.compile(
    r"""
    [\\`*_\[\]<>|~&$]                   # marks anywhere
    | [@\#](?=\w)                       # mentions and references
    | :(?=[\w+-]+:)                     # emoji
    | (?<=\w):(?=//) | (?<=www)\. | (?<=\w)@  # automatic links
    | ^\s*(?:[-+=\#!]|[0-9]+(?=[.)]))   # lists and headings
    | !(?=\[)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Marks of Markdown and HTML, where they would have a meaning."""


_COLUMNS = ("verdict", "probability", "requirement", "threshold", "case", "model", "reasons")


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
        f"| {' | '.join(['', *_COLUMNS])} |",
        f"|{' --- |' * (len(_COLUMNS) + 1)}",
        *rows,
    ]
    if len(entries) > _MAX_ROWS:
        lines += ["", f"{len(entries) - _MAX_ROWS:,} more rows are left out."]
    return "\n".join(lines) + "\n"


def _escape_markdown(text: str) -> str:
    """Escape a text so that no mark of Markdown or HTML has a meaning.

    Other punctuation stays as it is, so that the source is readable too.
    """
    return _MARKS.sub(lambda mark: "".join(f"&#{ord(each)};" for each in mark[0]), text)


def _format_row(entry: Entry) -> str:
    requirement = f"{entry.label}: {entry.requirement}" if entry.label else entry.requirement
    texts = (entry.verdict, entry.figures, requirement, entry.threshold, entry.subject)
    cells = [_escape_markdown(text) for text in (*texts, entry.deployment)]
    about = [entry.about] if entry.about else []
    reasons = "<br>".join(map(_escape_markdown, [*about, *entry.lines]))
    return f"| {' | '.join([_SIGNS[entry.status], *cells, reasons])} |"
