"""Answers to tasks: solving a task on its tree, and showing the answer as text, JSON or picture."""

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
from llmchecker.deployed.chat import start_as_json
from llmchecker.deployed.decoding import decoding_as_json
from llmchecker.publication import drawing
from llmchecker.quantifiers.quantifier import ranges_of
from llmchecker.scoring import scores
from llmchecker.trees.text_tree import TextTree

if TYPE_CHECKING:
    from llmchecker.checking.verdicts import Verdict


@dataclass(frozen=True)
class AnsweredTask:
    """A task, its answer, and the time that this run took.

    Attributes:
        task: the question.
        kept: the tree on which it was answered.
        verdict: the answer; its `encode_seconds` include growing, scoring and building the chain,
            as far as this run did them.
        scoring_seconds: the time for scoring by all quantifiers of the query.
    """

    task: Task
    kept: KeptTree
    verdict: "Verdict"
    scoring_seconds: float


def solve_task(task: Task) -> AnsweredTask:
    """Answer the query of a task.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    kept = tree_of(task)
    tree = kept.tree
    began = time.monotonic()
    values = _scored(task, tree)
    scoring_seconds = time.monotonic() - began
    # Imported here: Storm takes a second, for which neither --help nor a mistake should wait.
    from llmchecker.checking.solve import solve

    quantifiers = {name: task.config.quantifiers[name] for name in values}
    ranges = ranges_of(quantifiers)
    verdict = solve(tree, values, task.query, ranges, kept.seconds + scoring_seconds)
    return AnsweredTask(task, kept, verdict, scoring_seconds)


def draw_task(task: Task) -> drawing.Drawing:
    """Draw the tree of a task; with a query, also the scores and the states that decide it.

    Raises:
        InvalidBound: the tree is too large to draw.
        LLMCheckerError: the model cannot be fetched or loaded.
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
    """The scores of all states for every quantifier of the query, by its name."""
    values = {}
    for name in quantifiers_in(task.query):
        logging.info("scoring %d states: %s", len(tree), name)
        values[name] = scores.score_tree(task.config.quantifiers[name], tree, name)
    return values


def answer_as_json(answered: AnsweredTask) -> dict[str, Any]:
    """The fields of the verdict and of its question; null stands for a bound that is unknown."""
    task, kept = answered.task, answered.kept
    about = {
        "model": task.model.name,
        "decoding": decoding_as_json(task.model.decoding),
        "start": start_as_json(task.start),
        "alpha": task.truncation.alpha,
        "k": task.truncation.k,
        "L": task.truncation.length,
        "tree": str(kept.path),
        "growing_seconds": kept.seconds,
        "scoring_seconds": answered.scoring_seconds,
    }
    return asdict(answered.verdict) | about


def answer_as_text(answered: AnsweredTask) -> str:
    """The answer for a person: one line for each figure, then the texts that decide the query."""
    task, verdict, kept = answered.task, answered.verdict, answered.kept
    growing = f"growing {kept.seconds:.1f}" if kept.seconds else "tree kept from before"
    figures = wording.verdict_rows(verdict)
    rows = {
        "query": figures.pop("query"),
        "model": f"{task.model.asked()}, {task.truncation}",
        "text": task.start_shown,
        **figures,
        "seconds": f"{growing}, scoring {answered.scoring_seconds:.1f}, "
        f"checking {verdict.check_seconds:.1f}",
        "tree": str(kept.path),
    }
    return "\n".join([*wording.aligned(rows), *wording.verdict_details(verdict)])
