"""Results as one HTML page, in the style of the report."""

from pathlib import Path

from llmchecker.reporting.html_report import build_environment, read_asset
from llmchecker.suites.entries import build_entries, describe_confidence, sort_entries, summarize
from llmchecker.suites.notes import build_notes
from llmchecker.suites.results import SuiteResult
from llmchecker.utils.atomic_files import atomic_write


def write_html(result: SuiteResult, path: str | Path) -> None:
    """Write a result as an HTML page that needs no network."""
    with atomic_write(path) as partial:
        partial.write_text(format_html(result), encoding="utf-8")


def format_html(result: SuiteResult) -> str:
    """Format a result as an HTML page: failures first, with a search."""
    return (
        build_environment()
        .get_template("suite.html")
        .render(
            suite=result.suite,
            entries=sort_entries(build_entries(result)),
            summary=summarize(result),
            confidence=describe_confidence(result),
            notes=build_notes(result),
            result=result,
            style=read_asset("report.css"),
            suite_style=read_asset("suite.css"),
            script=read_asset("suite.js"),
        )
    )
