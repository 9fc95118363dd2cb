"""The tables of the experiments on programs, and the data of their figures.

A program is solved if it is verified. Every table counts every program: false and untreated
programs have columns of their own, and the notes list them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from llmchecker.errors import InvalidTable
from llmchecker.utils.number_format import format_count
from loop_invariants.experiments.attempts import THIS_METHOD, Attempt
from loop_invariants.experiments.provable_records import QUERIES, ProvableProbability
from loop_invariants.limits import Limit
from loop_invariants.verification.result import Outcome

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

_PROVABLE_COLUMNS = ["lower", "upper", "value", "text"]

PROGRAM_SOURCES = "program"
"""The combination to compare models with: all sources of the program itself."""
UNTREATED_OUTCOMES = (Outcome.UNSUPPORTED, Outcome.UNREADABLE, Outcome.NO_ASSERTION)
TIMEOUT_OUTCOMES = (Outcome.PROVER_TIMEOUT, Outcome.ESBMC_TIMEOUT)


AttemptsByModel = Mapping[str, Sequence[Attempt]]
"""Attempts by the label of the proposing model."""


def _format_limits(limits: Iterable[Sequence[Limit]]) -> str | None:
    """Format the limits that ended attempts without an answer, with counts."""
    counts = Counter(chain.from_iterable(limits))
    return ", ".join(f"{limit}: {counts[limit]}" for limit in Limit if counts[limit]) or None


_FIGURES = {
    **{
        name: (name, "sum")
        for name in """
            solved unique beyond_program missed_of_program parse_errors false timeouts unsupported
            unreadable other not_treated
        """.split()
    },
    "programs": ("program", "size"),
    "mean_seconds_of_solved": ("seconds_of_solved", "mean"),
    "mean_iterations_of_solved": ("iterations_of_solved", "mean"),
    "limits": ("limits", _format_limits),
}
"""The figures of a group of attempts: the column of `build_frame`, and its aggregation."""


def _aggregate(attempts: AttemptsByModel, way: str, columns: Sequence[str]) -> pd.DataFrame:
    """Aggregate the attempts of each model, semantics and way.

    Args:
        attempts: the attempts.
        way: name of the column of the ways.
        columns: columns of the result: `model`, `semantics`, the ways, or keys of `_FIGURES`.
    """
    groups = build_frame(attempts).groupby(["model", "semantics", "way"], sort=False)
    table = groups.agg(**{name: _FIGURES[name] for name in columns if name in _FIGURES})
    return table.reset_index().rename(columns={"way": way})[list(columns)]


def build_variants_table(attempts: AttemptsByModel) -> pd.DataFrame:
    """Build the paper's Table 1, by model, semantics and prompt variant.

    `unique` counts programs that no other variant of the same model and semantics solves.
    `parse_errors` counts the parse errors of all programs, solved or not.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    return _aggregate(attempts, "variant", _COLUMNS_OF_VARIANTS)


def build_sources_table(attempts: AttemptsByModel) -> pd.DataFrame:
    """Build the table of sources, by model, semantics and combination.

    `unique` counts programs that no other combination of the same model and semantics solves.
    `beyond_program` counts solved programs that `program` does not solve, and `missed_of_program`
    unsolved programs that `program` solves.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    return _aggregate(attempts, "sources", _COLUMNS_OF_SOURCES)


def build_tools_table(attempts: Sequence[Attempt], published_figures: pd.DataFrame) -> pd.DataFrame:
    """Build the paper's Table 3, by tool and semantics, with published figures.

    Published figures have columns of their own, and no semantics.

    Args:
        attempts: the attempts of all tools.
        published_figures: the result of `read_published`.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    measured_columns = [name for name in _COLUMNS_OF_TOOLS if not name.startswith("published_")]
    measured_rows = _aggregate({"": attempts}, "tool", measured_columns)
    published_rows = published_figures.rename(
        columns=lambda name: name if name == "tool" else f"published_{name}"
    )
    table = pd.concat([measured_rows, published_rows], ignore_index=True)[_COLUMNS_OF_TOOLS]
    # A plain integer column has no empty cells.
    others = ("tool", "semantics", "limits", "mean_seconds_of_solved")
    return table.astype({name: "Int64" for name in _COLUMNS_OF_TOOLS if name not in others})


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
    build_frame({"": attempts})  # raises for two attempts
    by_key = {(attempt.program, attempt.semantics): attempt for attempt in attempts}
    semantics = list(dict.fromkeys(attempt.semantics for attempt in attempts))
    fields = ("outcome", "limits", "invariants", "sources")
    columns = ["program", "line", *(f"{field}_{s}" for s in semantics for field in fields)]
    records = []
    for program in dict.fromkeys(attempt.program for attempt in attempts):
        program_attempts = [by_key.get((program, s)) for s in semantics]
        lines = {i.line for attempt in program_attempts if attempt for i in attempt.invariants}
        # A program without invariants keeps its outcome in a row without a line.
        for line in (*sorted(lines),) or (None,):
            cells = (_build_invariant_cells(attempt, line) for attempt in program_attempts)
            records.append([program, line, *chain.from_iterable(cells)])
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
    frame = build_frame({"": attempts})
    strategies = list(frame["way"].unique())
    # In the order of the attempts: a pivot sorts its rows and columns.
    programs = pd.MultiIndex.from_frame(frame[["semantics", "program"]].drop_duplicates())
    solved = frame.pivot(index=["semantics", "program"], columns="way", values="solved")
    solved = solved.reindex(programs, columns=strategies).fillna(False).astype(bool)
    # A way may have the name of a column, so the programs are no column here.
    semantics, names = (
        programs.get_level_values(level).to_series(solved.index) for level in (0, 1)
    )
    groups = names.groupby([semantics, *(solved[way] for way in strategies)], sort=False)
    sets = groups.agg(programs="size", names=" ".join).reset_index()
    # Unsolved programs are last, in any number.
    sets["is_unsolved"] = ~sets[strategies].any(axis=1)
    sets = sets.sort_values(["is_unsolved", "programs"], ascending=[True, False], kind="stable")
    places = {name: place for place, name in enumerate(frame["semantics"].unique())}
    sets = sets.sort_values("semantics", key=lambda names: names.map(places), kind="stable")
    return sets.drop(columns="is_unsolved").reset_index(drop=True)


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
    frame = build_frame({"": attempts})[["program", "semantics", "way", "outcome", "seconds"]]
    method_rows = frame[frame["way"] == method].drop(columns="way")
    tool_rows = frame[frame["way"] != method].rename(
        columns={"way": "tool", "outcome": "tool_outcome", "seconds": "tool_seconds"}
    )
    return tool_rows.merge(method_rows, on=["program", "semantics"])[_COLUMNS_OF_SECONDS]


