"""Comparison of the Table II of a run with the paper's.

An answer of a run matches a published row with the same label, alpha, k, L, query and model. The
label of the model must equal the row's name of the model. Labels and names are compared without
case. An answer of another model is compared with the range of the published rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from llmchecker.checking.answer import Answer
from llmchecker.config.plan import TableRow
from llmchecker.reporting.paper.audit import AuditRow
from llmchecker.reporting.paper.published_table import PublishedRow
from llmchecker.reporting.tables import AnsweredRow, describe_bounded

_COMPARISON_COLUMNS = """
    row label interest model query match published_value value value_difference
    published_lowest published_highest
    alpha k published_L L
    published_states states_explored states_difference states
    published_transitions transitions_explored transitions_difference
    published_encode_seconds encode_seconds published_check_seconds check_seconds
    start_string audit
""".split()
"""Columns of a run have the same names as in its own Table II."""
_INTEGER_COLUMNS = """
    row L published_states states_explored states_difference states published_transitions
    transitions_explored transitions_difference
""".split()
"""Columns of integers, which may have empty cells."""


def build_comparison_table(
    audit_rows: Iterable[AuditRow], answers: Sequence[AnsweredRow]
) -> pd.DataFrame:
    """Build the comparison of answers with the published rows of the same question.

    Every answer to a published question has a row, in the order of the published table. An answer
    of a published model has the published figures and the differences, the run's figure minus the
    published one. An answer of another model has the lowest and the highest published value of
    the question alone. Sizes are the parts that Storm explored, as in the paper. A published
    figure keeps its digits.

    Args:
        audit_rows: the audit of the published rows.
        answers: the answers of this run; answers to other queries are omitted.
    """
    records = []
    for group in _group_by_question(audit_rows):
        for own, answer in answers:
            audit_row = next((row for row in group if is_same_question(own, row)), None)
            if audit_row is None:
                continue
            own_row = next((row for row in group if is_same_model(own, row)), None)
            if own_row is None:
                label = _format_match("parameters, another model", audit_row, own)
                record = {
                    **_build_run_cells(audit_row, own, answer),
                    "model": own.model,
                    "match": label,
                }
            elif is_same_question(own, own_row):
                record = _build_matched_row(own_row, own, answer)
            else:
                # The L fits another model's row alone.
                continue
            values = [row.row.value for row in group]
            records.append(
                record | {"published_lowest": min(values), "published_highest": max(values)}
            )
    # A plain integer column has no empty cells.
    return pd.DataFrame(records, columns=_COMPARISON_COLUMNS).astype(
        dict.fromkeys(_INTEGER_COLUMNS, "Int64")
    )


def describe_rows_without_run(audit_rows: Sequence[AuditRow], table: pd.DataFrame) -> str:
    """Describe how many published rows have no run of their model; "" if each has one.

    Args:
        audit_rows: the audit of the published rows.
        table: the comparison.
    """
    count = len(audit_rows) - table["row"].nunique()
    if not count:
        return ""
    return (
        f"Of the paper's {len(audit_rows)} rows, {count} have no run of the same model and "
        "parameters; resources/published/table2.csv has them."
    )


def is_same_question(own: TableRow, audit_row: AuditRow) -> bool:
    """Return whether an answer has a published row's label, query and parameters.

    For a row whose printed L is impossible, the smallest possible L matches too.
    """
    row, check = audit_row.row, own.check
    lengths = (row.truncation.length, audit_row.min_length)
    truncation = check.tree.truncation
    return (
        own.label.casefold() == row.label.casefold()
        and check.query.root == row.query.root
        and truncation.length in lengths
        and truncation == replace(row.truncation, length=truncation.length)
    )


def is_same_model(own: TableRow, audit_row: AuditRow) -> bool:
    """Return whether the model's label is its name in a published row."""
    return own.model.casefold() == audit_row.row.model.casefold()


def _group_by_question(audit_rows: Iterable[AuditRow]) -> Iterable[list[AuditRow]]:
    """Group the rows that differ only in the model, in the given order."""
    questions: dict[tuple[object, ...], list[AuditRow]] = {}
    for audit_row in audit_rows:
        row = audit_row.row
        key = (row.label.casefold(), row.truncation, row.query.root)
        questions.setdefault(key, []).append(audit_row)
    return questions.values()


def _build_matched_row(audit_row: AuditRow, own: TableRow, answer: Answer) -> dict[str, object]:
    row, costs = audit_row.row, answer.costs
    return {
        **_build_run_cells(audit_row, own, answer),
        **_build_published_cells(audit_row),
        "states_difference": _subtract(costs.states_explored, row.states),
        "transitions_difference": _subtract(costs.transitions_explored, row.transitions),
        "value_difference": _subtract(answer.bounded, float(row.value)),
        "match": _format_match("model and parameters", audit_row, own),
    }


def _subtract(figure: float | None, published: float) -> float | None:
    """Return the difference from a published figure; None for an unknown figure."""
    return None if figure is None else figure - published


def _format_match(basis: str, audit_row: AuditRow, own: TableRow) -> str:
    has_printed_length = own.check.tree.truncation.length == audit_row.row.truncation.length
    # The printed L is impossible, so that the run uses the L of the audit.
    return basis if has_printed_length else f"{basis}, L from the audit"


def _build_question_cells(row: PublishedRow) -> dict[str, object]:
    return {
        "label": row.label,
        "interest": row.interest,
        "alpha": row.truncation.alpha,
        "k": row.truncation.k,
        "published_L": row.truncation.length,
        "query": row.query.text,
    }


def _build_published_cells(audit_row: AuditRow) -> dict[str, object]:
    row = audit_row.row
    return {
        **_build_question_cells(row),
        "row": row.number,
        "model": row.model,
        "published_states": row.states,
        "published_transitions": row.transitions,
        "published_value": row.value,
        "published_encode_seconds": row.encode_seconds,
        "published_check_seconds": row.check_seconds,
        "audit": audit_row.verdict,
    }


def _build_run_cells(audit_row: AuditRow, own: TableRow, answer: Answer) -> dict[str, object]:
    costs = answer.costs
    return {
        **_build_question_cells(audit_row.row),
        "L": own.check.tree.truncation.length,
        "states": costs.states,
        "states_explored": costs.states_explored,
        "transitions_explored": costs.transitions_explored,
        "value": describe_bounded(own, answer),
        "encode_seconds": costs.encode_seconds,
        "check_seconds": costs.check_seconds,
        "start_string": str(own.prompt),
    }
