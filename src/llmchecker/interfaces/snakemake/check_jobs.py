"""The job of checking the queries on the trees of a model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmchecker.checking.check import check_query
from llmchecker.checking.crosscheck import compare_evaluators
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.config import paths
from llmchecker.config.plan import Check, quantifiers_in
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.properties.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from llmchecker.utils.job_logging import Stopwatch

_log = logging.getLogger(__name__)


def answer_checks(
    checks: Iterable[Check],
    notes: Iterable[Sequence[str]],
    definitions: Iterable[Mapping[str, Mapping[str, Any]]],
    ranges: Mapping[str, ScoreRange],
    outputs: Sequence[str],
    work: Stopwatch,
) -> None:
    """Answer queries on trees, compare sums with Storm, and write the answers.

    Args:
        checks: the checks; those on one tree are adjacent.
        notes: the notes on each answer.
        definitions: the settings of the quantifiers of each query, by name.
        ranges: the declared range of each quantifier, by name.
        outputs: the file of each answer.
        work: the stopwatch of the job.

    Raises:
        CheckFailed: the sums over a tree and Storm disagree.
    """
    trees: dict[object, TextTree] = {}
    for check, check_notes, settings, output in zip(
        checks, notes, definitions, outputs, strict=True
    ):
        names = quantifiers_in(check.query)
        records = [
            paths.tree_record(check.tree),
            *(paths.scores_record(check.tree, name) for name in names),
        ]
        # Only the last tree is kept, because checks on one tree are adjacent.
        if check.tree not in trees:
            trees = {check.tree: TextTree.read(paths.tree_file(check.tree))}
        tree = trees[check.tree]
        values = read_all_scores(tree, paths.scores_of_check(check))
        seconds = sum(read_json_with_digest(record)["seconds"] for record in records)
        # The time to read files is not part of the work.
        with work():
            scored = ScoredTree(tree, values, ranges)
            answer = check_query(scored, check.query, seconds, check_notes)
            answer = replace(answer, quantifiers=settings)
            evaluators = compare_evaluators(answer, scored)
        # a file of an answer may have further keys
        write_json_with_digest(answer.as_json() | {"evaluators": evaluators}, output)
        _log.info("%s: %s", check, answer.bounded)
