"""The tables of the experiments on programs, and the numbers behind their figures.

A program is solved if it is verified. Every table counts every program: what is false or was not
treated stands in columns of its own, and the notes name it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from llmchecker.errors import InvalidTable
from llmchecker.invariants.attempts import THIS_METHOD, WITH_MODEL, WITHOUT_MODEL, Attempt
from llmchecker.programs.expressions import Semantics
from llmchecker.proving.verification import Outcome

COLUMNS_OF_VARIANTS = """
    model semantics variant programs solved unique mean_seconds_of_solved mean_iterations_of_solved
    parse_errors false not_treated
""".split()
COLUMNS_OF_SOURCES = """
    model semantics sources programs solved unique beyond_program missed_of_program
    mean_seconds_of_solved false timeouts not_treated
""".split()
COLUMNS_OF_TOOLS = """
    tool semantics programs solved false timeouts unsupported unreadable other
    mean_seconds_of_solved published_programs published_solved
""".split()
COLUMNS_OF_SECONDS = """
    program semantics tool tool_outcome tool_seconds outcome seconds
""".split()
COLUMNS_OF_PUBLISHED = ["tool", "programs", "solved"]

PROGRAM = "program"
"""The combination that a model is compared with: all sources but those that propose."""
NOT_TREATED = (Outcome.UNSUPPORTED, Outcome.UNREADABLE)
TIMEOUTS = (Outcome.PROVER_TIMEOUT, Outcome.ESBMC_TIMEOUT)

LEGEND_OF_VARIANTS = """\
Candidates are what the model wrote to this prompt, and nothing else. Unique: solved by no other
variant of that model and semantics. Seconds, those of the model included, and iterations are means
over the programs that are solved; parse errors are all that the used iterations had, in all
programs."""
LEGEND_OF_SOURCES = """\
Unique: solved by no other row of that model and semantics. Beyond program: not solved by "program",
which proposes nothing but what it makes of the program itself; missed of program: solved by it
only. Timeouts: more candidates prove no less but take longer. Seconds, those of the model included,
are means over the programs that are solved. Every source that proposes may propose equally many
candidates for a loop."""
LEGEND_OF_TOOLS = """\
Solved: verified. False: a violation was found; this method reports one only if a concrete run shows
it. Other: no answer, for another reason. Seconds are means over the programs that are solved."""
LEGEND_OF_PUBLISHED = """\
Published figures are those of Pirzada, Bhayat, Cordeiro and Reger, LLM-Generated Invariants for
Bounded Model Checking Without Loop Unrolling (ASE 2024), on the programs of that paper; they are
not measured here."""
LEGEND_OF_USED = """\
Invariants are those that the proof of the assertions needs; a program without any is proven without
or not at all, as its outcome says. Semicolons separate several invariants of a loop, and the
sources of each."""

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
        for semantics, of_semantics in _frame(made).groupby("semantics", sort=False)
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
            "beyond_program": len(_solved(group) - _solved_by(of_semantics, [PROGRAM])),
            "missed_of_program": len(_solved_by(of_semantics, [PROGRAM]) - _solved(group)),
        }
        for model, made in attempts.items()
        for semantics, of_semantics in _frame(made).groupby("semantics", sort=False)
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
        for (semantics, way), group in _frame(attempts).groupby(["semantics", "way"], sort=False)
    ]
    measured = pd.DataFrame(records, columns=COLUMNS_OF_TOOLS)
    apart = ["solved", "false", "timeouts", "unsupported", "unreadable"]
    measured["other"] = measured["programs"] - measured[apart].sum(axis=1)
    prefixed = published.rename(columns=lambda c: c if c == "tool" else f"published_{c}")
    table = pd.concat([measured.astype(object), prefixed.astype(object)], ignore_index=True)
    whole = [c for c in COLUMNS_OF_TOOLS[2:] if c != "mean_seconds_of_solved"]
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
    parts = ("outcome", "invariants", "sources")
    columns = ["program", "line", *(f"{part}_{s}" for s in semantics for part in parts)]
    records = []
    for program, made in found.items():
        lines = sorted({i.line for attempt in made.values() for i in attempt.invariants})
        for line in lines or [None]:
            cells = [_used(made.get(s), line) for s in semantics]
            records.append([program, line, *(cell for three in cells for cell in three)])
    return pd.DataFrame(records, columns=columns).astype({"line": "Int64"})


def solved_sets(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Which ways solve the same programs: the numbers behind a set diagram.

    Returns:
        For every semantics, the sets of programs that exactly the same ways solve, the largest
        first and those that none solves last: columns semantics, one truth value for every way,
        `programs` (how many), `names`.

    Raises:
        InvalidTable: a program has two attempts by one way.
    """
    frame = _frame(attempts)
    ways = list(frame["way"].unique())
    records = []
    for semantics, group in frame.groupby("semantics", sort=False):
        solved = {way: _solved_by(group, [way]) for way in ways}
        together: dict[tuple[bool, ...], list[str]] = {}
        for program in group["program"].unique():
            by = tuple(program in solved[way] for way in ways)
            together.setdefault(by, []).append(program)
        ordered = sorted(together, key=lambda by: (not any(by), -len(together[by])))
        records += [[semantics, *by, len(together[by]), " ".join(together[by])] for by in ordered]
    return pd.DataFrame(records, columns=["semantics", *ways, "programs", "names"])


