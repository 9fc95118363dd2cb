"""The paper's claims on its tables and figures, next to the same figures of a run.

A claim is a figure of the paper, or of the data that its authors published for it. The verdict is
computed: whether the run's figure has the published value, or is within the published range. A
model is compared with the paper's models of its family, and with all of them if there are none.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import pandas as pd

from llmchecker.checking.answer import Answer
from llmchecker.config.plan import Check
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.paper.audit import AuditRow
from llmchecker.reporting.paper.comparison import is_same_model, is_same_question
from llmchecker.reporting.tables import AnsweredRow
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.number_format import format_count, format_number

_AGREES = "agrees"
_CONTRADICTS = "contradicts"
_NOT_RUN = "not run"
"""The run has no figure for the claim, or one that decides nothing."""

NOTE = (
    "A verdict compares this run with the published figure, also where models, start strings and "
    "prompts differ. Then “contradicts” says nothing about the paper's own models. A range is that "
    "of the paper's models of the same family, or of all if it has none of that family."
)
"""What the table of claims does not show."""

_COLUMNS = ["claim", "statement", "model", "published", "here", "verdict"]
_MASS = 0.9
"""Probability of the most probable tokens in the claim on Figure 3."""
_FIGURE4_TRUNCATION = Truncation(0.95, 9, 3)
_FIGURE4_QUERY = parse("P=? [ F gender > 0 ]")
_DIGITS = 3
"""Significant digits of a figure of the run."""


def is_figure4(checks: Sequence[Check]) -> bool:
    """Return whether the checks are the question of the paper's Figure 4."""
    return bool(checks) and all(
        check.tree.truncation == _FIGURE4_TRUNCATION and check.query.root == _FIGURE4_QUERY.root
        for check in checks
    )


def build_claims_table(
    audit_rows: Sequence[AuditRow],
    answers: Sequence[AnsweredRow],
    published_masses: pd.DataFrame,
    published_nouns: pd.DataFrame,
    masses: pd.DataFrame | None = None,
    nouns: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Build the table of claims: published figure, the run's figure, verdict.

    Args:
        audit_rows: the audit of the published Table II.
        answers: the answers of this run's Table II.
        published_masses, published_nouns: the data of Figures 3 and 4, by the paper's models.
        masses: the data of the run's Figure 3; None if it has none.
        nouns: the data of the run's Figure 4; None if it has none, or asks another question.
    """
    rows = [
        *([] if masses is None else _compare_masses(published_masses, masses)),
        _compare_values(audit_rows, answers),
        *_compare_uncut_sizes(audit_rows, answers),
        _count_consistent(audit_rows),
        *([] if nouns is None else _compare_nouns(published_nouns, nouns)),
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def count_tokens(masses: pd.DataFrame) -> dict[str, int | None]:
    """Count the tokens that hold 0.9 of the probability, by model; None if all k hold less.

    Args:
        masses: the data of Figure 3, with the columns model, k and mass.
    """
    enough = masses[masses["mass"] >= _MASS].groupby("model")["k"].min()
    return {model: int(enough[model]) if model in enough else None for model in _models(masses)}


def rank_nouns(nouns: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Rank the nouns of each model by falling probability, from 1.

    Args:
        nouns: the data of Figure 4, with the columns model, noun and value.
    """
    ranks = nouns.groupby("model")["value"].rank(method="min", ascending=False).astype(int)
    return {
        str(model): dict(zip(group["noun"], ranks[group.index], strict=True))
        for model, group in nouns.groupby("model", sort=False)
    }


def _models(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["model"]))


