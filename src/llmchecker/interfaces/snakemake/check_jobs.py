"""The job of checking the queries on the trees of a model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker.checking.check import check_query
from llmchecker.checking.crosscheck import compare_evaluators
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.measurement import list_vacuous_thresholds
from llmchecker.config import paths
from llmchecker.config.plan import Check, quantifiers_in
from llmchecker.models.fingerprint import hash_inputs
from llmchecker.models.sources.checksums import check_same_files
from llmchecker.properties.logic.valuations import ScoreRange
from llmchecker.properties.quantifier_state import check_scores_state
from llmchecker.properties.scores import read_all_scores
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import (
    compute_sha256,
    read_json_with_digest,
    write_json_with_digest,
)
from llmchecker.utils.job_logging import Stopwatch
from llmchecker.utils.result_cache import ResultCache

_log = logging.getLogger(__name__)


def answer_checks(
    checks: Iterable[Check],
    notes: Iterable[Sequence[str]],
    definitions: Iterable[Mapping[str, Mapping[str, Any]]],
    ranges: Mapping[str, ScoreRange],
    states: Mapping[str, str],
    code: str,
    outputs: Sequence[str],
    work: Stopwatch,
) -> None:
    """Answer queries on trees, compare sums with Storm, and write the answers.

    An answer whose inputs are unchanged is taken from the cache.

    Args:
        checks: the checks; those on one tree are adjacent.
        notes: the notes on each answer.
        definitions: the settings of the quantifiers of each query, by name.
        ranges: the declared range of each quantifier, by name.
        states: the state of each quantifier at the start of the run, by name.
        code: the digest of the code of the job.
        outputs: the file of each answer, with the fingerprint of the tree by its record.
        work: the stopwatch of the job.

    Raises:
        ChecksumMismatch: a tree is of another model than the fetched one, or scores are of another
            state of their quantifier.
        CheckFailed: the sums over a tree and Storm disagree.
    """
    trees: dict[object, TextTree] = {}
    for check, check_notes, settings, output in zip(
        checks, notes, definitions, outputs, strict=True
    ):
        names = quantifiers_in(check.query)
        tree_record = paths.tree_record(check.tree)
        scores_records = {name: paths.scores_record(check.tree, name) for name in names}
        records = {p: read_json_with_digest(p) for p in (tree_record, *scores_records.values())}
        # the tree must be that of the model that is fetched now
        for making in records[tree_record]["makings"]:
            check_same_files(making["files"], paths.model_directory(check.tree.model), tree_record)
        for name, path in scores_records.items():
            check_scores_state(path, records[path].get("quantifier"), states[name])
        inputs = {tree_record: records[tree_record]["fingerprint"]}
        files = [paths.tree_file(check.tree), *paths.scores_of_check(check)]
        fingerprint = hash_inputs(
            *(str(check), check.query.text, list(check_notes), settings, inputs, code),
            [repr(ranges[name]) for name in names],
            [compute_sha256(file) for file in files],
            modules=(),
        )
        cache = ResultCache(Path(paths.cached_results("checks", check.tree.model)))
        if cache.restore(fingerprint, [output]):
            _log.info("%s: kept", check)
            continue
        # Only the last tree is kept, because checks on one tree are adjacent.
        if check.tree not in trees:
            trees = {check.tree: TextTree.read(paths.tree_file(check.tree))}
        tree = trees[check.tree]
        values = read_all_scores(tree, paths.scores_of_check(check))
        seconds = sum(record["seconds"] for record in records.values())
        # The time to read files is not part of the work.
        with work():
            scored = ScoredTree(tree, values, ranges)
            answer = check_query(
                scored,
                check.query,
                seconds,
                (*list_vacuous_thresholds(check.query.root), *check_notes),
            )
            answer = replace(answer, quantifiers=settings)
            evaluators = compare_evaluators(answer, scored)
        # a file of an answer may have further keys
        details = {"evaluators": evaluators, "inputs": inputs}
        write_json_with_digest(answer.as_json() | details, output)
        cache.add(fingerprint, [output])
        _log.info("%s: %s", check, answer.bounded)
