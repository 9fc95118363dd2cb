"""Answers to a task: solved on its tree, and shown as text, as JSON or as a picture."""

import json
import logging
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llmchecker.chains import markov_chain
from llmchecker.checking import evidence, wording
from llmchecker.cli.kept_trees import KeptTree, tree_of
from llmchecker.cli.question import Task
from llmchecker.config.checks import quantifiers_in
from llmchecker.publication import drawing
from llmchecker.quantifiers import scores
from llmchecker.trees.text_tree import TextTree

if TYPE_CHECKING:
    from llmchecker.checking.verdicts import Verdict


@dataclass(frozen=True)
class AnsweredTask:
    """What was found, and what this run took.

    Attributes:
        task: the question.
        kept: the tree on which it was answered.
        verdict: its `encode_seconds` are those of this run: growing, scoring, building the chain.
        scoring_seconds: of all quantifiers of the query.
    """

    task: Task
    kept: KeptTree
    verdict: "Verdict"
    scoring_seconds: float


def solve_task(task: Task) -> AnsweredTask:
    """Answer the query of a task.

    Raises:
        LLMCheckerError: the model cannot be had or loaded, or the query cannot be answered.
    """
    kept = tree_of(task)
    tree = kept.tree
    began = time.monotonic()
    values = _scored(task, tree)
    scoring_seconds = time.monotonic() - began
    # with Storm it takes a second to import, for which neither --help nor a mistake should wait
    from llmchecker.checking.solve import solve

    quantifiers = {name: task.config.quantifiers[name] for name in values}
    ranges = {name: (each.minimum, each.maximum) for name, each in quantifiers.items()}
    verdict = solve(tree, values, task.query, ranges, kept.seconds + scoring_seconds)
    return AnsweredTask(task, kept, verdict, scoring_seconds)


def draw_task(task: Task) -> drawing.Drawing:
    """Draw the tree of a task, with its scores and the states that decide its query if it has one.

    Raises:
        InvalidBound: the tree is too large to draw.
        LLMCheckerError: the model cannot be had or loaded.
    """
    tree = tree_of(task).tree
    drawing.require_small(tree)
    if task.query is None:
        return drawing.Drawing(tree, {}, {})
    values = _scored(task, tree)
    if not evidence.has_evidence(task.query):
        logging.info("no single text decides a query of this form, so no state is marked")
    chain = markov_chain.build(tree, values)
    decisive = evidence.witnesses(tree, chain, task.query, most=None)
    return drawing.Drawing(tree, values, {witness.uid: witness.kind for witness in decisive})


def _scored(task: Task, tree: TextTree) -> dict[str, np.ndarray]:
    """The scores of all states, by every quantifier of the query."""
    values = {}
    for name in quantifiers_in(task.query):
        logging.info("scoring %d states: %s", len(tree), name)
        values[name] = scores.score_tree(task.config.quantifiers[name], tree)
    return values


def answer_as_json(answered: AnsweredTask) -> dict[str, Any]:
    """The fields of the verdict, and what it is about; null is a bound that there is not."""
    task, kept = answered.task, answered.kept
    about = {
        "model": task.model.name,
        "start": task.start,
        "alpha": task.truncation.alpha,
        "k": task.truncation.k,
        "L": task.truncation.length,
        "tree": str(kept.path),
        "growing_seconds": kept.seconds,
        "scoring_seconds": answered.scoring_seconds,
    }
    return asdict(answered.verdict) | about


def answer_as_text(answered: AnsweredTask) -> str:
    """The answer for a person: a line for each figure, then what decides the query."""
    task, verdict, kept = answered.task, answered.verdict, answered.kept
    growing = f"growing {kept.seconds:.1f}" if kept.seconds else "tree kept from before"
    figures = wording.verdict_rows(verdict)
    rows = {
        "query": figures.pop("query"),
        "model": f"{task.model.label}, {task.truncation}",
        "text": json.dumps(task.start, ensure_ascii=False),
        **figures,
        "seconds": f"{growing}, scoring {answered.scoring_seconds:.1f}, "
        f"checking {verdict.check_seconds:.1f}",
        "tree": str(kept.path),
    }
    return "\n".join([*wording.aligned(rows), *wording.verdict_details(verdict)])
