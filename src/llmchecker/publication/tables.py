"""The paper's tables and the numbers behind its figures, as CSV, Markdown and LaTeX."""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from llmchecker.checking.evidence import COUNTEREXAMPLE, WITNESS, decisive_mass, has_evidence
from llmchecker.checking.verdicts import Verdict
from llmchecker.config.checks import Check, TableRow
from llmchecker.files import written_whole
from llmchecker.queries.query import Query

FORMATS = {
    "encode_seconds": "{:.2f}",
    "check_seconds": "{:.3f}",
    "mean_seconds_of_solved": "{:.2f}",
}
"""How people read a column of numbers; four significant digits otherwise, and all in the CSV."""
COLUMNS_OF_TABLE2 = """
    label interest model alpha k L query states transitions states_explored transitions_explored
    encode_seconds check_seconds value lower upper
""".split()
KINDS_OF_TEXT = {
    WITNESS: "Texts that satisfy it",
    COUNTEREXAMPLE: "Texts that violate it",
}
LEGEND = """\
What the model wrote stands as code behind the start string. An ellipsis is a token that was not
selected: what it does to a quantifier is unknown, and every atom over one counts as false there."""
MARKUP = frozenset("\\`*_{}[]<>#|$~&!")


def table1(start_strings: Mapping[str, str]) -> pd.DataFrame:
    """Table I: the start strings."""
    return pd.DataFrame(start_strings.items(), columns=["name", "start_string"])


