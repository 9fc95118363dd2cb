"""The tables of the experiments on programs, and the data of their figures.

A program is solved if it is verified. Every table counts every program: false and untreated
programs have columns of their own, and the notes list them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from llmchecker.errors import InvalidTable
from llmchecker.utils.number_format import format_count
from loop_invariants.experiments.attempts import THIS_METHOD, Attempt
from loop_invariants.experiments.provable_records import QUERIES, ProvableProbability
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.result import Limit, Outcome

_COLUMNS_OF_VARIANTS = """
    model semantics variant programs solved unique mean_seconds_of_solved mean_iterations_of_solved
    parse_errors false limits not_treated
""".split()
_COLUMNS_OF_SOURCES = """
    model semantics sources programs solved unique beyond_program missed_of_program
    mean_seconds_of_solved false timeouts limits not_treated
""".split()
_COLUMNS_OF_TOOLS = """
    tool semantics programs solved false timeouts unsupported unreadable other limits
    mean_seconds_of_solved published_programs published_solved
""".split()
_COLUMNS_OF_SECONDS = """
    program semantics tool tool_outcome tool_seconds outcome seconds
""".split()
_COLUMNS_OF_PUBLISHED_FIGURES = ["tool", "programs", "solved"]

_PROVABLE_COLUMNS = ("lower", "upper", "value", "text")

PROGRAM_SOURCES = "program"
"""The combination to compare models with: all sources of the program itself."""
UNTREATED_OUTCOMES = (Outcome.UNSUPPORTED, Outcome.UNREADABLE, Outcome.NO_ASSERTION)
TIMEOUT_OUTCOMES = (Outcome.PROVER_TIMEOUT, Outcome.ESBMC_TIMEOUT)


AttemptsByModel = Mapping[str, Sequence[Attempt]]
"""Attempts by the label of the proposing model."""


def build_variants_table(attempts: AttemptsByModel) -> pd.DataFrame:
    """Build the paper's Table 1, by model, semantics and prompt variant.

    `unique` counts programs that no other variant of the same model and semantics solves.
    `parse_errors` counts the parse errors of all programs, solved or not.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    records = [
        {
            "model": model,
            "semantics": semantics,
            "variant": strategy,
            **_count_outcomes(group),
            "unique": len(_select_unique(semantics_group, strategy)),
            "mean_iterations_of_solved": group.loc[group["solved"], "iterations"].mean(),
            "parse_errors": group["parse_errors"].sum(),
        }
        for model, semantics, semantics_group, strategy, group in _iter_groups(attempts)
    ]
    table = pd.DataFrame(records, columns=_COLUMNS_OF_VARIANTS)
    return table.astype({"parse_errors": "Int64"})


def build_sources_table(attempts: AttemptsByModel) -> pd.DataFrame:
    """Build the table of sources, by model, semantics and combination.

    `unique` counts programs that no other combination of the same model and semantics solves.
    `beyond_program` counts solved programs that `program` does not solve, and `missed_of_program`
    unsolved programs that `program` solves.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    records = [
        {
            "model": model,
            "semantics": semantics,
            "sources": strategy,
            **_count_outcomes(group),
            "unique": len(_select_unique(semantics_group, strategy)),
            "beyond_program": len(
                _select_solved(group) - select_solved_by(semantics_group, [PROGRAM_SOURCES])
            ),
            "missed_of_program": len(
                select_solved_by(semantics_group, [PROGRAM_SOURCES]) - _select_solved(group)
            ),
        }
        for model, semantics, semantics_group, strategy, group in _iter_groups(attempts)
    ]
    return pd.DataFrame(records, columns=_COLUMNS_OF_SOURCES)


def build_tools_table(attempts: Sequence[Attempt], published_figures: pd.DataFrame) -> pd.DataFrame:
    """Build the paper's Table 3, by tool and semantics, with published figures.

    Published figures have columns of their own, and no semantics.

    Args:
        attempts: the attempts of all tools.
        published_figures: the result of `read_published`.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    records = [
        {
            "tool": strategy,
            "semantics": semantics,
            **_count_outcomes(group),
            "unsupported": (group["outcome"] == Outcome.UNSUPPORTED).sum(),
            "unreadable": (group["outcome"] == Outcome.UNREADABLE).sum(),
        }
        for (semantics, strategy), group in build_frame(attempts).groupby(
            ["semantics", "way"], sort=False
        )
    ]
    measured_figures = pd.DataFrame(records, columns=_COLUMNS_OF_TOOLS)
    # `other` completes the outcomes to the number of programs.
    outcome_columns = ["solved", "false", "timeouts", "unsupported", "unreadable"]
    measured_figures["other"] = measured_figures["programs"] - measured_figures[
        outcome_columns
    ].sum(axis=1)
    # Published figures have no semantics, so they have rows and columns of their own.
    published_rows = published_figures.rename(
        columns=lambda c: c if c == "tool" else f"published_{c}"
    )
    table = pd.concat(
        [measured_figures.astype(object), published_rows.astype(object)], ignore_index=True
    )
    integer_columns = [
        column
        for column in _COLUMNS_OF_TOOLS[2:]
        if column not in ("mean_seconds_of_solved", "limits")
    ]
    dtypes: dict[str, Any] = dict.fromkeys(integer_columns, "Int64")
    dtypes["mean_seconds_of_solved"] = float
    return table[_COLUMNS_OF_TOOLS].astype(dtypes)


