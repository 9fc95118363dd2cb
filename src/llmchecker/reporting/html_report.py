"""HTML pages: all results of a run, or one answer, each self-contained.

The page is a Jinja template with autoescape always on, because texts, names and queries are data.
All markup is from this project: the template, its style and script, and the captions of Snakemake's
report. A content security policy forbids the browser to load any resource. It also forbids all
scripts except the template's, which the policy identifies by its hash.
"""

import base64
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from llmchecker.checking import witnesses
from llmchecker.checking.answer import Answer
from llmchecker.checking.decision import Outcome
from llmchecker.checking.formatting import (
    FEW_DIGITS,
    format_exactness,
    format_value,
    name_bounded_figure,
    name_formula,
    summarize_witnesses,
)
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.measurement import find_threshold
from llmchecker.config import paths
from llmchecker.config.plan import TableRow
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.query import Query
from llmchecker.reporting.html_rows import render_forest, render_plot, render_row
from llmchecker.reporting.query_wording import describe_outcome, describe_query
from llmchecker.reporting.remarks import compute_gap, find_failures
from llmchecker.reporting.table_io import (
    CellView,
    TableView,
    format_cell,
    format_heading,
    read_table,
)
from llmchecker.reporting.tables import AnsweredRow, format_answer, format_few_bounds
from llmchecker.reporting.tree_drawing import MEANINGS, SIGNS, Drawing
from llmchecker.trees.text_tree import Horizon, StateKind, Truncation
from llmchecker.utils.atomic_files import read_with_checksum
from llmchecker.utils.number_format import (
    format_count,
    format_lower,
    format_number,
    format_upper,
)
from llmchecker.utils.printable_text import escape_unprintable

_MAX_SHOWN_STATES = 1500
"""Maximum number of states of a tree that a page opens without delay."""
_TITLES = {
    "table1": "Table I: start strings",
    "table2": "Table II: experiments",
    "claims": "Claims of the paper",
    "comparison": "Published and reproduced figures",
    "audit": "Audit of the published table",
    "suites": "Suites: verdicts on requirements",
    "figure3": "Figure 3: mass of the most probable tokens",
    "figure4": "Figure 4: one query for several nouns",
}

_PAPER_TABLES = ("claims", "comparison", "audit")
"""Tables about the published figures."""
_OUTCOME_SIGNS = {Outcome.HOLDS: "✓", Outcome.VIOLATED: "✗", Outcome.UNKNOWN: "?"}
_OUTCOME_WORDS = {
    Outcome.VIOLATED: "violated",
    Outcome.UNKNOWN: "unknown",
    Outcome.HOLDS: "satisfied",
}
"""The outcomes in words, the most urgent first."""
_TRUTHS = {"true": "holds", "false": "violated"}
"""The figures of a query without =? in words."""
_IDENTIFYING_COLUMNS = frozenset(["row", "name", "label", "interest", "model"])
"""Columns that identify a row, if they are its first."""

# Captions must not include files or raw HTML.
_CAPTION_SETTINGS = {"file_insertion_enabled": False, "raw_enabled": False, "report_level": 3}


@dataclass(frozen=True)
class _TreeNode:
    """A state in the view of a tree.

    Attributes:
        uid: the state's row in the tree.
        added_text: the text that the state adds to its parent's text, in printable form.
        text: the whole text; None for `rest`.
        probability: probability given the parent.
        path_probability: probability of the path from the root.
        kind: `text`, `rest` or `end`.
        decisive: the state's kind of witness; None for a state that decides nothing.
        scores: names of quantifiers and scores.
        deciding_descendants: number of deciding states among the descendants.
        has_children: whether the view contains children of the state.
        is_open: whether the children are visible at first.
        closed_lists: number of lists of children that end after the state.
    """

    uid: int
    added_text: str
    text: str | None
    probability: float
    path_probability: float
    kind: str
    decisive: str | None
    scores: tuple[tuple[str, int], ...]
    deciding_descendants: int
    has_children: bool
    is_open: bool
    closed_lists: int