def table2(
    rows: Iterable[TableRow], verdicts: Iterable[Verdict], labels: Mapping[str, str]
) -> pd.DataFrame:
    """Table II: one row for every experiment, model and query, in the order given.

    Args:
        rows: the rows asked for.
        verdicts: the verdict of each row.
        labels: what to call each model.
    """
    records = [
        {
            "label": row.label,
            "interest": row.interest,
            "model": labels[row.check.tree.model],
            "alpha": row.check.tree.truncation.alpha,
            "k": row.check.tree.truncation.k,
            "L": row.check.tree.truncation.length,
            "query": verdict.query,
            "states": verdict.states,
            "transitions": verdict.transitions,
            "states_explored": verdict.states_explored,
            "transitions_explored": verdict.transitions_explored,
            "encode_seconds": verdict.encode_seconds,
            "check_seconds": verdict.check_seconds,
            "value": verdict.value,
            **_bounds(verdict),
        }
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    return pd.DataFrame(records, columns=COLUMNS_OF_TABLE2)


def figure3(masses: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean mass within the k most probable tokens, by model and k.

    Args:
        masses: for every model's label, the columns prompt, k and mass.
    """
    means = [
        frame.groupby("k", as_index=False)["mass"].mean().assign(model=model)
        for model, frame in masses.items()
    ]
    return pd.concat(means, ignore_index=True)[["model", "k", "mass"]]


def figure4(
    checks: Iterable[Check], verdicts: Iterable[Verdict], labels: Mapping[str, str]
) -> pd.DataFrame:
    """The value of one query and its bounds, by model and noun: the start string's name."""
    records = [
        {
            "model": labels[check.tree.model],
            "noun": check.tree.start,
            "value": verdict.value,
            **_bounds(verdict),
        }
        for check, verdict in zip(checks, verdicts, strict=True)
    ]
    return pd.DataFrame(records)


def witnesses_markdown(
    rows: Iterable[TableRow],
    verdicts: Iterable[Verdict],
    labels: Mapping[str, str],
    footer: str = "",
) -> str:
    """The most probable texts that decide the query, for each row of Table II, as Markdown.

    What the model wrote stands as code behind the start string, which is plain.

    Args:
        rows: the rows of the table.
        verdicts: the verdict of each row.
        labels: what to call each model.
        footer: plain text to stand below all.
    """
    sections = [
        _section(row, verdict, labels[row.check.tree.model])
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    return (
        "\n\n".join(["# The texts that decide each query", LEGEND, *sections])
        + "\n"
        + _note(footer)
    )


def _section(row: TableRow, verdict: Verdict, label: str) -> str:
    headings = [_shown(_cell("", text)) for text in (row.label, row.interest, label)]
    query = _code(_cell("query", verdict.query))
    lines = [
        f"## {' · '.join(headings)}",
        "",
        f"{query} is {_cell('value', verdict.value)} for {row.check.tree.truncation}. "
        + evidence_summary(row.check.query, verdict),
    ]
    if verdict.witnesses:
        lines += ["", "| probability | text |", "|------------:|:-----|"]
    lines += [
        f"| {_cell('', witness['probability'])} | {_text_cell(witness)} |"
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
    together = _cell("", math.fsum(w["probability"] for w in verdict.witnesses))
    compared = _cell("", decisive_mass(query, kind, verdict.value))
    share = f"of {compared}" if query.numeric else f"against a bound of {compared}"
    return f"{KINDS_OF_TEXT[kind]}, together {together} {share}:"


def _text_cell(witness: Mapping[str, Any]) -> str:
    """Start string and continuation; an ellipsis for the unknown token that leads to `rest`."""
    start, generated = witness["text"][: witness["kept"]], witness["text"][witness["kept"] :]
    code = f"<code>{_visible(generated)}</code>" if generated else ""
    return _visible(start) + code + (" …" if witness["rest"] else "")


def _bounds(verdict: Verdict) -> dict[str, float | bool]:
    """The bounds of a verdict; an expected score that is not bounded on a side reaches infinity."""
    return {
        "lower": -math.inf if verdict.lower is None else verdict.lower,
        "upper": math.inf if verdict.upper is None else verdict.upper,
    }


def write(
    table: pd.DataFrame,
    paths: Iterable[str | Path],
    footer: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Write a table to several files, each in the format of its suffix: csv, md or tex.

    Args:
        footer: plain text to stand below the table; a CSV file has none, since programs that read
            the format would take it for a row.
        notes: plain text to stand between table and footer, a paragraph each.
    """
    for path in map(Path, paths):
        match path.suffix:
            case ".csv":
                write_csv(table, path)
            case ".md":
                write_markdown(table, path, footer, notes)
            case ".tex":
                write_latex(table, path, footer, notes)
            case suffix:
                raise ValueError(f"{path} has the suffix {suffix!r}; it must be .csv, .md or .tex")


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table with all digits, so that numbers read back as they were."""
    # a cell is quoted for the character that ends lines, but not for the other one that may
    returns = table.map(lambda cell: "\r" in str(cell)).any(axis=None)
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    with written_whole(path) as partial:
        table.to_csv(partial, index=False, lineterminator="\n", quoting=quoting)


def write_markdown(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a table for reading, with notes and a footer as paragraphs below it."""
    aligned = ["right" if _has_numbers(table[column]) else "left" for column in table]
    cells = _readable(table).map(_markdown_cell)
    text = cells.to_markdown(index=False, disable_numparse=True, colalign=aligned)
    with written_whole(path) as partial:
        below = "".join(map(_note, (*notes, footer)))
        partial.write_text(text + "\n" + below, encoding="utf-8")


def write_latex(
    table: pd.DataFrame, path: str | Path, footer: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a tabular environment for `booktabs`, with notes and a footer as comments below it."""
    readable = _readable(table)
    readable.columns = [column.replace("_", " ") for column in readable.columns]
    style = readable.style.hide(axis="index").format(escape="latex")
    aligned = "".join("r" if _has_numbers(table[column]) else "l" for column in table)
    with written_whole(path) as partial:
        text = style.to_latex(hrules=True, column_format=aligned)
        # LaTeX's default font encoding has other characters in these places
        text = re.sub("[<>|]", r"$\g<0>$", text)
        comments = [f"% {_on_one_line(note)}\n" for note in (*notes, footer) if note]
        partial.write_text(text + "".join(comments), encoding="utf-8")


def _note(footer: str) -> str:
    """The footer as a paragraph of Markdown."""
    return f"\n{_visible(_on_one_line(footer))}\n" if footer else ""


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.infer_dtype(column) == "decimal"


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """All cells as the text that a reader wants, each on one line."""
    return table.apply(lambda column: column.map(lambda cell: _cell(column.name, cell)))


def _cell(column: str, cell: object) -> str:
    if pd.isna(cell):
        return ""
    match cell:
        case bool():
            return str(cell).lower()
        case float():
            return FORMATS.get(column, "{:.4g}").format(cell)
        case _:
            text = str(cell)
            return _on_one_line(text) if text.strip() else repr(text)


def _markdown_cell(text: str) -> str:
    """The text as one table cell in which markup is shown as code, not obeyed."""
    return _shown(text).replace("|", "\\|")


def _shown(text: str) -> str:
    """The text, as code where it has markup."""
    return _code(text) if MARKUP.intersection(text) else text


def _code(text: str) -> str:
    """The text as Markdown's code."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _visible(text: str) -> str:
    """The text as a part of a table cell, where the next part may follow without a space.

    Entities, since a backslash or a fence of backticks would take in what follows. Characters that
    print nothing, line breaks among them, are shown as Python writes them.
    """
    printed = (c if c.isprintable() else repr(c)[1:-1] for c in text)
    return "".join(f"&#{ord(c)};" if c in MARKUP else c for c in "".join(printed))
