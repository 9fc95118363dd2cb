"""One page with all results of a run, which needs nothing beside itself.

The page is a Jinja template with autoescape always on: texts, names and queries are data. What is
markup comes from this project alone: the template, its style and script, and the captions that
Snakemake's own report has too. A content security policy in the page forbids the browser to load
anything and to run any script but the one of the template, known by its hash.
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

from llmchecker.chains import markov_chain
from llmchecker.checking import evidence
from llmchecker.config import paths
from llmchecker.files import read_with_checksum
from llmchecker.publication.drawing import MEANINGS, SIGNS, Drawing, printed
from llmchecker.publication.table_files import format_cell, read_table
from llmchecker.publication.tables import UNKNOWN, AnsweredQuery, evidence_summary
from llmchecker.queries.formulas import Expectation, Probability, in_storm
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Kind, TextTree

MOST_SHOWN = 1500
"""As many states of a tree as a page opens without delay."""
TITLES = {
    "table1": "Table I: start strings",
    "table2": "Table II: experiments",
    "comparison": "Published beside reproduced",
    "audit": "Audit of the published table",
    "figure3": "Figure 3: mass of the most probable tokens",
    "figure4": "Figure 4: one query for several nouns",
}

_CAPTIONS = {"file_insertion_enabled": False, "raw_enabled": False, "report_level": 3}


@dataclass(frozen=True)
class Node:
    """A state in the view of a tree.

    Attributes:
        uid: the state's row in the tree.
        added: what it adds to the text before it, as it can be shown.
        text: the whole text; None for `rest`.
        probability: given the text before.
        path_probability: of the path from the root.
        kind: `text`, `rest` or `end`.
        decisive: the kind of witness that the state is, None where it decides nothing.
        scores: names and integers.
        below: how many deciding states come after it.
        parts: whether it has children that are shown.
        open: whether they are in sight at first.
        closes: how many lists of children end after it.
    """

    uid: int
    added: str
    text: str | None
    probability: float
    path_probability: float
    kind: str
    decisive: str | None
    scores: tuple[tuple[str, int], ...]
    below: int
    parts: bool
    open: bool
    closes: int


@dataclass(frozen=True)
class TreeView:
    """A tree to open and close, of which `nodes`, in preorder, are shown of `states`."""

    answer: AnsweredQuery
    states: int
    nodes: tuple[Node, ...]


def smallest_with_witness(answers: Iterable[AnsweredQuery]) -> AnsweredQuery | None:
    """The answer on the smallest tree whose query some text decides; None where there is none."""
    candidates = [answer for answer in answers if answer.verdict.witnesses]
    return min(candidates, key=lambda answer: answer.verdict.states, default=None)


def tree_view(
    answer: AnsweredQuery,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    most: int = MOST_SHOWN,
) -> TreeView:
    """The tree of an answer, with the states that decide its query; the most probable if many.

    At first only the root and the states on the path to the most probable deciding state are open.
    """
    chain = markov_chain.build(tree, scores)
    deciding = evidence.witnesses(tree, chain, answer.row.check.query, most=None)
    drawing = Drawing(tree, scores, {witness.uid: witness.kind for witness in deciding})
    # a parent is at least as probable as its child and stands before it, so none is left out
    shown = np.zeros(len(tree), dtype=bool)
    shown[np.argsort(-drawing.tree.path_probability, kind="stable")[:most]] = True
    opened = set()
    uid = int(tree.parent[deciding[0].uid]) if deciding else 0
    while uid >= 0:
        opened.add(uid)
        uid = int(tree.parent[uid])
    return TreeView(answer, len(tree), tuple(_nodes(drawing, shown, opened)))


def caption(path: str | Path) -> Markup:
    """A caption of Snakemake's report, which is reStructuredText, as HTML."""
    source = Path(path).read_text(encoding="utf-8")
    return Markup(publish_parts(source, writer="html5", settings_overrides=_CAPTIONS)["body"])


def picture(path: str | Path) -> str:
    """An SVG file as an address that holds the file itself.

    Raises:
        DamagedFile: the file is not what was written.
    """
    content = base64.b64encode(read_with_checksum(path)).decode("ascii")
    return f"data:image/svg+xml;base64,{content}"