@dataclass(frozen=True)
class _TreeView:
    """The collapsible view of a tree.

    Attributes:
        row: the row of the answer on the tree.
        states: number of states of the tree.
        nodes: the states of the view, in preorder.
    """

    row: TableRow
    states: int
    nodes: tuple[_TreeNode, ...]


@dataclass(frozen=True)
class _ArrangedTable:
    """A table of the page, without empty columns.

    Attributes:
        columns: names of the columns in the CSV file.
        rows: the cells of each row.
        numeric: positions of columns of numbers.
        identifying: number of leading columns that identify a row; they stay in place.
        empty: names of the columns without any cell.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[CellView, ...], ...]
    numeric: frozenset[int]
    identifying: int
    empty: tuple[str, ...]


def find_smallest_with_witness(answers: Iterable[AnsweredRow]) -> TableRow | None:
    """Return the row whose answer has witnesses on the smallest tree; else None."""
    found = [(row, answer) for row, answer in answers if row.check.is_bounded and answer.witnesses]
    smallest = min(found, key=lambda each: each[1].costs.states or 0, default=None)
    return None if smallest is None else smallest[0]


def build_tree_view(
    row: TableRow,
    scored: ScoredTree,
    max_states: int = _MAX_SHOWN_STATES,
) -> _TreeView:
    """Build the view of an answer's tree, with the states that decide the query.

    Of a large tree, the view contains the most probable states. At first, only the path to the most
    probable deciding state is open.
    """
    tree = scored.tree
    deciding_states = witnesses.find_witnesses(scored, row.check.query, max_witnesses=None)
    kinds = {witness.uid: witness.kind for witness in deciding_states}
    drawing = Drawing(tree, scored.scores, kinds, max_states=max_states)
    open_states = set()
    # The path to the most probable deciding state is open; without one, only the root.
    uid = int(tree.parent[deciding_states[0].uid]) if deciding_states else 0
    while uid >= 0:
        open_states.add(uid)
        uid = int(tree.parent[uid])
    return _TreeView(row, len(tree), tuple(_iter_nodes(drawing, open_states)))


def _render_caption(path: str | Path) -> Markup:
    """Render a reStructuredText caption of Snakemake's report as HTML."""
    # only the workflow's report has captions, so other pages need no docutils
    from docutils.core import publish_parts

    source = Path(path).read_text(encoding="utf-8")
    return Markup(
        publish_parts(source, writer="html5", settings_overrides=_CAPTION_SETTINGS)["body"]
    )


def _encode_picture(path: str | Path) -> str:
    """Encode an SVG file as a data URI.

    Raises:
        DamagedFile: the file does not match its checksum.
    """
    content = base64.b64encode(read_with_checksum(path)).decode("ascii")
    return f"data:image/svg+xml;base64,{content}"


def render_report(
    answers: Sequence[AnsweredRow],
    tables: Iterable[str | Path],
    figures: Iterable[str | Path],
    captions: Iterable[str | Path],
    view: _TreeView | None,
    provenance: Mapping[str, Any],
) -> str:
    """Render the HTML report.

    Args:
        answers: the rows of Table II.
        tables: CSV files, in the order of their sections.
        figures: SVG files, in the order of their sections.
        captions: reStructuredText files with the names of the tables and figures.
        view: the view of a tree; None if no query has a witness.
        provenance: the provenance of the results, at any depth of nesting; empty if unknown.
    """
    return _render(
        "report.html",
        questions=_group_by_question(answers),
        answers=answers,
        marks=_find_marks(answer for _, answer in answers),
        counts=_count_outcomes(answers),
        failures=find_failures(answers),
        filters=_collect_filters(answers),
        tables=_arrange_tables(tables),
        figures={Path(path).stem: _encode_picture(path) for path in figures},
        captions={Path(path).stem: _render_caption(path) for path in captions},
        titles=_TITLES,
        view=view,
        paths=paths,
        versions=answers[0][1].versions if answers else {},
        provenance=dict(_flatten(provenance)),
        script=read_asset("report.js"),
    )


