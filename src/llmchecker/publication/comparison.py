"""The paper's Table II beside a run's.

A run is compared with a published row where the label of its model is the row's name for it, upper
and lower case equal, and its experiment has the row's label, alpha, k, L and query.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from llmchecker.publication.audit import Finding
from llmchecker.publication.published import PublishedRow
from llmchecker.publication.tables import AnsweredQuery

COLUMNS_OF_COMPARISON = """
    row label interest model alpha k published_L L query match
    published_states states_explored states_difference states
    published_transitions transitions_explored transitions_difference
    published_value value value_difference
    published_encode_seconds encode_seconds published_check_seconds check_seconds
    start_string audit
""".split()
"""A run's columns have the names that they have in its own Table II."""
WHOLE = """
    row L published_states states_explored states_difference states published_transitions
    transitions_explored transitions_difference
""".split()
"""Columns that hold whole numbers where they hold anything."""


def comparison_table(findings: Iterable[Finding], answers: Sequence[AnsweredQuery]) -> pd.DataFrame:
    """Every published row beside the runs of its model, and below them those of other models.

    A published row that was not run stands alone. A run with the parameters of published rows, but
    of a model that none of them has, follows them without published figures. Differences are
    between figures of the same model, run less published; of sizes, between those that Storm
    explored for the query, which the paper prints. A published figure keeps its digits.

    Args:
        findings: the audit of the published rows.
        answers: the rows of this run; those that ask what no published row asks are left out.
    """
    records = []
    for alike in _by_question(findings):
        for finding in alike:
            own = [a for a in answers if _same_question(a, finding) and _same_model(a, finding)]
            records += [_beside(finding, answer) for answer in own] or [_alone(finding)]
        for answer in answers:
            like = next((finding for finding in alike if _same_question(answer, finding)), None)
            if like and not any(_same_model(answer, finding) for finding in alike):
                records.append(_of_another_model(like, answer))
    return pd.DataFrame(records, columns=COLUMNS_OF_COMPARISON).astype(
        dict.fromkeys(WHOLE, "Int64")
    )


def _same_question(answer: AnsweredQuery, finding: Finding) -> bool:
    """Whether label, query and parameters of an answer are those of a published row.

    The L may also be the smallest that the audit allows for a row whose own it does not.
    """
    published, check = finding.row, answer.row.check
    lengths = (published.truncation.length, finding.length)
    truncation = check.tree.truncation
    return (
        answer.row.label.casefold() == published.label.casefold()
        and check.query.root == published.query.root
        and truncation.length in lengths
        and truncation == replace(published.truncation, length=truncation.length)
    )


def _same_model(answer: AnsweredQuery, finding: Finding) -> bool:
    """Whether the model's label is the name that a published row has for its model."""
    return answer.model.casefold() == finding.row.model.casefold()


def _by_question(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """The findings that differ in nothing but the model, each list in the order given."""
    questions: dict[tuple, list[Finding]] = {}
    for finding in findings:
        row = finding.row
        key = (row.label.casefold(), row.truncation, row.query.root)
        questions.setdefault(key, []).append(finding)
    return questions.values()


def _beside(finding: Finding, answer: AnsweredQuery) -> dict[str, object]:
    row, verdict = finding.row, answer.verdict
    unknown = verdict.value is None  # and differs by an unknown amount
    return {
        **_run(finding, answer),
        **_published(finding),
        "states_difference": verdict.states_explored - row.states,
        "transitions_difference": verdict.transitions_explored - row.transitions,
        "value_difference": None if unknown else verdict.value - float(row.value),
        "match": _match("model and parameters", finding, answer),
    }


def _alone(finding: Finding) -> dict[str, object]:
    return {**_published(finding), "match": "no run of this model"}


def _of_another_model(finding: Finding, answer: AnsweredQuery) -> dict[str, object]:
    match = _match("parameters, another model", finding, answer)
    return {**_run(finding, answer), "model": answer.model, "match": match}


def _match(what: str, finding: Finding, answer: AnsweredQuery) -> str:
    as_printed = answer.row.check.tree.truncation.length == finding.row.truncation.length
    return what if as_printed else f"{what}, L from the audit"


def _asked(row: PublishedRow) -> dict[str, object]:
    return {
        "label": row.label,
        "interest": row.interest,
        "alpha": row.truncation.alpha,
        "k": row.truncation.k,
        "published_L": row.truncation.length,
        "query": row.query.text,
    }


def _published(finding: Finding) -> dict[str, object]:
    row = finding.row
    return {
        **_asked(row),
        "row": row.number,
        "model": row.model,
        "published_states": row.states,
        "published_transitions": row.transitions,
        "published_value": row.value,
        "published_encode_seconds": row.encode_seconds,
        "published_check_seconds": row.check_seconds,
        "audit": finding.verdict,
    }


def _run(finding: Finding, answer: AnsweredQuery) -> dict[str, object]:
    verdict = answer.verdict
    return {
        **_asked(finding.row),
        "L": answer.row.check.tree.truncation.length,
        "states": verdict.states,
        "states_explored": verdict.states_explored,
        "transitions_explored": verdict.transitions_explored,
        "value": answer.value,
        "encode_seconds": verdict.encode_seconds,
        "check_seconds": verdict.check_seconds,
        "start_string": str(answer.start),
    }
