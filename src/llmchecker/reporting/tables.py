"""Answers of a run, and the paper's tables of them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path

import pandas as pd

from llmchecker.checking.answer import Answer
from llmchecker.checking.formatting import (
    FEW_DIGITS,
    UNKNOWN,
    format_bounds,
    format_interval,
    format_value,
    name_bounded_figure,
    summarize_witnesses,
)
from llmchecker.checking.witnesses import Witness, find_start_text
from llmchecker.config.plan import TableRow
from llmchecker.reporting.table_io import format_cell, format_paragraph
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.markdown_text import format_code, format_code_cell, format_text
from llmchecker.utils.number_format import format_number

_TABLE2_COLUMNS = """
    label interest model query verdict lower upper estimate low high confidence samples value
    alpha k L states transitions states_explored transitions_explored encode_seconds check_seconds
""".split()
_FIGURE4_COLUMNS = """
    model noun lower upper estimate low high confidence samples value
""".split()
_INTEGER_COLUMNS = """
    k states transitions states_explored transitions_explored samples
""".split()
"""Columns of integers, which may have empty cells."""
_ESTIMATE_COLUMNS = ("estimate", "low", "high", "confidence", "samples")
"""Columns that are empty without an estimate."""
_CERTAIN_NOTE = """\
Certain: the whole model's answer is within these bounds, whatever the model writes after texts \
that were not evaluated."""
_BOUNDED_NOTE = """\
Probability (bounded): the exact figure of the bounded process, whose texts contain only selected \
tokens. It may be outside of the bounds; without alpha and k it is absent."""
_LEGEND = """\
Start strings and their continuations are code. An ellipsis is a token that was not selected: its
effect on a quantifier is unknown, and the bounded process counts every atom over one as false."""


AnsweredRow = tuple[TableRow, Answer]
"""A row of Table II, and the answer: of the tree, of the whole model, or of both together."""


def read_answers(
    rows: Iterable[TableRow],
    verdicts: Iterable[str | Path],
    answers: Iterable[str | Path] = (),
) -> tuple[AnsweredRow, ...]:
    """Read the answers to queries, in the given order.

    Args:
        rows: the rows of Table II.
        verdicts: the file of the verdict of each row with a tree.
        answers: files of answers for the whole model, each with the name of its check. A check with
            a tree may lack one.

    Raises:
        CheckFailed: tree and answer contradict each other.
        DamagedFile: a file is not an answer, or does not match its digest.
    """
    contents = ((file, read_json_with_digest(file)) for file in answers)
    of_checks = {content["check"]: Answer.from_json(content, file) for file, content in contents}
    rows = tuple(rows)
    bounded_checks = [row.check for row in rows if row.check.is_bounded]
    files = dict(zip(bounded_checks, verdicts, strict=True))
    return tuple(
        (row, _combine(files.get(row.check), of_checks.get(str(row.check)))) for row in rows
    )


def _combine(file: str | Path | None, answer: Answer | None) -> Answer:
    """Combine the answer of a check's tree, in a file, with that of the whole model."""
    # A check has a tree, an answer, or both.
    answers = [] if file is None else [Answer.read(file)]
    answers += [] if answer is None else [answer]
    return reduce(Answer.narrow, answers)


def describe_bounded(row: TableRow, answer: Answer) -> float | bool | str | None:
    """Return the figure of the bounded process, or "unknown"; None without such a process."""
    if not row.check.is_bounded:
        return None
    return UNKNOWN if answer.bounded is None else answer.bounded


def format_answer(row: TableRow, answer: Answer) -> str:
    """Format an answer on one line: verdict, bounds, estimate, bounded figure.

    For example `certain [0.05, 0.9], estimate 0.06 in [0.05, 0.1], probability (bounded) 0.05`.
    """
    query, decision, sampled = answer.query, answer.decision, answer.sampled
    parts = [f"certain {format_few_bounds(answer)}" if decision is None else str(decision)]
    if sampled is not None:
        interval = format_interval(sampled.interval, FEW_DIGITS)
        # The verdict contains the estimate of a query without =?.
        estimate = f"{format_value(answer.estimate, FEW_DIGITS)} " if query.is_numeric else ""
        confidence = format_number(sampled.confidence)
        parts.append(f"estimate {estimate}in {interval} with confidence {confidence}")
    if row.check.is_bounded:
        parts.append(f"{name_bounded_figure(query)} {format_value(answer.bounded, FEW_DIGITS)}")
    return ", ".join(parts)


def format_few_bounds(answer: Answer) -> str:
    """Format the certain bounds with the digits and the signs of tables."""
    return format_bounds(answer, FEW_DIGITS, ("−∞", "∞"))


def build_table1(start_strings: Mapping[str, str]) -> pd.DataFrame:
    """Build Table I: the start strings."""
    return pd.DataFrame(start_strings.items(), columns=["name", "start_string"])


