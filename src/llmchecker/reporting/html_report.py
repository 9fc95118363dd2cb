"""The HTML report: one self-contained page with all results of a run.

The page is a Jinja template with autoescape always on, because texts, names and queries are data.
All markup is from this project: the template, its style and script, and the captions of Snakemake's
report. A content security policy forbids the browser to load any resource. It also forbids all
scripts except the template's, which the policy identifies by its hash.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from docutils.core import publish_parts
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from llmchecker.checking import witnesses
from llmchecker.checking.formatting import (
    continuation_text,
    find_start_text,
    summarize_witnesses,
)
from llmchecker.checking.markov import dtmc
from llmchecker.config import paths
from llmchecker.properties.logic.ast import Expectation, Probability, format_for_storm
from llmchecker.properties.logic.query import Query
from llmchecker.reporting.table_io import format_cell, read_table
from llmchecker.reporting.tables import AnsweredQuery
from llmchecker.reporting.tree_drawing import MEANINGS, SIGNS, Drawing, escape_unprintable
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.atomic_files import read_with_checksum
from llmchecker.utils.number_format import format_count

_MAX_SHOWN_STATES = 1500
"""Maximum number of states of a tree that a page opens without delay."""
_TITLES = {
    "table1": "Table I: start strings",
    "table2": "Table II: experiments",
    "comparison": "Published and reproduced figures",
    "audit": "Audit of the published table",
    "suites": "Suites: verdicts on requirements",
    "figure3": "Figure 3: mass of the most probable tokens",
    "figure4": "Figure 4: one query for several nouns",
}

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
        answer: the answer on the tree.
        states: number of states of the tree.
        nodes: the states of the view, in preorder.
    """

    answer: AnsweredQuery
    states: int
    nodes: tuple[_TreeNode, ...]


def find_smallest_with_witness(answers: Iterable[AnsweredQuery]) -> AnsweredQuery | None:
    """Return the answer with witnesses on the smallest tree; else None."""
    candidates = [a for a in answers if a.row.check.is_bounded and a.verdict.witnesses]
    return min(candidates, key=lambda answer: answer.verdict.states, default=None)


def build_tree_view(
    answer: AnsweredQuery,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    max_states: int = _MAX_SHOWN_STATES,
) -> _TreeView:
    """Build the view of an answer's tree, with the states that decide the query.

    Of a large tree, the view contains the most probable states. At first, only the path to the most
    probable deciding state is open.
    """
    chain = dtmc.build_dtmc(tree, scores)
    deciding_states = witnesses.find_witnesses(
        tree, chain, answer.row.check.query, max_witnesses=None
    )
    drawing = Drawing(tree, scores, {witness.uid: witness.kind for witness in deciding_states})
    # A parent is at least as probable as its child and before it in the stable order, so the view
    # contains the parent of each of its states.
    is_shown = np.zeros(len(tree), dtype=bool)
    is_shown[np.argsort(-drawing.tree.path_probability, kind="stable")[:max_states]] = True
    open_states = set()
    # The path to the most probable deciding state is open; without one, only the root.
    uid = int(tree.parent[deciding_states[0].uid]) if deciding_states else 0
    while uid >= 0:
        open_states.add(uid)
        uid = int(tree.parent[uid])
    return _TreeView(answer, len(tree), tuple(_iter_nodes(drawing, is_shown, open_states)))


def render_caption(path: str | Path) -> Markup:
    """Render a reStructuredText caption of Snakemake's report as HTML."""
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
    answers: Sequence[AnsweredQuery],
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
    return (
        build_environment()
        .get_template("report.html")
        .render(
            questions=_group_by_question(answers),
            answers=answers,
            tables={Path(path).stem: read_table(path) for path in tables},
            figures={Path(path).stem: _encode_picture(path) for path in figures},
            captions={Path(path).stem: render_caption(path) for path in captions},
            titles=_TITLES,
            view=view,
            signs=SIGNS,
            meanings=MEANINGS,
            in_words=_describe_query,
            on_axis=_is_on_axis,
            summary=summarize_witnesses,
            start=find_start_text,
            continuation=continuation_text,
            format_count=format_count,
            paths=paths,
            versions=answers[0].verdict.versions if answers else {},
            provenance=dict(_flatten(provenance)),
            inline={name: read_asset(f"report.{name}") for name in ("css", "js")},
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
    }
    return environment


def _relative_path(path: str) -> str:
    """Return the path of a result relative to the page, which is in results/."""
    return path.removeprefix("results/")


def _is_on_axis(answer: AnsweredQuery) -> bool:
    """Return whether value and bounds are probabilities, which fit a 0-1 axis."""
    query = answer.row.check.query
    return query.is_numeric and not isinstance(query.root, Expectation)


def _describe_query(query: Query) -> str:
    """Describe P=? of a single F, G or U in English; "" for other queries."""
    if not (
        # The sentences below are only for P=? of a single F, G or U over states.
        query.is_numeric and isinstance(query.root, Probability) and witnesses.has_witnesses(query)
    ):
        return ""
    path = query.root.path
    operands = [format_for_storm(operand, str) for operand in path.operands]
    bound_text = "" if path.bound is None else f" within {format_count(path.bound, 'token')}"
    match path.operator:
        case "F":
            return f"Probability of eventually {operands[0]}{bound_text}"
        case "G":
            return f"Probability of always {operands[0]}{bound_text}"
        case _:
            return f"Probability of {operands[0]} until {operands[1]}{bound_text}"


def _group_by_question(answers: Sequence[AnsweredQuery]) -> list[list[AnsweredQuery]]:
    """Group answers of several models to the same query, in order."""
    questions: dict[tuple, list[AnsweredQuery]] = {}
    for answer in answers:
        row, check = answer.row, answer.row.check
        # Models that answer the same query are in one group.
        tree_key = replace(check.tree, model="")
        key = (row.label, row.interest, tree_key, check.query.text)
        questions.setdefault(key, []).append(answer)
    return list(questions.values())


def _iter_nodes(
    drawing: Drawing, is_shown: np.ndarray, open_states: set[int]
) -> Iterator[_TreeNode]:
    """Yield the states of the view, in preorder."""
    tree = drawing.tree
    witness_counts = np.zeros(len(tree), dtype=np.int64)
    witness_counts[list(drawing.witness_kinds)] = 1
    # Children have larger uids than their parents, so this order adds up whole subtrees.
    for uid in range(len(tree) - 1, 0, -1):
        witness_counts[tree.parent[uid]] += witness_counts[uid]
    # A deciding state is not its own descendant.
    witness_counts[list(drawing.witness_kinds)] -= 1
    order = [uid for uid in drawing.preorder() if is_shown[uid]]
    # All lists of children between a state and the next state's parent end after the state.
    steps = [*tree.step[order].tolist(), 0]
    for index, uid in enumerate(order):
        # The next state in preorder is one step deeper only if it is a child.
        has_children = steps[index + 1] > steps[index]
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