def seconds(attempts: Sequence[Attempt], method: str = THIS_METHOD) -> pd.DataFrame:
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
    frame = _frame(attempts)[["program", "semantics", "way", "outcome", "seconds"]]
    ours = frame[frame["way"] == method].drop(columns="way")
    theirs = frame[frame["way"] != method].rename(
        columns={"way": "tool", "outcome": "tool_outcome", "seconds": "tool_seconds"}
    )
    return theirs.merge(ours, on=["program", "semantics"])[COLUMNS_OF_SECONDS]


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


def notes_on_variants(attempts: ByModel) -> list[str]:
    """What to read below the table of variants, a paragraph each."""
    return [LEGEND_OF_VARIANTS, *_each_once(attempts, _untreated)]


def notes_on_sources(attempts: ByModel) -> list[str]:
    """What to read below the table of sources, a paragraph each; first what the model adds."""
    adds = [
        _what_a_model_adds(model, semantics, group)
        for model, made in attempts.items()
        for semantics, group in _frame(made).groupby("semantics", sort=False)
    ]
    return [*adds, LEGEND_OF_SOURCES, *_each_once(attempts, _untreated)]


def notes_on_tools(attempts: Sequence[Attempt]) -> list[str]:
    """What to read below the table of tools, a paragraph each."""
    frame = _frame(attempts)
    return [LEGEND_OF_TOOLS, LEGEND_OF_PUBLISHED, *_contradictions(frame), *_untreated(frame)]


def notes_on_used(attempts: Sequence[Attempt]) -> list[str]:
    """What to read below the table of used invariants, a paragraph each.

    Says of every program that is not treated why.
    """
    told = dict.fromkeys(
        f"{a.program} is {a.outcome}: {a.message}" for a in attempts if a.outcome in NOT_TREATED
    )
    return [LEGEND_OF_USED, *told, *_untreated(_frame(attempts))]


def _each_once(attempts: ByModel, notes: Callable[[pd.DataFrame], list[str]]) -> list[str]:
    """What is to be said of the attempts of every model; what holds for several, once."""
    return list(dict.fromkeys(note for made in attempts.values() for note in notes(_frame(made))))