def build_table2(answers: Iterable[AnsweredRow]) -> pd.DataFrame:
    """Build Table II: a row for each experiment, model and query, in order."""
    records = []
    for row, answer in answers:
        costs, decision = answer.costs, answer.decision
        truncation = row.check.tree.truncation
        records.append(
            {
                "label": row.label,
                "interest": row.interest,
                "model": row.model,
                # An answer without a tree has no alpha and k.
                "alpha": getattr(truncation, "alpha", None),
                "k": getattr(truncation, "k", None),
                "L": truncation.length,
                "query": row.check.query.text,
                "verdict": None if decision is None else str(decision),
                "states": costs.states,
                "transitions": costs.transitions,
                "states_explored": costs.states_explored,
                "transitions_explored": costs.transitions_explored,
                "encode_seconds": costs.encode_seconds,
                "check_seconds": costs.check_seconds,
                "value": describe_bounded(row, answer),
                **_build_bounds_cells(answer),
                **_build_estimate_cells(answer),
            }
        )
    table = pd.DataFrame(records, columns=_TABLE2_COLUMNS)
    return table.astype(dict.fromkeys(_INTEGER_COLUMNS, "Int64"))


def build_mass_table(masses: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Build the data of Figure 3: mass of the k most probable tokens over prompts.

    Args:
        masses: tables with the columns prompt, k and mass, by the model's label.

    Returns:
        The mean and both quartiles over the prompts, by model and k. Quartiles between two prompts
        are interpolated linearly.
    """
    frames = []
    for model, frame in masses.items():
        groups = frame.groupby("k")["mass"]
        spread = {
            "mass": groups.mean(),
            "lower_quartile": groups.quantile(0.25),
            "upper_quartile": groups.quantile(0.75),
        }
        frames.append(pd.DataFrame(spread).reset_index().assign(model=model))
    return pd.concat(frames, ignore_index=True)[["model", "k", *spread]]


def build_noun_table(answers: Iterable[AnsweredRow]) -> pd.DataFrame:
    """Build the data of Figure 4: the figures of each answer by model and noun.

    The noun is the name of the start string. An unknown value or an absent estimate is an empty
    cell.
    """
    records = [
        {
            "model": row.model,
            "noun": row.check.tree.start,
            "value": answer.bounded,
            **_build_bounds_cells(answer),
            **_build_estimate_cells(answer),
        }
        for row, answer in answers
    ]
    table = pd.DataFrame(records, columns=_FIGURE4_COLUMNS)
    return table.astype({"samples": "Int64"})


def format_table2_notes(answers: Sequence[AnsweredRow]) -> list[str]:
    """Describe the columns of answers of Table II, in paragraphs of plain text."""
    notes = [_CERTAIN_NOTE]
    # Answers without an estimate have no confidence.
    sampled = [answer.sampled for _, answer in answers if answer.sampled is not None]
    confidences = {each.confidence for each in sampled}
    if confidences:
        confidence_text = " or ".join(map(format_number, sorted(confidences)))
        notes.append(
            f"Estimate, with confidence {confidence_text}: the whole model's answer is within this "
            "interval. It comes from samples of undecided texts. For a query without =?, the "
            "estimate is whether it holds, and the interval is that of the probability."
        )
    return [*notes, _BOUNDED_NOTE]


def format_witnesses(answers: Iterable[AnsweredRow], footer: str = "") -> str:
    """Format the most probable texts that decide each query as Markdown.

    The start string and the continuations are code.

    Args:
        answers: the rows of Table II.
        footer: plain text at the end.
    """
    sections = ["# The texts that decide each query", _LEGEND]
    sections += [_format_section(row, answer) for row, answer in answers]
    return "\n\n".join(sections) + "\n" + format_paragraph(footer)


def _format_section(row: TableRow, answer: Answer) -> str:
    """Format the section of one query, with its deciding texts."""
    headings = [format_text(format_cell(text)) for text in (row.label, row.interest, row.model)]
    query = format_code(format_cell(answer.query.text))
    # Answers to one query can differ in alpha, k or L alone.
    headings.append(str(row.check.tree.truncation))
    lines = [
        f"## {' · '.join(headings)}",
        "",
        f"{query}: {format_answer(row, answer)}. {format_text(summarize_witnesses(answer))}",
        *(f"\n{name}: {format_code(words)}" for name, words in answer.definitions.items()),
        *(f"\n{format_text(note)}" for note in answer.notes),
    ]
    # Without witnesses, the table would only have a header.
    if answer.witnesses:
        lines += ["", f"After: {format_code(find_start_text(answer.witnesses))}"]
        lines += ["", "| probability | continuation |", "|------------:|:-----|"]
    lines += [
        f"| {format_cell(witness.probability)} | {_format_continuation(witness)} |"
        for witness in answer.witnesses
    ]
    return "\n".join(lines)


def _format_continuation(witness: Witness) -> str:
    """Format a continuation, with an ellipsis for the unknown token of `rest`."""
    code = format_code_cell(witness.continuation)
    return f"{code} …".lstrip() if witness.rest else code


def _build_bounds_cells(answer: Answer) -> dict[str, float | bool]:
    return {"lower": answer.lower, "upper": answer.upper}


def _build_estimate_cells(answer: Answer) -> dict[str, float | bool | str | None]:
    estimates = {name: getattr(answer, name) for name in _ESTIMATE_COLUMNS}
    # The samples do not decide the query, because the interval contains the threshold.
    is_undecided = answer.samples is not None and answer.estimate is None
    return estimates | ({"estimate": UNKNOWN} if is_undecided else {})
