"""The tables of the experiments on programs, and the numbers behind their figures.

A program is solved if it is verified. Every table counts every program: what is false or was not
treated stands in columns of its own, and the notes name it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from llmchecker.errors import InvalidTable
from llmchecker.invariants.attempts import THIS_METHOD, Attempt
from llmchecker.invariants.provability_records import QUERIES, Provability
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.outcomes import Limit, Outcome

COLUMNS_OF_VARIANTS = """
    model semantics variant programs solved unique mean_seconds_of_solved mean_iterations_of_solved
    parse_errors false limits not_treated
""".split()
COLUMNS_OF_SOURCES = """
    model semantics sources programs solved unique beyond_program missed_of_program
    mean_seconds_of_solved false timeouts limits not_treated
""".split()
COLUMNS_OF_TOOLS = """
    tool semantics programs solved false timeouts unsupported unreadable other limits
    mean_seconds_of_solved published_programs published_solved
""".split()
COLUMNS_OF_SECONDS = """
    program semantics tool tool_outcome tool_seconds outcome seconds
""".split()
COLUMNS_OF_PUBLISHED = ["tool", "programs", "solved"]

_PROVABLE_FIGURES = ("value", "lower", "upper", "text")

PROGRAM = "program"
"""The combination that a model is compared with: all sources but those that propose."""
NOT_TREATED = (Outcome.UNSUPPORTED, Outcome.UNREADABLE)
TIMEOUTS = (Outcome.PROVER_TIMEOUT, Outcome.ESBMC_TIMEOUT)


ByModel = Mapping[str, Sequence[Attempt]]
"""Attempts by the label of the model that proposed."""


def variants(attempts: ByModel) -> pd.DataFrame:
    """The paper's Table 1: one row for every model, semantics and variant of the prompt.

    `unique` counts programs that no other variant of that model and semantics solves;
    `parse_errors` are those in all programs, solved or not.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    records = [
        {
            "model": model,
            "semantics": semantics,
            "variant": way,
            **_counts(group),
            "unique": len(_unique(of_semantics, way)),
            "mean_iterations_of_solved": group.loc[group["solved"], "iterations"].mean(),
            "parse_errors": group["parse_errors"].sum(),
        }
        for model, made in attempts.items()
        for semantics, of_semantics in frame_of(made).groupby("semantics", sort=False)
        for way, group in of_semantics.groupby("way", sort=False)
    ]
    table = pd.DataFrame(records, columns=COLUMNS_OF_VARIANTS)
    return table.astype({"parse_errors": "Int64"})


def sources(attempts: ByModel) -> pd.DataFrame:
    """One row for every model, semantics and combination of sources.

    `unique` counts programs that no other combination of that model and semantics solves,
    `beyond_program` those that `program` does not solve, and `missed_of_program` those that only
    `program` of the two does.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    records = [
        {
            "model": model,
            "semantics": semantics,
            "sources": way,
            **_counts(group),
            "unique": len(_unique(of_semantics, way)),
            "beyond_program": len(_solved(group) - solved_by(of_semantics, [PROGRAM])),
            "missed_of_program": len(solved_by(of_semantics, [PROGRAM]) - _solved(group)),
        }
        for model, made in attempts.items()
        for semantics, of_semantics in frame_of(made).groupby("semantics", sort=False)
        for way, group in of_semantics.groupby("way", sort=False)
    ]
    return pd.DataFrame(records, columns=COLUMNS_OF_SOURCES)


def tools(attempts: Sequence[Attempt], published: pd.DataFrame) -> pd.DataFrame:
    """The paper's Table 3: one row for every tool and semantics, then the published figures.

    Published figures have columns of their own, and no semantics.

    Args:
        published: what `read_published` reads.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    records = [
        {
            "tool": way,
            "semantics": semantics,
            **_counts(group),
            "unsupported": (group["outcome"] == Outcome.UNSUPPORTED).sum(),
            "unreadable": (group["outcome"] == Outcome.UNREADABLE).sum(),
        }
        for (semantics, way), group in frame_of(attempts).groupby(["semantics", "way"], sort=False)
    ]
    measured = pd.DataFrame(records, columns=COLUMNS_OF_TOOLS)
    apart = ["solved", "false", "timeouts", "unsupported", "unreadable"]
    measured["other"] = measured["programs"] - measured[apart].sum(axis=1)
    prefixed = published.rename(columns=lambda c: c if c == "tool" else f"published_{c}")
    table = pd.concat([measured.astype(object), prefixed.astype(object)], ignore_index=True)
    whole = [c for c in COLUMNS_OF_TOOLS[2:] if c not in ("mean_seconds_of_solved", "limits")]
    kinds = {**dict.fromkeys(whole, "Int64"), "mean_seconds_of_solved": float}
    return table[COLUMNS_OF_TOOLS].astype(kinds)


