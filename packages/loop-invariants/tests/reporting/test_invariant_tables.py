"""Tables of the experiments on programs: every number counted by hand on a few attempts."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from llmchecker.errors import InvalidTable
from llmchecker.reporting import table_io as writers
from loop_invariants.experiments.attempts import (
    MODEL_COMBINATIONS,
    MODEL_FREE_COMBINATIONS,
    THIS_METHOD,
    Attempt,
    Invariant,
)
from loop_invariants.ir.expressions import Semantics
from loop_invariants.limits import Limit
from loop_invariants.reporting import notes, tables
from loop_invariants.verification.result import CandidateSource, Outcome

PUBLISHED = Path(__file__).parents[4] / "resources/published/invariants.csv"
INTEGERS, INT32 = Semantics
VERIFIED, FALSE = Outcome.VERIFIED, Outcome.FALSE
MARKUP = "a|b*_<i>"


def attempt(program, way, outcome=VERIFIED, seconds=1.0, semantics=INTEGERS, **more) -> Attempt:
    return Attempt(program, semantics, way, outcome, seconds, **more)


def needing(text: str, line: int, *sources: CandidateSource) -> Invariant:
    return Invariant(line, text, sources)


def rows(table: pd.DataFrame) -> list[list]:
    """The rows with None for what is missing."""
    return table.astype(object).where(table.notna(), None).to_numpy().tolist()


def markdown(table: pd.DataFrame, remarks: list[str], directory: Path) -> str:
    path = directory / "table.md"
    writers.write_table(table, [path], "footer", remarks)
    return path.read_text(encoding="utf-8")


def published(*lines: str) -> pd.DataFrame:
    cells = [(tool, int(n), int(solved)) for tool, n, solved in (x.split(",") for x in lines)]
    return pd.DataFrame(cells, columns=["tool", "programs", "solved"])


VARIANTS = [
    attempt("a", "full", seconds=2.0, iterations=1, parse_errors=3),
    attempt("b", "full", seconds=4.0, iterations=4, parse_errors=0),
    attempt("c", "full", FALSE, 50.0, iterations=30, parse_errors=9, limits=(Limit.ANSWERS,)),
    attempt("a", "combined", seconds=1.0, iterations=6, parse_errors=2),
    attempt("b", "combined", Outcome.NOT_PROVEN, 60.0, iterations=30, parse_errors=5),
    attempt("c", "combined", FALSE, iterations=30, parse_errors=7),
]


def test_variants_are_counted_by_model_semantics_and_variant():
    """Means are of solved programs, unique is within model and semantics, all else counts all."""
    other = [replace(made, semantics=INT32) for made in VARIANTS[3:]]
    table = tables.build_variants_table({"M": [*VARIANTS, *other], "N": VARIANTS[1:2]})
    assert list(table) == tables._COLUMNS_OF_VARIANTS
    assert rows(table) == [
        ["M", "integers", "full", 3, 2, 1, 3.0, 2.5, 12, 1, "answers: 1", 0],
        ["M", "integers", "combined", 3, 1, 0, 1.0, 6.0, 14, 1, None, 0],
        ["M", "int32", "combined", 3, 1, 1, 1.0, 6.0, 14, 1, None, 0],
        ["N", "integers", "full", 1, 1, 1, 4.0, 4.0, 0, 0, None, 0],
    ]


def test_a_variant_that_solves_nothing_has_no_means():
    """Where nothing is solved, means are empty and counts are 0."""
    (row,) = rows(tables.build_variants_table({"M": [attempt("a", "full", Outcome.UNREADABLE)]}))
    assert row == ["M", "integers", "full", 1, 0, 0, None, None, 0, 0, None, 1]


@pytest.mark.parametrize("table", [tables.build_variants_table, tables.build_sources_table])
def test_no_attempts_make_no_rows(table):
    """Without a model or an attempt the table is empty, but has its columns."""
    assert len(table({})) == 0
    assert len(table({"M": []})) == 0
    assert "solved" in table({"M": []})


def test_sources_are_held_against_the_program_alone():
    """What a combination solves beyond `program`, and what it misses of it, is counted."""
    made = [
        *(attempt("a", way) for way in ("program", "program + sampled", "random alone")),
        attempt("b", "program", seconds=3.0),
        attempt("b", "program + sampled", Outcome.PROVER_TIMEOUT, limits=tuple(Limit)[:2]),
        attempt("b", "random alone", Outcome.NOT_PROVEN),
        *(attempt("c", way, Outcome.NO_CANDIDATE) for way in ("program", "random alone")),
        attempt("c", "program + sampled", seconds=5.0),
    ]
    table = tables.build_sources_table({"M": made})
    two = "prover time: 1, solver steps: 1"
    assert list(table) == tables._COLUMNS_OF_SOURCES
    assert rows(table) == [
        ["M", "integers", "program", 3, 2, 1, 0, 0, 2.0, 0, 0, None, 0],
        ["M", "integers", "program + sampled", 3, 2, 1, 1, 1, 3.0, 0, 1, two, 0],
        ["M", "integers", "random alone", 3, 1, 0, 0, 1, 1.0, 0, 0, None, 0],
    ]


def all_sources(solved: dict[str, set[str]], programs: str, failed=Outcome.NOT_PROVEN) -> list:
    """Attempts by all combinations of which each solves some programs, with an invariant."""
    proof = (needing("x > 0", 3, CandidateSource.ATOMS),)
    return [
        attempt(program, way, invariants=proof)
        if program in solved.get(way, ())
        else attempt(program, way, failed)
        for way in MODEL_FREE_COMBINATIONS | MODEL_COMBINATIONS
        for program in programs
    ]


def test_what_the_model_adds_is_what_nothing_else_solves():
    """Only programs that no combination without the model solves are its merit, and are named."""
    solved = {
        "program": {"a"},
        "program + random": {"b"},
        "program + sampled": {"a", "b", "c"},
        "sampled alone": {"d"},
    }
    note = notes.build_source_notes({"M": all_sources(solved, "abcde")})[0]
    assert note == (
        "M over integers: of 5 programs, 4 verified with the model's proposals and 2 without. "
        "The model adds 2 programs (c, d). Each source alone: sampled 1, random 0, "
        "atoms 0, relations 0; 0 programs among them without any invariant."
    )


def test_what_the_programs_leave_open_is_named():
    """What atoms alone, and all sources of the programs, do not verify stands below the table."""
    made = all_sources({"program": {"a", "b"}, "atoms alone": {"a"}}, "abc")
    made += [attempt("d", way, FALSE) for way in ("program", "atoms alone")]
    found = notes.build_source_notes({"M": made, "N": made})
    assert found[2:4] == [
        "The atoms of the programs alone leave 2 programs (b, c) open over integers.",
        "All sources of the programs together leave 1 program (c) open over integers.",
    ]


def test_a_model_that_adds_nothing_is_told():
    """It is said in words that a model adds nothing, and how many proofs need no invariant."""
    made = [
        replace(a, invariants=())
        for a in all_sources({w: {"a"} for w in MODEL_FREE_COMBINATIONS | MODEL_COMBINATIONS}, "a")
    ]
    note = notes.build_source_notes({"M": made})[0]
    assert "1 verified with the model's proposals and 1 without. The model adds nothing." in note
    assert note.endswith("relations 1; 1 program among them without any invariant.")


def test_what_a_model_adds_against_the_clock_is_told_as_such():
    """A program that is only out of time without the model is not passed off as its merit."""
    made = all_sources({"program + sampled": {"a"}}, "a", Outcome.PROVER_TIMEOUT)
    note = notes.build_source_notes({"M": made})[0]
    assert "The model adds 1 program (a); without it, time ran out in 1 of these." in note
    late = [replace(a, outcome=Outcome.PROVER_TIMEOUT) for a in made if a.way == "sampled alone"]
    settled = [replace(a, outcome=Outcome.NOT_PROVEN) for a in made if a.way == "program"]
    note = notes.build_source_notes({"M": [made[-1], *late, *settled]})[0]
    assert "The model adds 1 program (a). Each" in note


def test_tools_are_counted_by_outcome_above_the_published_figures():
    """Every outcome falls into one column, and published figures stand apart."""
    outcomes = dict(zip("abcdefghijklm", Outcome, strict=True))
    made = [attempt(program, THIS_METHOD, outcome, 2.0) for program, outcome in outcomes.items()]
    made += [attempt("a", "ESBMC bmc", semantics=INT32, seconds=0.5)]
    table = tables.build_tools_table(made, published("SeaHorn,133,115", "ESBMC bmc,133,16"))
    assert list(table) == tables._COLUMNS_OF_TOOLS
    assert rows(table) == [
        ["this method", "integers", 13, 1, 1, 2, 1, 1, 7, None, 2.0, None, None],
        ["ESBMC bmc", "int32", 1, 1, 0, 0, 0, 0, 0, None, 0.5, None, None],
        ["SeaHorn", *[None] * 10, 133, 115],
        ["ESBMC bmc", *[None] * 10, 133, 16],
    ]


def test_counts_stay_whole_numbers_in_the_csv(tmp_path):
    """An empty cell makes no decimal fraction of a count."""
    table = tables.build_tools_table([attempt("a", THIS_METHOD)], published("SeaHorn,133,115"))
    writers.write_csv(table, tmp_path / "tools.csv")
    assert (tmp_path / "tools.csv").read_text().splitlines()[1:] == [
        "this method,integers,1,1,0,0,0,0,0,,1.0,,",
        "SeaHorn,,,,,,,,,,,133,115",
    ]


def test_used_has_the_invariants_of_every_loop_side_by_side():
    """A row a program and loop; a program without invariants has a row with its outcome."""
    made = [
        attempt(
            "two",
            THIS_METHOD,
            invariants=(
                needing("x >= 0", 9, CandidateSource.ATOMS, CandidateSource.RELATIONS),
                needing("y == x", 4, CandidateSource.SAMPLED),
                needing("x <= n", 9, CandidateSource.DISJUNCTIONS),
            ),
        ),
        attempt("two", THIS_METHOD, FALSE, semantics=INT32, limits=(Limit.PROVER_TIME,)),
        attempt("odd", THIS_METHOD, Outcome.UNSUPPORTED, message="odd.c:3: a pointer"),
    ]
    table = tables.build_used_invariants_table(made)
    assert list(table)[2:6] == [
        f"{part}_integers" for part in ("outcome", "limits", "invariants", "sources")
    ]
    both = "atoms, relations; disjunctions"
    assert rows(table) == [
        ["two", 4, "verified", None, "y == x", "sampled", "false", "prover time", None, None],
        ["two", 9, "verified", None, "x >= 0; x <= n", both, "false", "prover time", None, None],
        ["odd", None, "unsupported", *[None] * 7],
    ]
    assert "odd is unsupported: odd.c:3: a pointer" in notes.build_used_invariant_notes(made)


def test_sets_are_those_that_exactly_some_ways_solve():
    """Every program is in one set of its semantics; what none solves comes last, though largest."""
    made = [
        *(attempt(program, way) for program in "ab" for way in ("x", "y")),
        *(attempt("c", way, VERIFIED if way == "y" else FALSE) for way in ("x", "y")),
        *(attempt(program, way, FALSE) for program in "def" for way in ("x", "y")),
        *(attempt("a", way, FALSE, semantics=INT32) for way in ("x", "y")),
    ]
    table = tables.build_solved_sets_table(made)
    assert list(table) == ["semantics", "x", "y", "programs", "names"]
    assert rows(table) == [
        ["integers", True, True, 2, "a b"],
        ["integers", False, True, 1, "c"],
        ["integers", False, False, 3, "d e f"],
        ["int32", False, False, 1, "a"],
    ]


def test_seconds_stand_beside_those_of_the_method():
    """Each tool's outcome and seconds meet the method's on the same program and semantics."""
    made = [
        attempt("a", THIS_METHOD, seconds=2.0),
        attempt("a", THIS_METHOD, FALSE, 3.0, INT32),
        attempt("a", "ESBMC bmc", Outcome.ESBMC_TIMEOUT, 60.0),
        attempt("a", "ESBMC bmc", VERIFIED, 0.5, INT32),
    ]
    assert rows(tables.build_seconds_table(made)) == [
        ["a", "integers", "ESBMC bmc", "esbmc timeout", 60.0, "verified", 2.0],
        ["a", "int32", "ESBMC bmc", "verified", 0.5, "false", 3.0],
    ]


def test_what_is_not_treated_is_named():
    """Programs with an outcome that no proof can change are named, and the ways that disagree."""
    made = [
        *(attempt("p", way, Outcome.UNSUPPORTED) for way in ("x", "y")),
        *(attempt("q", way, Outcome.UNREADABLE) for way in ("x", "y")),
        *(attempt("p", way, Outcome.NOT_PROVEN, semantics=INT32) for way in ("x", "y")),
        *(attempt("r", way, FALSE) for way in ("x", "z")),
        attempt("r", "y", VERIFIED),
        attempt("p", "z", Outcome.UNSUPPORTED),
        attempt("q", "z", Outcome.UNREADABLE),
        *(attempt("s", way, Outcome.NO_ASSERTION) for way in "xyz"),
    ]
    found = notes.build_tool_notes(made)
    assert found[3:] == [
        "Contradiction over integers: r is verified by y and false according to x, z.",
        "Unsupported over integers: 1 program (p).",
        "Unreadable over integers: 1 program (q).",
        "No assertion over integers: 1 program (s).",
        "False over integers according to x, z: 1 program (r).",
    ]


def test_notes_that_hold_for_several_models_are_told_once():
    """Two models that meet the same unreadable program do not have it named twice."""
    made = [attempt("q", "full", Outcome.UNREADABLE)]
    found = notes.build_variant_notes({"M": made, "N": made})
    assert found[2:] == ["Unreadable over integers: 1 program (q)."]


@pytest.mark.parametrize(
    "table",
    [
        lambda made: tables.build_variants_table({"M": made}),
        lambda made: tables.build_sources_table({"M": made}),
        lambda made: tables.build_tools_table(made, published()),
        lambda made: tables.build_used_invariants_table(made),
        lambda made: tables.build_solved_sets_table(made),
        lambda made: tables.build_seconds_table(made),
    ],
)
def test_a_program_is_never_counted_twice(table):
    """Two attempts on a program by one way are refused, with the program's name."""
    with pytest.raises(InvalidTable, match="prog: two attempts over integers"):
        table([attempt("prog", "x"), attempt("prog", "x", FALSE)])


