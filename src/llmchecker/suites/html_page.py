"""Results as one HTML page, in the style of the report."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from llmchecker import __version__
from llmchecker.reporting.conversation_drawing import ConversationDrawing
from llmchecker.reporting.html_report import build_environment, read_asset
from llmchecker.reporting.tree_drawing import encode_svg
from llmchecker.suites.entries import (
    Entry,
    build_entries,
    build_forest_plot,
    describe_confidence,
    describe_deployments,
    sort_entries,
    summarize,
)
from llmchecker.suites.notes import build_notes
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable

_MAX_ROWS = 1_000
"""Maximum number of rows of a page, which is about 1 MB without answers."""
_MAX_ANSWERS = 3_000
"""Maximum number of answers of a page, which is about 2 MB."""
_MAX_DRAWINGS = 50
"""Maximum number of drawings of a page, which are about 2 MB."""


@dataclass(frozen=True)
class _AnswerGroup:
    """The answers to one requirement.

    Attributes:
        number: its number on the page, from 1 on.
        columns: the entries of its models, with the answers that the page has.
        left_out: number of answers that the page leaves out.
    """

    number: int
    columns: tuple[Entry, ...]
    left_out: int

    @property
    def counts(self) -> Mapping[Status, int]:
        """The number of models by status."""
        return Counter(entry.status for entry in self.columns)

    @property
    def count(self) -> int:
        """Number of answers on the page."""
        return sum(len(entry.examples) for entry in self.columns)


def _group_answers(
    entries: Iterable[Entry], max_answers: int = _MAX_ANSWERS
) -> tuple[_AnswerGroup, ...]:
    """Group the answers by requirement, with the models next to each other.

    Args:
        entries: the entries in the order of the page, those of one requirement in a row.
        max_answers: maximum number of answers. The first requirements have theirs.
    """
    columns: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.examples:
            columns.setdefault((entry.group, entry.name), []).append(entry)
    groups, room = [], max_answers
    for number, found in enumerate(columns.values(), start=1):
        shown = []
        for entry in found:
            shown.append(replace(entry, examples=entry.examples[:room]))
            room -= len(shown[-1].examples)
        total = sum(len(entry.examples) for entry in found)
        group = _AnswerGroup(number, tuple(shown), 0)
        groups.append(replace(group, left_out=total - group.count))
    return tuple(groups)


def write_html(result: SuiteResult, path: str | Path) -> None:
    """Write a result as HTML that needs no network: a page, or several for many rows.

    The first page has the path. The others are in a folder next to it: `results.rows/2.html`
    follows `results.html`.
    """
    path = Path(path)
    document = _Document(result, datetime.now(UTC))
    # a device takes one page
    size = len(document.entries) if path.exists() and not path.is_file() else _MAX_ROWS
    pages = document.divide(max(size, 1))
    folder = path.with_suffix(".rows")
    for stale in folder.glob("*.html"):
        if stale.stem.isdecimal() and int(stale.stem) > len(pages):
            stale.unlink()
    # the first page has links to the others
    for number, entries in reversed(list(enumerate(pages, start=1))):
        target = path if number == 1 else folder / f"{number}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        links = {
            other: _link_page(path.name, folder.name, number, other)
            for other in range(1, len(pages) + 1)
        }
        with atomic_write(target) as partial:
            partial.write_text(document.format(entries, number, links), encoding="utf-8")


def _link_page(first: str, folder: str, number: int, other: int) -> str:
    """Return the link from a page to another; the first is outside of the folder of the others."""
    if other == 1:
        return quote(first) if number == 1 else f"../{quote(first)}"
    return f"{quote(folder)}/{other}.html" if number == 1 else f"{other}.html"


def format_html(result: SuiteResult, date: datetime | None = None) -> str:
    """Format a result as one HTML page: failures first, with filters and a link to each row.

    Args:
        result: the result.
        date: the time of the page; None for now.
    """
    document = _Document(result, date or datetime.now(UTC))
    return document.format(document.entries, 1, {1: ""})


class _Document:
    """The pages of a result.

    Args:
        result: the result.
        date: the time of the pages.

    Attributes:
        entries: the number and the entry of each row, failures first.
    """

    def __init__(self, result: SuiteResult, date: datetime) -> None:
        suite, entries = result.suite, build_entries(result)
        # a link to a row stays the same when its verdict changes
        numbers = {id(entry): number for number, entry in enumerate(entries, start=1)}
        self.entries = [(numbers[id(entry)], entry) for entry in sort_entries(entries)]
        # several models may have one system prompt
        systems = {
            each.system_name or each.name: each.system
            for each in suite.all_deployments
            if each.system
        }
        lengths = [case.question.asked.length for case in suite.representatives]
        least, most = min(lengths), format_count(max(lengths), "token")
        self._shared = {
            "suite": suite,
            "models": describe_deployments(suite),
            "several": len(suite.deployments) > 1,
            "systems": {escape_unprintable(k): escape_unprintable(v) for k, v in systems.items()},
            "length": most if least == max(lengths) else f"{least:,} to {most}",
            "date": date,
            "costs": _describe_costs(result),
            "version": __version__,
            "summary": summarize(result),
            "confidence": " ".join(describe_confidence(result, entries)),
            "notes": build_notes(result),
            "forest": build_forest_plot(result),
            "style": read_asset("report.css"),
            "suite_style": read_asset("suite.css"),
            "script": read_asset("suite.js"),
        }
        self._template = build_environment().get_template("suite.html")

    def divide(self, size: int) -> list[list[tuple[int, Entry]]]:
        """Divide the rows into pages of a number of rows; there is at least one."""
        starts = range(0, len(self.entries), size)
        return [self.entries[start : start + size] for start in starts] or [[]]

    def format(
        self, entries: Sequence[tuple[int, Entry]], page: int, links: Mapping[int, str]
    ) -> str:
        """Format a page with these rows.

        Args:
            entries: the rows with their numbers.
            page: the number of the page, from 1 on.
            links: the link to each page by number.
        """
        answers = _group_answers(entry for _, entry in entries)
        answer_numbers = {
            (group.columns[0].group, group.columns[0].name): group.number
            for group in answers
            if group.count
        }
        chosen = [("first", 1), ("previous", page - 1), ("next", page + 1), ("last", len(links))]
        return self._template.render(
            **self._shared,
            entries=[
                (number, answer_numbers.get((entry.group, entry.name)), entry)
                for number, entry in entries
            ],
            answers=[group for group in answers if group.count],
            drawings=_draw_conversations(entry for group in answers for entry in group.columns),
            answers_left_out=sum(group.left_out for group in answers),
            counts=Counter(str(entry.status) for _, entry in entries),
            page=page,
            links=[(name, to, links[to]) for name, to in chosen if to in links and to != page],
            page_count=len(links),
            row_count=len(self.entries),
        )


def _draw_conversations(entries: Iterable[Entry]) -> dict[tuple[str, str, str], str]:
    """Draw the first conversations of a page; return the images by model, group and case."""
    drawn = (entry for entry in entries if entry.conversation is not None)
    return {
        entry.key: encode_svg(ConversationDrawing.from_answers(entry.conversation))
        for entry in itertools.islice(drawn, _MAX_DRAWINGS)
        if entry.conversation is not None
    }


def _describe_costs(result: SuiteResult) -> str:
    """Describe the duration and the passes: `5.2 s, 300 passes`."""
    duration = _format_duration(result.seconds)
    # a model that returns texts alone has no passes
    return f"{duration}, {format_count(result.passes, 'pass')}" if result.passes else duration


def _format_duration(seconds: float) -> str:
    """Format a duration: `5.2 s`, or `2 min 5 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60:,} min {int(seconds) % 60} s"
