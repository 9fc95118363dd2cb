"""What a run answered, and the paper's tables of it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from llmchecker.checking.evidence import COUNTEREXAMPLE, WITNESS, decisive_mass, has_evidence
from llmchecker.checking.verdicts import Verdict
from llmchecker.config.checks import TableRow
from llmchecker.deciding.estimates import EstimateRecord, with_estimate
from llmchecker.deployed.chat import Start
from llmchecker.publication.table_files import as_code, as_text, escaped, format_cell, paragraph
from llmchecker.queries.formulas import Expectation
from llmchecker.queries.query import Query

COLUMNS_OF_TABLE2 = """
    label interest model alpha k L query states transitions states_explored transitions_explored
    encode_seconds check_seconds value lower upper estimate low high confidence samples
""".split()
COLUMNS_OF_FIGURE4 = """
    model noun value lower upper estimate low high confidence samples
""".split()
ESTIMATED = ("estimate", "low", "high", "confidence", "samples")
"""Columns that are empty where nothing was estimated."""
KINDS_OF_TEXT = {
    WITNESS: "Texts that satisfy it",
    COUNTEREXAMPLE: "Texts that violate it",
}
UNKNOWN = "unknown"
"""What stands where no value can be told."""
CERTAIN = """\
Certain: the whole model's answer lies from lower to upper, whatever follows a text that the tree \
does not go on with. The value is that of the bounded process, exactly."""
LEGEND = """\
What the model wrote stands as code behind the start string. An ellipsis is a token that was not
selected: what it does to a quantifier is unknown, and every atom over one counts as false there."""


@dataclass(frozen=True)
class AnsweredQuery:
    """A query of a run and its answer.

    Attributes:
        row: what was asked, and the experiment that asks it.
        model: the model's label, with the decoding that it is asked with if it has one.
        start: the start string, or the chat that is answered.
        verdict: the answer.
    """

    row: TableRow
    model: str
    start: Start
    verdict: Verdict

    @property
    def value(self) -> float | bool | str:
        """The value of the bounded process, or "unknown"."""
        return UNKNOWN if self.verdict.value is None else self.verdict.value

    @property
    def bounds(self) -> tuple[float | bool, float | bool]:
        """What is certain for the whole model, of which a side that was not found says nothing.

        A probability is at least 0 and at most 1, an expected score can be anything, and of yes or
        no (False, True) is unknown.
        """
        query = self.row.check.query
        if not query.numeric:
            lowest, highest = False, True
        elif isinstance(query.root, Expectation):
            lowest, highest = -math.inf, math.inf
        else:
            lowest, highest = 0.0, 1.0
        lower, upper = self.verdict.lower, self.verdict.upper
        return lowest if lower is None else lower, highest if upper is None else upper


def read_answers(
    rows: Iterable[TableRow],
    verdicts: Iterable[str | Path],
    models: Iterable[str],
    start_strings: Mapping[str, Start],
    estimates: Iterable[str | Path] = (),
) -> tuple[AnsweredQuery, ...]:
    """Read the answers to queries, in the order given.

    Args:
        rows: what was asked.
        verdicts: the file of each row's verdict.
        models: what to call the model of each row.
        start_strings: the start strings by name.
        estimates: the files of estimates, which name the check that they are about. A check may
            have none.

    Raises:
        CheckFailed: a file is not a verdict.
        DamagedFile: a file is not an estimate, or has changed since it was written.
    """
    records = {record.check: record for record in map(EstimateRecord.read, estimates)}
    return tuple(
        AnsweredQuery(
            row=row,
            model=model,
            start=start_strings[row.check.tree.start],
            verdict=_estimated(Verdict.read(path), row, records.get(str(row.check))),
        )
        for row, path, model in zip(rows, verdicts, models, strict=True)
    )


def _estimated(verdict: Verdict, row: TableRow, record: EstimateRecord | None) -> Verdict:
    """The verdict with what was estimated, or with the reason why nothing was."""
    if record is None:
        return verdict
    if record.found is None:
        note = f"There is no estimate: {record.note}"
        return replace(verdict, notes=(*verdict.notes, note))
    return with_estimate(verdict, row.check.query, record.found)


def table1(start_strings: Mapping[str, str]) -> pd.DataFrame:
    """Table I: the start strings."""
    return pd.DataFrame(start_strings.items(), columns=["name", "start_string"])


def table2(answers: Iterable[AnsweredQuery]) -> pd.DataFrame:
    """Table II: one row for every experiment, model and query, in the order given."""
    records = []
    for answer in answers:
        row, verdict = answer.row, answer.verdict
        truncation = row.check.tree.truncation
        records.append(
            {
                "label": row.label,
                "interest": row.interest,
                "model": answer.model,
                # a tree that is refined has no alpha and k
                "alpha": getattr(truncation, "alpha", None),
                "k": getattr(truncation, "k", None),
                "L": truncation.length,
                "query": verdict.query,
                "states": verdict.states,
                "transitions": verdict.transitions,
                "states_explored": verdict.states_explored,
                "transitions_explored": verdict.transitions_explored,
                "encode_seconds": verdict.encode_seconds,
                "check_seconds": verdict.check_seconds,
                "value": answer.value,
                **_bounds(answer),
                **_estimates(verdict),
            }
        )
    table = pd.DataFrame(records, columns=COLUMNS_OF_TABLE2)
    return table.astype(dict.fromkeys(("k", "samples"), "Int64"))