def used(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """The paper's Table 2: what became of every program, and the invariants its proof needs.

    One row for every program and loop with invariants, or one without a line if it has none.
    Semantics stand side by side. Several invariants of a loop are separated by semicolons, and so
    are the sources of each.

    Args:
        attempts: by one way.

    Raises:
        InvalidTable: a program has two attempts with the same semantics.
    """
    found: dict[str, dict[Semantics, Attempt]] = {}
    for attempt in attempts:
        by_semantics = found.setdefault(attempt.program, {})
        if attempt.semantics in by_semantics:
            raise InvalidTable(_twice(attempt.program, attempt.semantics))
        by_semantics[attempt.semantics] = attempt
    semantics = list(dict.fromkeys(attempt.semantics for attempt in attempts))
    parts = ("outcome", "limits", "invariants", "sources")
    columns = ["program", "line", *(f"{part}_{s}" for s in semantics for part in parts)]
    records = []
    for program, made in found.items():
        lines = sorted({i.line for attempt in made.values() for i in attempt.invariants})
        for line in lines or [None]:
            cells = [_used(made.get(s), line) for s in semantics]
            records.append([program, line, *(cell for four in cells for cell in four)])
    return pd.DataFrame(records, columns=columns).astype({"line": "Int64"})


def solved_sets_table(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Which ways solve the same programs: the numbers behind a set diagram.

    Returns:
        For every semantics, the sets of programs that exactly the same ways solve, the largest
        first and those that none solves last: columns semantics, one truth value for every way,
        `programs` (how many), `names`.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    frame = frame_of(attempts)
    ways = list(frame["way"].unique())
    records = []
    for semantics, group in frame.groupby("semantics", sort=False):
        solved = {way: solved_by(group, [way]) for way in ways}
        together: dict[tuple[bool, ...], list[str]] = {}
        for program in group["program"].unique():
            by = tuple(program in solved[way] for way in ways)
            together.setdefault(by, []).append(program)
        ordered = sorted(together, key=lambda by: (not any(by), -len(together[by])))
        records += [[semantics, *by, len(together[by]), " ".join(together[by])] for by in ordered]
    return pd.DataFrame(records, columns=["semantics", *ways, "programs", "names"])


def seconds_table(attempts: Sequence[Attempt], method: str = THIS_METHOD) -> pd.DataFrame:
    """Outcome and seconds of every other tool beside those of one method, for every program.

    Args:
        attempts: of the method and the tools.
        method: the way that the others are compared with.

    Returns:
        Columns program, semantics, tool, tool_outcome, tool_seconds, and the method's outcome and
        seconds; a program that only one of the two was tried on is left out.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    frame = frame_of(attempts)[["program", "semantics", "way", "outcome", "seconds"]]
    ours = frame[frame["way"] == method].drop(columns="way")
    theirs = frame[frame["way"] != method].rename(
        columns={"way": "tool", "outcome": "tool_outcome", "seconds": "tool_seconds"}
    )
    return theirs.merge(ours, on=["program", "semantics"])[COLUMNS_OF_SECONDS]


def provable(by_model: Mapping[str, Sequence[Provability]]) -> pd.DataFrame:
    """One row for every program, loop, model and semantics, with the figures of both queries."""
    rows: dict[tuple, dict] = {}
    for model, made in by_model.items():
        for one in made:
            key = (one.program, one.line, one.semantics, model)
            known = dict(zip(("program", "line", "semantics", "model"), key, strict=True))
            row = rows.setdefault(key, known)
            row |= {f"{one.wanted}_{name}": figure for name, figure in _figures_of(one).items()}
    columns = ["program", "line", "semantics", "model"]
    columns += [f"{wanted}_{figure}" for wanted in QUERIES for figure in _PROVABLE_FIGURES]
    ordered = sorted(rows.items(), key=lambda item: item[0])
    return pd.DataFrame([row for _, row in ordered], columns=columns)


def read_published(path: str | Path) -> pd.DataFrame:
    """Published figures of tools: columns tool, programs, and how many of them it solved.

    Raises:
        InvalidTable: a column is missing, or a tool solves a number that cannot be.
    """
    try:
        table = pd.read_csv(path, dtype={"tool": str, "programs": int, "solved": int})
    except ValueError as error:
        raise InvalidTable(f"{path}: {error}") from error
    if list(table) != COLUMNS_OF_PUBLISHED:
        expected = ", ".join(COLUMNS_OF_PUBLISHED)
        raise InvalidTable(f"{path} has the columns {', '.join(table)}; expected {expected}")
    for row in table.itertuples():
        if not 0 <= row.solved <= row.programs:
            raise InvalidTable(f"{path}: {row.tool} solves {row.solved} of {row.programs} programs")
    return table


def _figures_of(one: Provability) -> dict[str, float | str | None]:
    return {name: getattr(one, name) for name in _PROVABLE_FIGURES} | {"text": one.text or None}


def frame_of(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Attempts as rows; `bare` ones are solved without any invariant."""
    columns = "program semantics way outcome solved seconds iterations parse_errors limits".split()
    rows = [[getattr(attempt, column) for column in columns] for attempt in attempts]
    frame = pd.DataFrame(rows, columns=columns)
    frame["bare"] = [attempt.solved and not attempt.invariants for attempt in attempts]
    twice = frame[frame.duplicated(["program", "semantics", "way"])]
    if len(twice):
        raise InvalidTable(_twice(*twice.iloc[0][["program", "semantics", "way"]]))
    counts = {"iterations": "Int64", "parse_errors": "Int64"}
    return frame.astype({"solved": bool, "bare": bool, **counts})


def _twice(program: str, semantics: str, way: str = "") -> str:
    by = f" by {way}" if way else ""
    return f"{program} has two attempts over {semantics}{by}; a table counts each program once"


def _counts(group: pd.DataFrame) -> dict[str, float]:
    """What every table says of the attempts by one way."""
    return {
        "programs": len(group),
        "solved": group["solved"].sum(),
        "mean_seconds_of_solved": group.loc[group["solved"], "seconds"].mean(),
        "false": (group["outcome"] == Outcome.FALSE).sum(),
        "timeouts": group["outcome"].isin(TIMEOUTS).sum(),
        "limits": _limits(group) or None,
        "not_treated": group["outcome"].isin(NOT_TREATED).sum(),
    }


def _limits(group: pd.DataFrame) -> str:
    """Which limits ended attempts without an answer, and how many of them each."""
    counted = Counter(limit for of_attempt in group["limits"] for limit in of_attempt)
    return ", ".join(f"{limit}: {counted[limit]}" for limit in Limit if counted[limit])


def _solved(group: pd.DataFrame) -> set[str]:
    return set(group.loc[group["solved"], "program"])


def solved_by(group: pd.DataFrame, ways: Iterable[str]) -> set[str]:
    """The programs that any of the ways solves."""
    return _solved(group[group["way"].isin(ways)])


def _unique(group: pd.DataFrame, way: str) -> set[str]:
    """The programs that a way solves and no other does."""
    return solved_by(group, [way]) - _solved(group[group["way"] != way])


def _used(attempt: Attempt | None, line: int | None) -> tuple[str | None, ...]:
    """Outcome, limits, invariants and their sources, of the loop in a line."""
    if attempt is None:
        return None, None, None, None
    here = [invariant for invariant in attempt.invariants if invariant.line == line]
    return (
        str(attempt.outcome),
        ", ".join(attempt.limits) or None,
        "; ".join(invariant.text for invariant in here) or None,
        "; ".join(", ".join(invariant.sources) for invariant in here) or None,
    )
