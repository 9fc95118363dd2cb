"""The paper's tables and the numbers behind its figures, as CSV, Markdown and LaTeX."""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from llmchecker.config import Check, Row
from llmchecker.files import written_whole
from llmchecker.storm import Verdict

FORMATS = {"encode_seconds": "{:.2f}", "check_seconds": "{:.3f}"}
"""How people read a column of numbers; four significant digits otherwise, and all in the CSV."""
COLUMNS_OF_TABLE2 = """
    label interest model alpha k L query states transitions states_explored transitions_explored
    encode_seconds check_seconds value lower upper
""".split()
MARKUP = frozenset("\\`*_{}[]<>#|$~&!")


def table1(start_strings: Mapping[str, str]) -> pd.DataFrame:
    """Table I: the start strings."""
    return pd.DataFrame(start_strings.items(), columns=["name", "start_string"])


def table2(
    rows: Iterable[Row], verdicts: Iterable[Verdict], labels: Mapping[str, str]
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
            "alpha": row.check.tree.bounds.alpha,
            "k": row.check.tree.bounds.k,
            "L": row.check.tree.bounds.length,
            "query": verdict.query,
            "states": verdict.states,
            "transitions": verdict.transitions,
            "states_explored": verdict.states_explored,
            "transitions_explored": verdict.transitions_explored,
            "encode_seconds": verdict.encode_seconds,
            "check_seconds": verdict.check_seconds,
            "value": verdict.value,
            "lower": verdict.lower,
            "upper": verdict.upper,
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
            "lower": verdict.lower,
            "upper": verdict.upper,
        }
        for check, verdict in zip(checks, verdicts, strict=True)
    ]
    return pd.DataFrame(records)


def write(table: pd.DataFrame, paths: Iterable[str | Path]) -> None:
    """Write a table to several files, each in the format of its suffix: csv, md or tex."""
    writers = {".csv": write_csv, ".md": write_markdown, ".tex": write_latex}
    for path in map(Path, paths):
        writers[path.suffix](table, path)


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table with all digits, so that numbers read back as they were."""
    # a cell is quoted for the character that ends lines, but not for the other one that may
    returns = table.map(lambda cell: "\r" in str(cell)).any(axis=None)
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    with written_whole(path) as partial:
        table.to_csv(partial, index=False, lineterminator="\n", quoting=quoting)


def write_markdown(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table for reading."""
    aligned = ["right" if pd.api.types.is_numeric_dtype(table[c]) else "left" for c in table]
    cells = _readable(table).map(_markdown_cell)
    text = cells.to_markdown(index=False, disable_numparse=True, colalign=aligned)
    with written_whole(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def write_latex(table: pd.DataFrame, path: str | Path) -> None:
    """Write a tabular environment for `booktabs`."""
    readable = _readable(table)
    readable.columns = [column.replace("_", " ") for column in readable.columns]
    style = readable.style.hide(axis="index").format(escape="latex")
    aligned = "".join("r" if pd.api.types.is_numeric_dtype(table[c]) else "l" for c in table)
    with written_whole(path) as partial:
        text = style.to_latex(hrules=True, column_format=aligned)
        # LaTeX's default font encoding has other characters in these places
        text = re.sub("[<>|]", r"$\g<0>$", text)
        partial.write_text(text, encoding="utf-8")


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """All cells as the text that a reader wants, each on one line."""
    return table.apply(lambda column: column.map(lambda cell: _cell(column.name, cell)))


def _cell(column: str, cell: object) -> str:
    match cell:
        case bool():
            return str(cell).lower()
        case float():
            return FORMATS.get(column, "{:.4g}").format(cell)
        case _:
            text = str(cell)
            return " ".join(text.splitlines()) if text.strip() else repr(text)


def _markdown_cell(text: str) -> str:
    """The text as one table cell in which markup is shown as code, not obeyed."""
    if not MARKUP.intersection(text):
        return text
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")