def render(
    answers: Sequence[AnsweredQuery],
    tables: Iterable[str | Path],
    figures: Iterable[str | Path],
    captions: Iterable[str | Path],
    view: TreeView | None,
    provenance: Mapping[str, Any],
) -> str:
    """Return the page.

    Args:
        answers: the rows of Table II.
        tables: CSV files, in the order of their sections.
        figures: SVG files, likewise.
        captions: reStructuredText, each named as the table or figure that it is about.
        view: a tree to open and close, None where no query has a witness.
        provenance: how the results were made, nested as may be; empty where it is not known.
    """
    environment = Environment(
        loader=PackageLoader("llmchecker.publication"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"printed": printed, "format_cell": format_cell, "from_page": _from_page}
    return environment.get_template("report.html").render(
        questions=_questions(answers),
        answers=answers,
        tables={Path(path).stem: read_table(path) for path in tables},
        figures={Path(path).stem: picture(path) for path in figures},
        captions={Path(path).stem: caption(path) for path in captions},
        titles=TITLES,
        view=view,
        signs=SIGNS,
        meanings=MEANINGS,
        in_words=in_words,
        interval=interval,
        on_axis=on_axis,
        summary=evidence_summary,
        paths=paths,
        versions=answers[0].verdict.versions if answers else {},
        provenance=dict(_flat(provenance)),
        inline={name: _inline(f"report.{name}") for name in ("css", "js")},
    )


def _from_page(path: str) -> str:
    """A path of a result as it is from the page, which lies in results/ itself."""
    return path.removeprefix("results/")


def on_axis(answer: AnsweredQuery) -> bool:
    """Whether value and bounds are probabilities, which can be drawn from 0 to 1."""
    query = answer.row.check.query
    return query.numeric and not isinstance(query.root, Expectation)


def interval(answer: AnsweredQuery) -> str:
    """The bounds for the whole model; of P>=p, whether it holds there."""
    lower, upper = answer.bounds
    if isinstance(lower, bool):
        return format_cell(lower) if lower == upper else UNKNOWN
    low, high = (
        format_cell(end).replace("-inf", "−∞").replace("inf", "∞") for end in (lower, upper)
    )
    return f"[{low}, {high}]"


def in_words(query: Query) -> str:
    """What P=? of one F, G or U over states asks, in English; empty for other queries."""
    if not (query.numeric and isinstance(query.root, Probability) and evidence.has_evidence(query)):
        return ""
    path = query.root.path
    words = [in_storm(operand, str) for operand in path.operands]
    within = "" if path.bound is None else f" within {path.bound} tokens"
    match path.operator:
        case "F":
            return f"How likely is {words[0]} at some point{within}?"
        case "G":
            return f"How likely is {words[0]} all the time{within}?"
        case _:
            return f"How likely is {words[0]} until {words[1]}{within}?"


def _questions(answers: Sequence[AnsweredQuery]) -> list[list[AnsweredQuery]]:
    """The answers of several models to the same question, together, in the order of the first."""
    questions: dict[tuple, list[AnsweredQuery]] = {}
    for answer in answers:
        row, check = answer.row, answer.row.check
        asked = replace(check.tree, model="")
        key = (row.label, row.interest, asked, check.query.text)
        questions.setdefault(key, []).append(answer)
    return list(questions.values())


def _nodes(drawing: Drawing, shown: np.ndarray, opened: set[int]) -> Iterator[Node]:
    """Yield the states that are shown, in preorder."""
    tree = drawing.tree
    below = np.zeros(len(tree), dtype=np.int64)
    below[list(drawing.decisive)] = 1
    for uid in range(len(tree) - 1, 0, -1):
        below[tree.parent[uid]] += below[uid]
    below[list(drawing.decisive)] -= 1
    order = [uid for uid in drawing.preorder() if shown[uid]]
    # after a state end all lists of children between it and the next state's parent
    steps = [*tree.step[order].tolist(), 0]
    for place, uid in enumerate(order):
        parts = steps[place + 1] > steps[place]
        yield Node(
            uid=uid,
            added=drawing.piece(uid),
            text=tree.text[uid],
            probability=float(tree.probability[uid]),
            path_probability=float(drawing.tree.path_probability[uid]),
            kind=Kind(tree.kind[uid]).name.lower(),
            decisive=drawing.decisive.get(uid),
            scores=tuple(drawing.scored(uid)),
            below=int(below[uid]),
            parts=parts,
            open=uid in opened,
            closes=0 if parts else steps[place] - steps[place + 1],
        )


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings and lists as text, by the names on the way to them."""
    for name, value in content.items():
        if isinstance(value, list):
            value = {str(place): item for place, item in enumerate(value, start=1)}
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} · ")
        else:
            yield f"{before}{name}", str(value)


def _inline(name: str) -> dict[str, Markup | str]:
    """A style or script of this project, and its hash as a content security policy names it."""
    content = (
        files("llmchecker.publication").joinpath("templates", name).read_text(encoding="utf-8")
    )
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
    return {"content": Markup(content), "hash": f"sha256-{digest}"}
