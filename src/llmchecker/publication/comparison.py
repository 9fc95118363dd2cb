"""The paper's Table II beside a run's.

A run is compared with a published row where the label of its model is the row's name for it, upper
and lower case equal, and its experiment has the row's label, alpha, k, L and query.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from llmchecker.checking.verdicts import Verdict
from llmchecker.config.checks import TableRow
from llmchecker.publication.audit import Finding
from llmchecker.publication.published import PublishedRow

COLUMNS = """
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


@dataclass(frozen=True)
class Run:
    """A row of this run's Table II: what was asked, the model's label, start string and verdict."""

    row: TableRow
    model: str
    start_string: str
    verdict: Verdict

    def asks_as(self, finding: Finding) -> bool:
        """Whether label, query and parameters are those of a published row.

        The L may also be the smallest that the audit allows for a row whose own it does not.
        """
        published, check = finding.row, self.row.check
        lengths = (published.truncation.length, finding.length)
        return (
            self.row.label.casefold() == published.label.casefold()
            and check.query.root == published.query.root
            and check.tree.truncation.length in lengths
            and check.tree.truncation
            == replace(published.truncation, length=check.tree.truncation.length)
        )

    def is_of(self, finding: Finding) -> bool:
        """Whether the model's label is the name that a published row has for its model."""
        return self.model.casefold() == finding.row.model.casefold()


def table(findings: Iterable[Finding], runs: Sequence[Run]) -> pd.DataFrame:
    """Every published row beside the runs of its model, and below them those of other models.

    A published row that was not run stands alone. A run with the parameters of published rows, but
    of a model that none of them has, follows them without published figures. Differences are
    between figures of the same model, run less published; of sizes, between those that Storm
    explored for the query, which the paper prints. A published figure keeps its digits.

    Args:
        findings: the audit of the published rows.
        runs: the rows of this run; those that ask what no published row asks are left out.
    """
    records = []
    for alike in _by_question(findings):
        for finding in alike:
            own = [run for run in runs if run.asks_as(finding) and run.is_of(finding)]
            records += [_beside(finding, run) for run in own] or [_alone(finding)]
        for run in runs:
            like = next((finding for finding in alike if run.asks_as(finding)), None)
            if like and not any(map(run.is_of, alike)):
                records.append(_of_another_model(like, run))
    return pd.DataFrame(records, columns=COLUMNS).astype(dict.fromkeys(WHOLE, "Int64"))


def _by_question(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """The findings that differ in nothing but the model, each list in the order given."""
    questions: dict[tuple, list[Finding]] = {}
    for finding in findings:
        row = finding.row
        key = (row.label.casefold(), row.truncation, row.query.root)
        questions.setdefault(key, []).append(finding)
    return questions.values()


def _beside(finding: Finding, run: Run) -> dict[str, object]:
    row, verdict = finding.row, run.verdict
    return {
        **_run(finding, run),
        **_published(finding),
        "states_difference": verdict.states_explored - row.states,
        "transitions_difference": verdict.transitions_explored - row.transitions,
        "value_difference": verdict.value - float(row.value),
        "match": _match("model and parameters", finding, run),
    }


def _alone(finding: Finding) -> dict[str, object]:
    return {**_published(finding), "match": "no run of this model"}


def _of_another_model(finding: Finding, run: Run) -> dict[str, object]:
    match = _match("parameters, another model", finding, run)
    return {**_run(finding, run), "model": run.model, "match": match}


def _match(what: str, finding: Finding, run: Run) -> str:
    as_printed = run.row.check.tree.truncation.length == finding.row.truncation.length
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


def _run(finding: Finding, run: Run) -> dict[str, object]:
    verdict = run.verdict
    return {
        **_asked(finding.row),
        "L": run.row.check.tree.truncation.length,
        "states": verdict.states,
        "states_explored": verdict.states_explored,
        "transitions_explored": verdict.transitions_explored,
        "value": verdict.value,
        "encode_seconds": verdict.encode_seconds,
        "check_seconds": verdict.check_seconds,
        "start_string": run.start_string,
    }