def _what_a_model_adds(model: str, semantics: Semantics, group: pd.DataFrame) -> str:
    """Say which programs are solved with a model's proposals and in no other way.

    With: by any combination that holds a source of the model. Without: by any that holds none,
    random and shortest among them. A program that is out of time without is told as such.
    """
    asked, unasked = _solved_by(group, WITH_MODEL), _solved_by(group, WITHOUT_MODEL)
    programs = list(dict.fromkeys(group["program"]))
    added = [program for program in programs if program in asked - unasked]
    late = group["way"].isin(WITHOUT_MODEL) & group["outcome"].isin(TIMEOUTS)
    out_of_time = set(group.loc[late, "program"]).intersection(added)
    adds = f"The model adds {_programs(added) if added else 'nothing'}"
    if out_of_time:
        adds += f"; without it, time ran out in {len(out_of_time)} of these"
    alone = ", ".join(
        f"{way.removesuffix(' alone')} {len(_solved_by(group, [way]))}"
        for way in (*WITH_MODEL, *WITHOUT_MODEL)
        if way.endswith(" alone")
    )
    bare = group.loc[group["bare"], "program"].nunique()
    return (
        f"{model} over {semantics}: of {_counted(len(programs))}, {len(asked)} verified with "
        f"the model's proposals and {len(unasked)} without. {adds}. Each source alone: {alone}; "
        f"{_counted(bare)} among them without any invariant."
    )


def _untreated(frame: pd.DataFrame) -> list[str]:
    """Name the programs that are unsupported, unreadable or false, a sentence each.

    Where the ways do not agree, it says which of them call the programs so.
    """
    told = []
    for semantics, group in frame.groupby("semantics", sort=False):
        for outcome in (*NOT_TREATED, Outcome.FALSE):
            ways: dict[tuple[str, ...], list[str]] = {}
            for way, of_way in group.groupby("way", sort=False):
                programs = tuple(of_way.loc[of_way["outcome"] == outcome, "program"])
                ways.setdefault(programs, []).append(way)
            for programs, agreeing in ways.items():
                by = f" according to {', '.join(agreeing)}" if len(ways) > 1 else ""
                if programs:
                    told.append(
                        f"{outcome.capitalize()} over {semantics}{by}: {_programs(programs)}."
                    )
    return told


def _contradictions(frame: pd.DataFrame) -> list[str]:
    """Name the programs that one way verifies and another calls false, a sentence each."""
    told = []
    for (semantics, program), group in frame.groupby(["semantics", "program"], sort=False):
        ways = {
            outcome: ", ".join(group.loc[group["outcome"] == outcome, "way"])
            for outcome in (Outcome.VERIFIED, Outcome.FALSE)
        }
        if all(ways.values()):
            told.append(
                f"Contradiction over {semantics}: {program} is verified by "
                f"{ways[Outcome.VERIFIED]} and false according to {ways[Outcome.FALSE]}."
            )
    return told


def _frame(attempts: Sequence[Attempt]) -> pd.DataFrame:
    """Attempts as rows; `bare` ones are solved without any invariant."""
    columns = "program semantics way outcome solved seconds iterations parse_errors".split()
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
        "not_treated": group["outcome"].isin(NOT_TREATED).sum(),
    }


def _solved(group: pd.DataFrame) -> set[str]:
    return set(group.loc[group["solved"], "program"])


def _solved_by(group: pd.DataFrame, ways: Iterable[str]) -> set[str]:
    """The programs that any of the ways solves."""
    return _solved(group[group["way"].isin(ways)])


def _unique(group: pd.DataFrame, way: str) -> set[str]:
    """The programs that a way solves and no other does."""
    return _solved_by(group, [way]) - _solved(group[group["way"] != way])


def _used(attempt: Attempt | None, line: int | None) -> tuple[str | None, ...]:
    """Outcome, invariants and their sources, of the loop in a line."""
    if attempt is None:
        return None, None, None
    here = [invariant for invariant in attempt.invariants if invariant.line == line]
    return (
        str(attempt.outcome),
        "; ".join(invariant.text for invariant in here) or None,
        "; ".join(", ".join(invariant.sources) for invariant in here) or None,
    )


def _programs(names: Sequence[str]) -> str:
    return f"{_counted(len(names))} ({', '.join(names)})"


def _counted(programs: int) -> str:
    return f"{programs} {'program' if programs == 1 else 'programs'}"
