"""One page with all results of a run, which needs nothing beside itself.

The page is a Jinja template with autoescape always on: texts, names and queries are data. What is
markup comes from this project alone: the template, its style and script, and the captions that
Snakemake's own report has too. A content security policy in the page forbids the browser to load
anything and to run any script but the one of the template, known by its hash.
"""

import base64
import csv
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from docutils.core import publish_parts
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from llmchecker.chains import markov_chain
from llmchecker.checking import evidence
from llmchecker.checking.verdicts import Verdict
from llmchecker.config.checks import TableRow
from llmchecker.publication.drawing import MEANINGS, SIGNS, Drawing, printed
from llmchecker.publication.tables import FORMATS, evidence_summary
from llmchecker.queries.formulas import Expectation, Probability, in_storm
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Kind, TextTree

MOST_STATES = 1500
"""As many states of a tree as a page opens without delay."""
TITLES = {
    "table1": "Table I: start strings",
    "table2": "Table II: experiments",
    "comparison": "Published beside reproduced",
    "audit": "Audit of the published table",
    "figure3": "Figure 3: mass of the most probable tokens",
    "figure4": "Figure 4: one query for several nouns",
}
TEXT_COLUMNS = frozenset(["name", "start_string", "label", "interest", "model", "query"])
"""Columns whose cells are words, even where they look like numbers."""

_NUMBER = re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf)|True|False")
_CAPTIONS = {"file_insertion_enabled": False, "raw_enabled": False, "report_level": 3}


@dataclass(frozen=True)
class Result:
    """A row of Table II and what came out.

    Args:
        row: what was asked.
        model: what to call the model.
        start: the start string.
        verdict: the answer.
        prism: the chain in the PRISM language, relative to the page.
    """

    row: TableRow
    model: str
    start: str
    verdict: Verdict
    prism: str

    @property
    def on_axis(self) -> bool:
        """Whether value and bounds are probabilities, which can be drawn from 0 to 1."""
        query = self.row.check.query
        return query.numeric and not isinstance(query.root, Expectation)

    @property
    def interval(self) -> str:
        """The bounds for the whole model; of P>=p, whether it holds there."""
        lower, upper = self.verdict.lower, self.verdict.upper
        if isinstance(lower, bool):
            return str(lower).lower() if lower == upper else "unknown"
        low = "−∞" if lower is None else figure(lower)
        return f"[{low}, {'∞' if upper is None else figure(upper)}]"


@dataclass(frozen=True)
class Cell:
    """A cell of a table as it is shown, and as it stands in the CSV where that is a figure."""

    text: str
    exact: str | None = None


@dataclass(frozen=True)
class Table:
    """A table as it is shown; `numeric` are the positions of columns of numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[int]


@dataclass(frozen=True)
class Node:
    """A state in the view of a tree.

    Args:
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

    result: Result
    states: int
    nodes: tuple[Node, ...]


def smallest_with_witness(results: Iterable[Result]) -> Result | None:
    """The result on the smallest tree whose query some text decides; None where there is none."""
    candidates = [result for result in results if result.verdict.witnesses]
    return min(candidates, key=lambda result: result.verdict.states, default=None)


def tree_view(
    result: Result,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    most: int = MOST_STATES,
) -> TreeView:
    """The tree of a result, with the states that decide its query; the most probable if many.

    At first only the root and the states on the path to the most probable deciding state are open.
    """
    chain = markov_chain.build(tree, scores)
    deciding = evidence.witnesses(tree, chain, result.row.check.query, most=None)
    drawing = Drawing(tree, scores, {witness.uid: witness.kind for witness in deciding})
    # a parent is at least as probable as its child and stands before it, so none is left out
    shown = np.zeros(len(tree), dtype=bool)
    shown[np.argsort(-drawing.path_probability, kind="stable")[:most]] = True
    opened = set()
    uid = int(tree.parent[deciding[0].uid]) if deciding else 0
    while uid >= 0:
        opened.add(uid)
        uid = int(tree.parent[uid])
    return TreeView(result, len(tree), tuple(_nodes(drawing, shown, opened)))


def read_table(path: str | Path) -> Table:
    """Read a CSV file that this project wrote.

    Numbers of more than four significant digits are rounded for reading and kept as they are.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        header, *records = csv.reader(file)
    numeric = frozenset(
        place
        for place, (name, *cells) in enumerate(zip(header, *records, strict=True))
        if name not in TEXT_COLUMNS and all(_NUMBER.fullmatch(cell) for cell in cells if cell)
    )
    rows = tuple(
        tuple(
            _number_cell(header[place], cell) if cell and place in numeric else Cell(printed(cell))
            for place, cell in enumerate(record)
        )
        for record in records
    )
    return Table(tuple(header), rows, numeric)


def caption(path: str | Path) -> Markup:
    """A caption of Snakemake's report, which is reStructuredText, as HTML."""
    source = Path(path).read_text(encoding="utf-8")
    return Markup(publish_parts(source, writer="html5", settings_overrides=_CAPTIONS)["body"])


def picture(path: str | Path) -> str:
    """An SVG file as an address that holds the file itself."""
    content = base64.b64encode(Path(path).read_bytes()).decode("ascii")
    return f"data:image/svg+xml;base64,{content}"


def render(
    results: Sequence[Result],
    tables: Iterable[str | Path],
    figures: Iterable[str | Path],
    captions: Iterable[str | Path],
    view: TreeView | None,
    provenance: Mapping[str, Any],
) -> str:
    """Return the page.

    Args:
        results: the rows of Table II.
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
    environment.filters |= {"printed": printed, "figure": figure}
    return environment.get_template("report.html").render(
        questions=_questions(results),
        results=results,
        tables={Path(path).stem: read_table(path) for path in tables},
        figures={Path(path).stem: picture(path) for path in figures},
        captions={Path(path).stem: caption(path) for path in captions},
        titles=TITLES,
        view=view,
        signs=SIGNS,
        meanings=MEANINGS,
        in_words=in_words,
        summary=evidence_summary,
        versions=results[0].verdict.versions if results else {},
        provenance=dict(_flat(provenance)),
        inline={name: _inline(f"report.{name}") for name in ("css", "js")},
    )


def figure(value: float | bool) -> str:
    """A value for reading: true or false, or four significant digits."""
    return str(value).lower() if isinstance(value, bool) else f"{value:.4g}"


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


def _questions(results: Sequence[Result]) -> list[list[Result]]:
    """The results that ask the same of several models, together, in the order of the first."""
    questions: dict[tuple, list[Result]] = {}
    for result in results:
        row, check = result.row, result.row.check
        key = (row.label, row.interest, check.tree.start, check.tree.truncation, check.query.text)
        questions.setdefault(key, []).append(result)
    return list(questions.values())


def _number_cell(column: str, cell: str) -> Cell:
    """A figure in at most four significant digits, but a whole number in all of them."""
    if cell in ("True", "False"):
        return Cell(cell.lower(), cell)
    digits = re.sub(r"e.*|\D", "", cell).lstrip("0")
    if len(digits) <= 4 or cell.lstrip("-").isdigit() or not math.isfinite(float(cell)):
        return Cell(cell, cell)
    return Cell(FORMATS.get(column, "{:.4g}").format(float(cell)), cell)


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
            path_probability=float(drawing.path_probability[uid]),
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