def render_answer(
    answer: Answer,
    model: str,
    prompt: Start,
    truncation: Truncation | Horizon,
    details: Mapping[str, str],
) -> str:
    """Render one answer as a page of its own, with its deciding texts.

    Args:
        answer: the answer.
        model: the model's label, with the decoding if it has one.
        prompt: the start string, or the chat to answer.
        truncation: the truncation of the tree; a horizon if there is no tree.
        details: costs and files of the answer, each by its name.
    """
    return _render(
        "answer.html",
        answer=answer,
        model=model,
        prompt=prompt,
        truncation=truncation,
        is_bounded=isinstance(truncation, Truncation),
        marks=_find_marks([answer]),
        details=details,
    )


def _render(template: str, **values: Any) -> str:
    """Render a template with the functions and the style of all pages of answers."""
    return (
        build_environment()
        .get_template(template)
        .render(
            signs=SIGNS,
            meanings=MEANINGS,
            outcome_signs=_OUTCOME_SIGNS,
            truths=_TRUTHS,
            exactness=format_exactness,
            bounds_of=format_few_bounds,
            in_words=describe_query,
            headline=describe_outcome,
            bounded_name=name_bounded_figure,
            gap=compute_gap,
            on_axis=_is_on_axis,
            threshold=_find_threshold,
            in_one_line=format_answer,
            heading=format_heading,
            summary=summarize_witnesses,
            formula_of=name_formula,
            start=witnesses.find_start_text,
            format_count=format_count,
            style=read_asset("report.css"),
            **values,
        )
    )


def build_environment() -> Environment:
    """Build the Jinja environment of the project's pages, which escapes every value."""
    environment = Environment(
        loader=PackageLoader("llmchecker.reporting"),
        autoescape=True,
        # A missing name in the template is an error instead of an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "printed": escape_unprintable,
        "format_cell": format_cell,
        "from_page": _relative_path,
        "figures": render_row,
        "plot": render_plot,
        "forest": render_forest,
        "number": format_number,
        "value": partial(format_value, digits=FEW_DIGITS),
        "rounded_down": partial(format_lower, digits=FEW_DIGITS),
        "rounded_up": partial(format_upper, digits=FEW_DIGITS),
    }
    return environment


def _relative_path(path: str) -> str:
    """Return the path of a result relative to the page, which is in results/."""
    return path.removeprefix("results/")


def _is_on_axis(answer: Answer) -> bool:
    """Return whether the answer has intervals of a probability, which fit a 0-1 axis."""
    if answer.query.is_numeric:
        return not isinstance(answer.query.root, Expectation)
    # The bounds of a query without =? are truth values; only its samples have an interval.
    return bool(answer.samples)


def _find_marks(answers: Iterable[Answer]) -> frozenset[str]:
    """Return the kinds of marks on the axes of answers, which a legend explains."""
    marks = set()
    for result in filter(_is_on_axis, answers):
        has_number = result.query.is_numeric
        found = {
            "certain": has_number and result.has_bounds,
            "interval": bool(result.samples),
            "estimate": has_number and bool(result.samples) and result.estimate is not None,
            "bounded": has_number and result.bounded is not None,
        }
        marks |= {kind for kind, is_drawn in found.items() if is_drawn}
    return frozenset(marks)


def _find_threshold(query: Query) -> float | None:
    """Return the threshold of P>=p and the like; None for other queries."""
    threshold = find_threshold(query)
    return None if threshold is None else float(threshold.number)


def _count_outcomes(answers: Iterable[AnsweredRow]) -> dict[str, int]:
    """Count the requirements of each outcome that occurs, by the outcome in words."""
    decisions = [answer.decision for _, answer in answers]
    outcomes = [decision.outcome for decision in decisions if decision is not None]
    return {
        words: outcomes.count(outcome)
        for outcome, words in _OUTCOME_WORDS.items()
        if outcome in outcomes
    }