def build_provable_table(by_model: Mapping[str, Sequence[ProvableProbability]]) -> pd.DataFrame:
    """Build the table of provable invariants, by loop, semantics and model."""
    keys = ["program", "line", "semantics", "model"]
    records = [
        vars(record) | {"model": model, "text": record.text or None}
        for model, model_records in by_model.items()
        for record in model_records
    ]
    frame = pd.DataFrame(records, columns=[*keys, "wanted", *_PROVABLE_COLUMNS])
    # Both queries of a loop are in one row.
    table = frame.pivot(index=keys, columns="wanted", values=_PROVABLE_COLUMNS)
    table.columns = table.columns.map("{0[1]}_{0[0]}".format)
    columns = [f"{query}_{figure}" for query in QUERIES for figure in _PROVABLE_COLUMNS]
    return table.infer_objects().reset_index().reindex(columns=[*keys, *columns])


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
    impossible = table[~table["solved"].between(0, table["programs"])]
    for tool, programs, solved in impossible.itertuples(index=False):
        raise InvalidTable(f"{path}: {tool} solves {solved} of {format_count(programs, 'program')}")
    return table


def build_frame(attempts: AttemptsByModel) -> pd.DataFrame:
    """Build a frame of attempts, with a column for each kind of outcome and comparison.

    `unique` marks the only solved attempt on a program, `beyond_program` and `missed_of_program`
    compare with the combination `program`, and `bare` marks programs solved without invariants.

    Raises:
        InvalidTable: a program has two attempts by the same way.
    """
    fields = "program semantics way outcome solved seconds iterations parse_errors limits".split()
    rows = [
        [model, *(getattr(attempt, field) for field in fields), not attempt.invariants]
        for model, model_attempts in attempts.items()
        for attempt in model_attempts
    ]
    frame = pd.DataFrame(rows, columns=["model", *fields, "bare"])
    # A plain integer column has no empty cells.
    integer_dtypes = {"iterations": "Int64", "parse_errors": "Int64"}
    frame = frame.astype({"solved": bool, "bare": bool, **integer_dtypes})
    # Two attempts would count a program twice.
    keys = ["program", "semantics", "way"]
    for program, semantics, way in frame.loc[frame.duplicated(["model", *keys]), keys].itertuples(
        index=False
    ):
        raise InvalidTable(f"{program}: two attempts over {semantics} by {way}; remove one of them")
    solved, outcome = frame["solved"], frame["outcome"]
    frame["bare"] &= solved
    frame["false"] = outcome == Outcome.FALSE
    frame["timeouts"] = outcome.isin(TIMEOUT_OUTCOMES)
    frame["unsupported"] = outcome == Outcome.UNSUPPORTED
    frame["unreadable"] = outcome == Outcome.UNREADABLE
    frame["not_treated"] = outcome.isin(UNTREATED_OUTCOMES)
    counted = ["solved", "false", "timeouts", "unsupported", "unreadable"]
    frame["other"] = ~frame[counted].any(axis=1)
    frame["seconds_of_solved"] = frame["seconds"].where(solved)
    frame["iterations_of_solved"] = frame["iterations"].where(solved)
    subject = [frame[name] for name in ("model", "semantics", "program")]
    frame["unique"] = solved & (solved.groupby(subject).transform("sum") == 1)
    is_baseline = solved & (frame["way"] == PROGRAM_SOURCES)
    solved_by_program = is_baseline.groupby(subject).transform("any").astype(bool)
    frame["beyond_program"] = solved & ~solved_by_program
    frame["missed_of_program"] = ~solved & solved_by_program
    return frame


def select_solved_by(group: pd.DataFrame, strategies: Iterable[str]) -> set[str]:
    """Return the programs that any of the ways solves."""
    return set(group.loc[group["solved"] & group["way"].isin(strategies), "program"])


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