def build_used_invariants_table(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Build the paper's Table 2: outcomes, and the invariants of the proofs.

    Each loop with invariants has a row, and a program without invariants one row without a line.
    Each semantics has columns of its own. Semicolons separate several invariants of a loop, and the
    sources of each.

    Args:
        attempts: attempts by the same way.

    Raises:
        InvalidTable: a program has two attempts with the same semantics.
    """
    attempts_by_program: dict[str, dict[Semantics, Attempt]] = {}
    for attempt in attempts:
        attempts_by_semantics = attempts_by_program.setdefault(attempt.program, {})
        if attempt.semantics in attempts_by_semantics:
            raise InvalidTable(_format_duplicate(attempt.program, attempt.semantics))
        attempts_by_semantics[attempt.semantics] = attempt
    semantics = list(dict.fromkeys(attempt.semantics for attempt in attempts))
    fields = ("outcome", "limits", "invariants", "sources")
    columns = ["program", "line", *(f"{field}_{s}" for s in semantics for field in fields)]
    records = []
    for program, program_attempts in attempts_by_program.items():
        lines = sorted(
            {i.line for attempt in program_attempts.values() for i in attempt.invariants}
        )
        # A program without invariants keeps its outcome in a row without a line.
        for line in (*lines,) or (None,):
            cells = [_build_invariant_cells(program_attempts.get(s), line) for s in semantics]
            records.append([program, line, *(cell for loop_cells in cells for cell in loop_cells)])
    return pd.DataFrame(records, columns=columns).astype({"line": "Int64"})


def build_solved_sets_table(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Build the sets of programs that the same ways solve, for a set diagram.

    Returns:
        For each semantics, the sets of programs that exactly the same ways solve. The largest set
        is first, the set of unsolved programs last. The columns are semantics, one boolean for each
        way, `programs` (number of programs), and `names`.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    frame = build_frame(attempts)
    strategies = list(frame["way"].unique())
    records = []
    for semantics, group in frame.groupby("semantics", sort=False):
        solved = {strategy: select_solved_by(group, [strategy]) for strategy in strategies}
        program_sets: dict[tuple[bool, ...], list[str]] = {}
        for program in group["program"].unique():
            solvers = tuple(program in solved[strategy] for strategy in strategies)
            program_sets.setdefault(solvers, []).append(program)
        # Unsolved programs are last, in any number.
        sorted_solvers = sorted(
            program_sets,
            key=lambda by: (not any(by), -len(program_sets[by])),
        )
        records += [
            [
                semantics,
                *solvers,
                len(program_sets[solvers]),
                " ".join(program_sets[solvers]),
            ]
            for solvers in sorted_solvers
        ]
    return pd.DataFrame(records, columns=["semantics", *strategies, "programs", "names"])


def build_seconds_table(attempts: Sequence[Attempt], method: str = THIS_METHOD) -> pd.DataFrame:
    """Build the table of outcomes and seconds of a method and of each other tool.

    Args:
        attempts: the attempts of the method and the tools.
        method: the name of the method.

    Returns:
        The columns program, semantics, tool, tool_outcome, tool_seconds, and the method's outcome
        and seconds, for programs with attempts of both.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    frame = build_frame(attempts)[["program", "semantics", "way", "outcome", "seconds"]]
    method_rows = frame[frame["way"] == method].drop(columns="way")
    tool_rows = frame[frame["way"] != method].rename(
        columns={"way": "tool", "outcome": "tool_outcome", "seconds": "tool_seconds"}
    )
    return tool_rows.merge(method_rows, on=["program", "semantics"])[_COLUMNS_OF_SECONDS]


def build_provable_table(by_model: Mapping[str, Sequence[ProvableProbability]]) -> pd.DataFrame:
    """Build the table of provable invariants, by loop, semantics and model."""
    columns = ["program", "line", "semantics", "model"]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for model, records in by_model.items():
        for record in records:
            key = (record.program, record.line, record.semantics, model)
            key_cells: dict[str, Any] = dict(zip(columns, key, strict=True))
            # Both queries of a loop are in one row.
            row = rows.setdefault(key, key_cells)
            row |= {
                f"{record.wanted}_{name}": figure
                for name, figure in _select_figures(record).items()
            }
    columns += [f"{query}_{figure}" for query in QUERIES for figure in _PROVABLE_COLUMNS]
    sorted_rows = sorted(rows.items(), key=lambda item: item[0])
    return pd.DataFrame([row for _, row in sorted_rows], columns=columns)


def read_published(path: str | Path) -> pd.DataFrame:
    """Read published figures of tools: the columns tool, programs and solved.

    Raises:
        InvalidTable: a column is missing, or a number of solved programs is impossible.
    """
    try:
        table = pd.read_csv(path, dtype={"tool": str, "programs": int, "solved": int})
    except ValueError as error:
        raise InvalidTable(f"{path}: {error}") from error
    if list(table) != _COLUMNS_OF_PUBLISHED_FIGURES:
        expected = ", ".join(_COLUMNS_OF_PUBLISHED_FIGURES)
        raise InvalidTable(
            f"{path}: the columns are {', '.join(table.columns)}; expected {expected}"
        )
    rows = zip(table["tool"], table["solved"], table["programs"], strict=True)
    for tool, solved, programs in rows:
        if not 0 <= solved <= programs:
            raise InvalidTable(
                f"{path}: {tool} solves {solved} of {format_count(programs, 'program')}"
            )
    return table


def _select_figures(record: ProvableProbability) -> dict[str, float | str | None]:
    return {name: getattr(record, name) for name in _PROVABLE_COLUMNS} | {
        "text": record.text or None
    }


def build_frame(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Build a frame of attempts; `bare` marks those solved without invariants."""
    columns = "program semantics way outcome solved seconds iterations parse_errors limits".split()
    rows = [[getattr(attempt, column) for column in columns] for attempt in attempts]
    frame = pd.DataFrame(rows, columns=columns)
    frame["bare"] = [attempt.solved and not attempt.invariants for attempt in attempts]
    duplicates = frame[frame.duplicated(["program", "semantics", "way"])]
    # Two attempts would count a program twice.
    if len(duplicates):
        raise InvalidTable(_format_duplicate(*duplicates.iloc[0][["program", "semantics", "way"]]))
    # A plain integer column has no empty cells.
    integer_dtypes = {"iterations": "Int64", "parse_errors": "Int64"}
    return frame.astype({"solved": bool, "bare": bool, **integer_dtypes})


def _iter_groups(
    attempts: AttemptsByModel,
) -> Iterator[tuple[str, Any, pd.DataFrame, Any, pd.DataFrame]]:
    """Yield model, semantics with its attempts, and way with its attempts."""
    for model, model_attempts in attempts.items():
        for semantics, semantics_group in build_frame(model_attempts).groupby(
            "semantics", sort=False
        ):
            for strategy, group in semantics_group.groupby("way", sort=False):
                yield model, semantics, semantics_group, strategy, group


def _format_duplicate(program: str, semantics: str, strategy: str = "") -> str:
    strategy_text = f" by {strategy}" if strategy else ""
    return f"{program}: two attempts over {semantics}{strategy_text}; remove one of them"


def _count_outcomes(group: pd.DataFrame) -> dict[str, float]:
    """Count the outcomes of the attempts by one way, for all tables."""
    return {
        "programs": len(group),
        "solved": group["solved"].sum(),
        "mean_seconds_of_solved": group.loc[group["solved"], "seconds"].mean(),
        "false": (group["outcome"] == Outcome.FALSE).sum(),
        "timeouts": group["outcome"].isin(TIMEOUT_OUTCOMES).sum(),
        "limits": _format_limits(group) or None,
        "not_treated": group["outcome"].isin(UNTREATED_OUTCOMES).sum(),
    }


def _format_limits(group: pd.DataFrame) -> str:
    """Format the limits that ended attempts without an answer, with counts."""
    counts = Counter(limit for attempt_limits in group["limits"] for limit in attempt_limits)
    return ", ".join(f"{limit}: {counts[limit]}" for limit in Limit if counts[limit])


def _select_solved(group: pd.DataFrame) -> set[str]:
    return set(group.loc[group["solved"], "program"])


def select_solved_by(group: pd.DataFrame, strategies: Iterable[str]) -> set[str]:
    """Return the programs that any of the ways solves."""
    return _select_solved(group[group["way"].isin(strategies)])


def _select_unique(group: pd.DataFrame, strategy: str) -> set[str]:
    """Return the programs that a way solves and no other way does."""
    return select_solved_by(group, [strategy]) - _select_solved(group[group["way"] != strategy])


def _build_invariant_cells(attempt: Attempt | None, line: int | None) -> tuple[str | None, ...]:
    """Build the cells of a loop: outcome, limits, invariants and their sources."""
    # The program was not tried with this semantics.
    if attempt is None:
        return None, None, None, None
    loop_invariants = [invariant for invariant in attempt.invariants if invariant.line == line]
    return (
        str(attempt.outcome),
        ", ".join(attempt.limits) or None,
        "; ".join(invariant.text for invariant in loop_invariants) or None,
        "; ".join(", ".join(invariant.sources) for invariant in loop_invariants) or None,
    )