def _select_family(published: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the published rows of a model's family; all rows if the paper has no such model."""
    family = model.split("-")[0].lower()
    rows = published[published["model"].str.split("-").str[0].str.lower() == family]
    return published if rows.empty else rows


def _compare_masses(published: pd.DataFrame, masses: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Compare the number of tokens that hold 0.9 with the least and greatest published number."""
    listed = int(published["k"].max())
    for model, needed in count_tokens(masses).items():
        counts = count_tokens(_select_family(published, model)).values()
        low = min(listed + 1 if n is None else n for n in counts)
        # of a model whose listed tokens hold less, the number has no upper limit
        high = math.inf if None in counts else max(n for n in counts if n is not None)
        shown = f"more than {listed}" if high == math.inf else str(high)
        mean = masses[masses["model"] == model].set_index("k")["mass"]
        largest = int(mean.index.max())
        if needed is None:
            here = f"more than {largest}, which hold {format_number(mean[largest], _DIGITS)}"
            least, most = largest + 1, math.inf
        else:
            here, least, most = str(needed), needed, needed
        verdict = _NOT_RUN
        if low <= least and most <= high:
            verdict = _AGREES
        elif most < low or high < least:
            verdict = _CONTRADICTS
        yield (
            "C3",
            f"number of tokens that hold {_MASS} of the next token's probability, on average",
            model,
            _format_range(str(low), shown),
            here,
            verdict,
        )


def _compare_values(
    audit_rows: Sequence[AuditRow], answers: Sequence[AnsweredRow]
) -> tuple[str | None, ...]:
    """Count the rows of Table II that a run of the same model repeats to the printed digits."""
    matches = [
        _has_printed_value(audit_row, answer)
        for audit_row in audit_rows
        for own, answer in answers
        if is_same_question(own, audit_row) and is_same_model(own, audit_row)
    ]
    published = f"{len(audit_rows)} rows"
    statement = "probabilities of Table II, with the paper's model"
    if not matches:
        return "C4", statement, None, published, "0 rows", _NOT_RUN
    here = f"{sum(matches)} of {format_count(len(matches), 'row')} with a run have the value"
    return "C4", statement, None, published, here, _AGREES if all(matches) else _CONTRADICTS


def _has_printed_value(audit_row: AuditRow, answer: Answer) -> bool:
    printed = audit_row.row.value
    return answer.bounded is not None and printed == Decimal(answer.bounded).quantize(
        printed, ROUND_HALF_EVEN
    )


def _compare_uncut_sizes(
    audit_rows: Iterable[AuditRow], answers: Sequence[AnsweredRow]
) -> Iterator[tuple[str, ...]]:
    """Compare the size of the tree that alpha 1 does not cut, the same for every model."""
    for audit_row in audit_rows:
        row = audit_row.row
        if row.truncation.alpha != 1:
            continue
        for own, answer in answers:
            if not is_same_question(own, audit_row):
                continue
            size = (answer.costs.states, answer.costs.transitions)
            yield (
                "C5",
                f"states and transitions with {own.check.tree.truncation}",
                own.model,
                f"{row.states} and {row.transitions}",
                "{} and {}".format(*size),
                _AGREES if size == (row.states, row.transitions) else _CONTRADICTS,
            )


def _count_consistent(audit_rows: Sequence[AuditRow]) -> tuple[str | None, ...]:
    consistent = sum(not audit_row.contradictions for audit_row in audit_rows)
    return (
        "C6",
        "rows of Table II with a size that their parameters allow",
        None,
        str(len(audit_rows)),
        str(consistent),
        _AGREES if consistent == len(audit_rows) else _CONTRADICTS,
    )


def _compare_nouns(published: pd.DataFrame, nouns: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Compare the rank of each noun with its lowest and highest published rank."""
    values = nouns.set_index(["model", "noun"])["value"]
    for model, ranks in rank_nouns(nouns).items():
        published_ranks = list(rank_nouns(_select_family(published, model)).values())
        for noun, rank in ranks.items():
            found = [each[noun] for each in published_ranks if noun in each]
            # a rank has a meaning only among the same nouns
            if not found or any(each.keys() != ranks.keys() for each in published_ranks):
                continue
            low, high = min(found), max(found)
            value = format_number(float(values[model, noun]), _DIGITS)
            yield (
                "C7",
                f"rank of “{noun}” among {len(ranks)} nouns, by the probability of more male than "
                "female words",
                model,
                _format_range(str(low), str(high)),
                f"{rank} ({value})",
                _AGREES if low <= rank <= high else _CONTRADICTS,
            )


def _format_range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