def _collect_filters(answers: Sequence[AnsweredRow]) -> dict[str, list[str]]:
    """Collect the choices of each filter with more than one, in order of appearance."""
    choices = {
        "model": dict.fromkeys(row.model for row, _ in answers),
        "start": dict.fromkeys(row.check.tree.start for row, _ in answers),
        "property": dict.fromkeys(row.interest for row, _ in answers),
    }
    return {name: list(values) for name, values in choices.items() if len(values) > 1}


def _arrange_tables(paths: Iterable[str | Path]) -> dict[str, _ArrangedTable]:
    """Arrange tables by name, without those of the paper where none of its experiments ran."""
    views = {Path(path).stem: read_table(path) for path in paths}
    comparison = views.get("comparison")
    if comparison is not None and not comparison.rows:
        views = {name: view for name, view in views.items() if name not in _PAPER_TABLES}
    return {name: _arrange_table(view) for name, view in views.items()}


def _arrange_table(table: TableView) -> _ArrangedTable:
    """Leave out empty columns, and count the columns that identify a row."""
    kept = [
        index
        for index in range(len(table.columns))
        if not table.rows or any(row[index].text for row in table.rows)
    ]
    columns = tuple(table.columns[index] for index in kept)
    identifying = itertools.takewhile(_IDENTIFYING_COLUMNS.__contains__, columns)
    return _ArrangedTable(
        columns=columns,
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
        numeric=frozenset(kept.index(index) for index in kept if index in table.numeric),
        identifying=max(1, len(list(identifying))),
        empty=tuple(name for name in table.columns if name not in columns),
    )


def _group_by_question(
    answers: Sequence[AnsweredRow],
) -> list[list[tuple[int, TableRow, Answer]]]:
    """Group answers of several models to the same query, each with its position."""
    questions: dict[tuple[object, ...], list[tuple[int, TableRow, Answer]]] = {}
    for number, (row, answer) in enumerate(answers):
        check = row.check
        # Models that answer the same query are in one group.
        tree_key = replace(check.tree, model="")
        key = (row.label, row.interest, tree_key, check.query.text)
        questions.setdefault(key, []).append((number, row, answer))
    return list(questions.values())


def _iter_nodes(drawing: Drawing, open_states: set[int]) -> Iterator[_TreeNode]:
    """Yield the states of the view, in preorder."""
    tree = drawing.tree
    witness_counts = np.zeros(len(tree), dtype=np.int64)
    witness_counts[list(drawing.witness_kinds)] = 1
    # Children have larger uids than their parents, so this order adds up whole subtrees.
    for uid in range(len(tree) - 1, 0, -1):
        witness_counts[tree.parent[uid]] += witness_counts[uid]
    # A deciding state is not its own descendant.
    witness_counts[list(drawing.witness_kinds)] -= 1
    order = drawing.preorder
    # All lists of children between a state and the next state's parent end after the state.
    steps = [*tree.step[list(order)].tolist(), 0]
    for index, uid in enumerate(order):
        has_children = bool(drawing.children[uid])
        yield _TreeNode(
            uid=uid,
            added_text=drawing.display_text(uid),
            text=tree.text[uid],
            probability=float(tree.probability[uid]),
            path_probability=float(drawing.tree.path_probability[uid]),
            kind=StateKind(tree.kind[uid]).name.lower(),
            decisive=drawing.witness_kinds.get(uid),
            scores=tuple(drawing.state_scores(uid)),
            deciding_descendants=int(witness_counts[uid]),
            has_children=has_children,
            is_open=uid in open_states,
            closed_lists=0 if has_children else steps[index] - steps[index + 1],
        )


def _flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested mappings and lists as texts, by their paths."""
    for name, value in content.items():
        # Items of a list are numbered from 1, for readers.
        if isinstance(value, list):
            value = {str(index): item for index, item in enumerate(value, start=1)}
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} · ")
        else:
            yield f"{prefix}{name}", str(value)


def read_asset(name: str) -> dict[str, Markup | str]:
    """Read a style or script of this project, with its security policy hash."""
    content = files("llmchecker.reporting").joinpath("templates", name).read_text(encoding="utf-8")
    # The hash must be that of the exact content of the page.
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
    return {"content": Markup(content), "hash": f"sha256-{digest}"}