def test_names_with_markup_are_shown_as_they_are(tmp_path):
    """A program's name cannot end a cell, start a tag or set type, in the table or the notes."""
    made = [attempt(MARKUP, THIS_METHOD, Outcome.UNREADABLE, message=f"{MARKUP}.c is not C")]
    written = markdown(
        tables.build_used_invariants_table(made),
        notes.build_used_invariant_notes(made),
        tmp_path,
    )
    row, *remarks = written.splitlines()[2:]
    assert row.startswith("| `a\\|b*_<i>` |")
    below = "\n".join(remarks)
    assert "`a|b*_<i> is unreadable: a|b*_<i>.c is not C`" in below
    # no mark is outside of code
    assert not set("|*_<") & set("".join(below.split("`")[::2]))
    assert written.endswith("\nfooter\n")


def test_the_published_figures_are_read():
    """The file that comes with the project has the five figures of the paper."""
    table = tables.read_published(PUBLISHED)
    assert len(table) == 5
    assert set(table["programs"]) == {133}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "tool,programs\nx,3\n",
            ": the columns are tool, programs; expected tool, programs, solved",
        ),
        ("tool,programs,solved\nx,3,4\n", "x solves 4 of 3 programs"),
        ("tool,programs,solved\nx,3,some\n", "some"),
        ("", "No columns"),
    ],
)
def test_published_figures_that_cannot_be_are_refused(content, message, tmp_path):
    """The error names the file and what is wrong in it."""
    path = tmp_path / "published.csv"
    path.write_text(content)
    with pytest.raises(InvalidTable, match=message) as caught:
        tables.read_published(path)
    assert str(path) in str(caught.value)