def mass_table(masses: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The numbers of Figure 3: the mean mass within the k most probable tokens, by model and k.

    Args:
        masses: for every model's label, the columns prompt, k and mass.
    """
    means = [
        frame.groupby("k", as_index=False)["mass"].mean().assign(model=model)
        for model, frame in masses.items()
    ]
    return pd.concat(means, ignore_index=True)[["model", "k", "mass"]]


def noun_table(answers: Iterable[AnsweredQuery]) -> pd.DataFrame:
    """The numbers of Figure 4: value, bounds and estimate of one query, by model and noun.

    The noun is the name of the start string. An unknown value is an empty cell, and so is an
    estimate where nothing was estimated.
    """
    records = [
        {
            "model": answer.model,
            "noun": answer.row.check.tree.start,
            "value": answer.verdict.value,
            **_bounds(answer),
            **_estimates(answer.verdict),
        }
        for answer in answers
    ]
    table = pd.DataFrame(records, columns=COLUMNS_OF_FIGURE4)
    return table.astype({"samples": "Int64"})


def notes_of_table2(answers: Sequence[AnsweredQuery]) -> list[str]:
    """What the columns of Table II mean that hold answers, as paragraphs of plain text."""
    notes = [CERTAIN]
    confidences = {answer.verdict.confidence for answer in answers} - {None}
    if confidences:
        stated = " or ".join(f"{confidence:g}" for confidence in sorted(confidences))
        notes.append(
            f"With confidence {stated}, and not certain: the whole model's answer lies from low to "
            "high. That interval and the estimate come from samples of what the tree leaves open; "
            "of a query without =?, the estimate is whether it holds, and the interval is that of "
            "the probability."
        )
    return notes


def witnesses_markdown(answers: Iterable[AnsweredQuery], footer: str = "") -> str:
    """The most probable texts that decide each query, as Markdown.

    What the model wrote stands as code behind the start string, which is plain.

    Args:
        answers: the rows of Table II.
        footer: plain text to stand below all.
    """
    sections = ["# The texts that decide each query", LEGEND, *map(_section, answers)]
    return "\n\n".join(sections) + "\n" + paragraph(footer)


def _section(answer: AnsweredQuery) -> str:
    """The texts of one query below a heading of their own."""
    row, verdict = answer.row, answer.verdict
    headings = [as_text(format_cell(text)) for text in (row.label, row.interest, answer.model)]
    query = as_code(format_cell(verdict.query))
    lines = [
        f"## {' · '.join(headings)}",
        "",
        f"{query} is {format_cell(answer.value)} for {row.check.tree.truncation}. "
        + evidence_summary(row.check.query, verdict),
        *(f"\n{escaped(note)}" for note in verdict.notes),
    ]
    if verdict.witnesses:
        lines += ["", "| probability | text |", "|------------:|:-----|"]
    lines += [
        f"| {format_cell(witness['probability'])} | {_text_cell(witness)} |"
        for witness in verdict.witnesses
    ]
    return "\n".join(lines)


def evidence_summary(query: Query, verdict: Verdict) -> str:
    """What the texts of a verdict have in common, and how much of the whole they are."""
    if not has_evidence(query):
        return "No single text decides a query of this form."
    if not verdict.witnesses:
        return "No text decides it."
    kind = verdict.witnesses[0]["kind"]
    together = format_cell(math.fsum(w["probability"] for w in verdict.witnesses))
    if query.numeric and verdict.value is None:
        return f"{KINDS_OF_TEXT[kind]}, together {together}:"
    compared = format_cell(decisive_mass(query, kind, verdict.value))
    share = f"of {compared}" if query.numeric else f"against a bound of {compared}"
    return f"{KINDS_OF_TEXT[kind]}, together {together} {share}:"


def _text_cell(witness: Mapping[str, Any]) -> str:
    """Start string and continuation; an ellipsis for the unknown token that leads to `rest`."""
    start, generated = witness["text"][: witness["kept"]], witness["text"][witness["kept"] :]
    code = f"<code>{escaped(generated)}</code>" if generated else ""
    return escaped(start) + code + (" …" if witness["rest"] else "")


def _bounds(answer: AnsweredQuery) -> dict[str, float | bool]:
    return dict(zip(("lower", "upper"), answer.bounds, strict=True))


def _estimates(verdict: Verdict) -> dict[str, float | bool | str | None]:
    estimates = {name: getattr(verdict, name) for name in ESTIMATED}
    # there was an estimate, but the interval holds the threshold
    undecided = verdict.samples is not None and verdict.estimate is None
    return estimates | ({"estimate": UNKNOWN} if undecided else {})
