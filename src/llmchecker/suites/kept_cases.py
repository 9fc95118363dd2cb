"""Certain results of cases, which a later run of a changed suite takes over.

The digest of a suite changes with every case. A result that is certain depends on no other case: it
uses no share of the confidence of the suite.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker import __version__
from llmchecker.checking.answer import Answer
from llmchecker.errors import UnusableDataset
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.conversations import describe_turns
from llmchecker.suites.fingerprint import CaseFingerprint, Fingerprints
from llmchecker.suites.json_lines import write_unfinished
from llmchecker.suites.load import list_deployments
from llmchecker.suites.verdicts import Status
from llmchecker.utils.json_lines import read_lines, write_lines

_log = logging.getLogger(__name__)


def restore_cases(suite: Suite, code: str, kept: Path, log: Path, cases: Sequence[Case]) -> int:
    """Write the log of a run with the kept results of cases that are unchanged.

    Args:
        suite: the suite.
        code: digest of the code of a run.
        kept: the file that `keep_cases` wrote; it may be absent.
        log: the log of a run. A log that is there is continued as it is.
        cases: the cases of the run.

    Returns:
        The number of results in the new log.
    """
    # differences need the probability of each case
    if log.exists() or not kept.exists() or suite.versus is not None:
        return 0
    lines, digests = _read_kept(kept), _compute_digests(suite, code, cases)
    found = [
        _fit_result(lines[digests[case.key]], case) for case in cases if digests[case.key] in lines
    ]
    write_unfinished(log, suite, found)
    return len(found)


def keep_cases(suite: Suite, code: str, results: Path, kept: Path) -> None:
    """Keep the certain results of a complete run, and no others.

    Args:
        suite, code, kept: as in `restore_cases`.
        results: the file of the results.
    """
    lines = [
        line
        for line in read_lines(results).objects
        if "case" in line and line["certain"] and line["status"] in (Status.HOLDS, Status.VIOLATED)
    ]
    keys = {(line["model"], line["case"]) for line in lines}
    digests = _compute_digests(suite, code, [case for case in suite.cases if case.key in keys])
    write_lines(
        kept,
        (
            {
                "digest": digests[line["model"], line["case"]],
                "sha256": _compute_sha256(line),
                "result": line,
            }
            for line in lines
        ),
    )


def _fit_result(line: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return a kept result as that of a case, without an interval that holds too rarely."""
    answer = Answer.from_json(line["answer"], case.name)
    sampled, confidence = answer.sampled, case.question.budget.confidence
    # a further case makes the share of each case in the error probability smaller
    if sampled is not None and sampled.confidence < confidence:
        line = line | {"answer": replace(answer, sampled=None).as_json()}
    # the name of a case may have its place in the suite
    return line | {"model": case.deployment.name, "case": case.name}


def _read_kept(kept: Path) -> dict[str, dict[str, Any]]:
    """Read the kept results by digest, without damaged ones."""
    try:
        lines = read_lines(kept).objects
        return {
            line["digest"]: line["result"]
            for line in lines
            if _compute_sha256(line["result"]) == line["sha256"]
        }
    except (UnusableDataset, KeyError) as error:
        _log.warning("%s: not used: %s", kept, error)
        return {}


def _compute_digests(suite: Suite, code: str, cases: Sequence[Case]) -> dict[CaseKey, str]:
    """Compute the sha256 of everything that determines the certain result of each case."""
    shared = [
        *(__version__, code, suite.seed),
        [deployment.describe() for deployment in list_deployments(suite)],
        sorted((path.name, checksum) for path, checksum in suite.model_files.items()),
    ]
    fingerprints = Fingerprints(suite)
    return {
        case.key: _compute_sha256([shared, _describe_case(case, fingerprints[case.key])])
        for case in cases
    }


def _describe_case(case: Case, fingerprint: CaseFingerprint) -> list[Any]:
    """Describe what a case asks of which deployment, with its limits, as JSON."""
    question, budget = case.question, case.question.budget
    conversation = question.conversation
    return [
        case.deployment.describe(),
        start_as_json(question.prompt),
        [] if conversation is None else describe_turns(conversation),
        question.query.text,
        vars(fingerprint),
        [budget.passes, budget.seconds, budget.answers, budget.width, budget.seed],
    ]


def _compute_sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
