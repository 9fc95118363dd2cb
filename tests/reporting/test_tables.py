"""The paper's tables: which numbers stand in which columns."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from llmchecker.checking.answer import Answer, Costs, Sampled, select_trivial_interval
from llmchecker.checking.figures import format_rows
from llmchecker.checking.formatting import build_rows
from llmchecker.checking.witnesses import Witness
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import CheckFailed, DamagedFile
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting import tables
from llmchecker.reporting.html_rows import render_rows
from llmchecker.reporting.table_io import write_csv, write_table
from llmchecker.reporting.tables import AnsweredRow
from llmchecker.trees.text_tree import Horizon, Truncation
from llmchecker.utils.atomic_files import write_json_with_digest
from llmchecker.utils.interval import NUMBERS, TRUTHS, Interval

LABELS = {"smollm2-135m": "SmolLM2-135M", "gemma3-270m": "Gemma-3-270M"}
POSITIVE = "P=? [ F gender > 0 ]"
STARTS = {"player": "The player won", "jock": "The jock won", "champ": "The champ won"}
NEGATIVE = "P=? [ F gender < 0 ]"
TABLE2 = [
    *("label", "interest", "model", "query", "verdict"),
    *("lower", "upper", "estimate", "low", "high", "confidence", "samples", "value"),
    *("alpha", "k", "L", "states", "transitions", "states_explored", "transitions_explored"),
    *("encode_seconds", "check_seconds"),
]
WHOLE_MODEL = ["lower", "upper", "estimate", "low", "high", "confidence", "samples"]
FIGURE4 = ["model", "noun", *WHOLE_MODEL, "value"]
NOTHING = [""] * 5
"""The cells of a row without an estimate."""


def check(model: str, query: str, start: str = "player") -> Check:
    return Check(TreeSpec(model, start, Truncation(0.9, 5, 4)), parse(query))


def verdict(query: str, value: float | bool) -> Answer:
    costs = Costs(911, 1730, 499, 950, 1.5, 0.0625)
    certain = Interval(value / 2, value * 2)
    return Answer(parse(query), 4, certain, bounded=value, costs=costs, versions={"storm": "2.0.0"})


def answer(model: str, found: Answer, start: str = "player", **row: str) -> AnsweredRow:
    """The answer of a model to a query of the experiment "Player"."""
    asked = check(model, found.query.text, start)
    row = {"label": "Player", "interest": "Gender"} | row
    return TableRow(**row, check=asked, model=LABELS[model], prompt=STARTS[start]), found


def cells(table: pd.DataFrame) -> list[list]:
    """The cells of a table by rows; an empty text for what is absent."""
    return table.astype(object).where(table.notna(), "").to_numpy().tolist()


UNSAMPLED = {"sampled": None}


def answered(directory: Path, asked: AnsweredRow, **changes: object) -> Path:
    """The file of the answer to a query for the whole model."""
    fields = {
        "certain": Interval(0.2, 0.45),
        "sampled": Sampled(Interval(0.28, 0.34), 0.3, 0.99, 200, 7),
        "costs": Costs(passes=431, seconds=1.5),
    }
    check = asked[0].check
    content = Answer(check.query, 4, **(fields | changes)).as_json()
    path = directory / f"{len(list(directory.iterdir()))}.answer.json"
    write_json_with_digest(content | {"check": str(check)}, path)
    return path


def read_with(directory: Path, asked: list[AnsweredRow], answers: list[Path]) -> tuple:
    """The answers as they are read from files of verdicts and of answers."""
    bounded = [found for row, found in asked if row.check.is_bounded]
    paths = [directory / f"{number}.json" for number in range(len(bounded))]
    for each, path in zip(bounded, paths, strict=True):
        each.write(path)
    return tables.read_answers([row for row, _ in asked], paths, answers)


def test_answers_stand_beside_the_values_of_their_trees(tmp_path):
    """Rows with an answer show its interval, and the intersection of its bounds and those of the
    tree, whatever the order of the files; value and sizes are as they are without one."""
    asked = [answer("gemma3-270m", verdict(POSITIVE, 0.25), start) for start in STARTS]
    answers = [
        answered(tmp_path, asked[2]),
        answered(tmp_path, asked[0], certain=Interval(0.0625, 0.75), **UNSAMPLED),
    ]
    found = read_with(tmp_path, asked, answers)
    shown = [
        [0.125, 0.5, *NOTHING],
        [0.125, 0.5, *NOTHING],
        [0.2, 0.45, 0.3, 0.28, 0.34, 0.99, 200],
    ]
    for make in (tables.build_table2, tables.build_noun_table):
        table, before = make(found), make(asked)
        assert cells(table[WHOLE_MODEL]) == shown
        assert cells(table.drop(columns=WHOLE_MODEL)) == cells(before.drop(columns=WHOLE_MODEL))
    write_csv(tables.build_table2(found), tmp_path / "table2.csv")
    lines = (tmp_path / "table2.csv").read_text(encoding="utf-8").splitlines()
    assert lines[3].split(",")[7:12] == ["0.3", "0.28", "0.34", "0.99", "200"]


def test_the_bounds_of_the_tree_cut_the_interval(tmp_path):
    """No end of the interval, and no estimate, is outside of the bounds of the tree."""
    asked = answer("gemma3-270m", verdict(POSITIVE, 0.25))
    sampled = Sampled(Interval(0.4, 0.8), 0.6, 0.99, 200)
    path = answered(tmp_path, asked, certain=Interval(0.2, 0.9), sampled=sampled)
    (found,) = read_with(tmp_path, [asked], [path])
    assert cells(tables.build_table2([found])[WHOLE_MODEL])[0][:5] == [0.2, 0.5, 0.5, 0.4, 0.5]


def test_bounds_that_contradict_each_other_are_refused(tmp_path):
    """Bounds of a tree and of an answer that do not meet are no answer at all."""
    asked = answer("gemma3-270m", verdict(POSITIVE, 0.25))
    path = answered(tmp_path, asked, certain=Interval(0.6, 0.7), **UNSAMPLED)
    with pytest.raises(CheckFailed, match="the bounds of tree and answer are disjoint"):
        read_with(tmp_path, [asked], [path])


@pytest.mark.parametrize(
    ("threshold", "cell", "outcome"),
    [
        ("P>=0.2", True, "HOLDS, with confidence 0.99"),
        ("P<0.2", False, "VIOLATED, with confidence 0.99"),
        ("P>=0.3", "unknown", "UNKNOWN"),
    ],
)
def test_the_estimate_of_a_threshold_is_whether_it_holds(threshold, cell, outcome, tmp_path):
    """A threshold outside of the interval is decided by it, and one inside is unknown."""
    unknown = replace(verdict(f"{threshold} [ F gender > 0 ]", 0.0), certain=TRUTHS)
    asked = [answer("gemma3-270m", unknown)]
    path = answered(tmp_path, asked[0], certain=TRUTHS)
    found = read_with(tmp_path, asked, [path])
    table = tables.build_table2(found)
    assert cells(table[WHOLE_MODEL])[0][2:] == [cell, 0.28, 0.34, 0.99, 200]
    assert cells(table[["verdict"]]) == [[outcome]]


@pytest.mark.parametrize(("lower", "upper"), [(True, True), (False, False), (False, True)])
def test_a_certain_answer_to_a_threshold_decides_the_row(lower, upper, tmp_path):
    """A threshold that the tree leaves open has the certain truth of its answer."""
    unknown = replace(verdict("P>=0.3 [ F gender > 0 ]", 0.0), certain=TRUTHS)
    asked = [answer("gemma3-270m", unknown)]
    path = answered(tmp_path, asked[0], certain=Interval(lower, upper), **UNSAMPLED)
    (found,) = read_with(tmp_path, asked, [path])
    assert found[1].certain == Interval(lower, upper)


def test_why_nothing_was_estimated_is_told(tmp_path):
    """A query that samples cannot answer has empty cells, and its verdict a note that says why."""
    asked = [answer("gemma3-270m", verdict("A [ F gender > 0 ]", 0.0))]
    changes = UNSAMPLED | {"certain": TRUTHS, "notes": ("It is hard.",)}
    (found,) = read_with(tmp_path, asked, [answered(tmp_path, asked[0], **changes)])
    assert cells(tables.build_table2([found])[WHOLE_MODEL])[0][2:] == NOTHING
    assert found[1].notes == ("It is hard.",)


def test_an_answer_that_was_changed_is_refused(tmp_path):
    """A digit that was changed in the file of an answer is found."""
    asked = answer("gemma3-270m", verdict(POSITIVE, 0.25))
    path = answered(tmp_path, asked)
    path.write_text(path.read_text(encoding="utf-8").replace("0.34", "0.35"), encoding="utf-8")
    with pytest.raises(DamagedFile, match="does not match its checksum"):
        read_with(tmp_path, [asked], [path])


def test_table2_says_which_answer_is_certain(tmp_path):
    """Below the tables for people stands what is certain, apart from what holds with confidence."""
    asked = [answer("gemma3-270m", verdict(POSITIVE, 0.25))]
    certain, bounded = tables.format_table2_notes(asked)
    assert certain.startswith("Certain: ")
    assert bounded.startswith("Probability (bounded): ")
    found = read_with(tmp_path, asked, [answered(tmp_path, asked[0])])
    certain, likely, _ = tables.format_table2_notes(found)
    assert "estimate" not in certain
    assert likely.startswith("Estimate, with confidence 0.99: ")
    paths = [tmp_path / f"table2.{suffix}" for suffix in ("md", "tex")]
    write_table(tables.build_table2(found), paths, notes=[certain, likely])
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert "0.28" in text
        assert certain in text
        assert likely[:40] in text


def test_an_answer_without_a_tree_has_no_value(tmp_path):
    """Its row has the horizon, bounds and interval; value, alpha, k and sizes are empty."""
    asked = answer("gemma3-270m", verdict(POSITIVE, 0.25))
    row, found = asked
    spec = TreeSpec("gemma3-270m", "player", Horizon(4))
    alone = replace(row, check=replace(row.check, tree=spec)), found
    text = Witness(1, "The player won. He", 0.1, "witness", rest=False, kept=15)
    path = answered(tmp_path, alone, witnesses=(text,))
    found = read_with(tmp_path, [alone, asked], [path])
    table = tables.build_table2(found)
    assert cells(table[["value", "alpha", "k", "L"]]) == [["", "", "", 4], [0.25, 0.9, 5, 4]]
    first, second = cells(table[TABLE2[TABLE2.index("states") :]])
    assert first == [""] * 6
    assert second[0] == 911
    assert cells(table[WHOLE_MODEL])[0] == [0.2, 0.45, 0.3, 0.28, 0.34, 0.99, 200]
    page = tables.format_witnesses(found)
    line = "certain [0.2, 0.4501], estimate 0.3 in [0.28, 0.3401] with confidence 0.99. Texts that"
    assert f"{line} satisfy it, together 0.1:" in page
    assert "Gemma-3-270M · L=4" in page
    assert cells(tables.build_noun_table(found)[["value", "lower", "upper"]])[0] == ["", 0.2, 0.45]


def test_table1_is_the_start_strings():
    """Table I has every start string under its name, in the order of the config."""
    table = tables.build_table1({"story": "Once upon a time", "empty": ""})
    assert list(table.columns) == ["name", "start_string"]
    assert table.to_numpy().tolist() == [["story", "Once upon a time"], ["empty", ""]]


def test_table2_has_a_row_for_every_verdict():
    """Table II has the columns that are promised, and each row what was asked and answered."""
    table = tables.build_table2(
        [
            answer("gemma3-270m", verdict(POSITIVE, 0.25)),
            answer("smollm2-135m", verdict(NEGATIVE, 0.125), label="Exam", interest="Sentiment"),
        ]
    )
    assert list(table.columns) == TABLE2
    measured = [0.9, 5, 4, 911, 1730, 499, 950, 1.5, 0.0625]
    first = ["Player", "Gender", "Gemma-3-270M", POSITIVE, ""]
    second = ["Exam", "Sentiment", "SmolLM2-135M", NEGATIVE, ""]
    assert cells(table) == [
        [*first, 0.125, 0.5, *NOTHING, 0.25, *measured],
        [*second, 0.0625, 0.25, *NOTHING, 0.125, *measured],
    ]


def test_answers_are_read_with_model_and_start_string(tmp_path):
    """An answer has the row that was asked, the model as it is called, start string and verdict."""
    asked = [answer("gemma3-270m", verdict(POSITIVE, 0.25), "champ")]
    asked.append(answer("smollm2-135m", verdict(NEGATIVE, 0.125)))
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    for (_, each), path in zip(asked, paths, strict=True):
        each.write(path)
    assert tables.read_answers([row for row, _ in asked], paths) == tuple(asked)


def test_answers_need_a_verdict_for_every_row():
    """A verdict too few is an error, not a shorter table."""
    with pytest.raises(ValueError, match="shorter"):
        tables.read_answers([TableRow("Player", "Gender", check("gemma3-270m", POSITIVE))], [])


def test_an_unbounded_expected_score_reaches_infinity(tmp_path):
    """A score without bounds on its sides has infinite ones in the table, which read back."""
    open_sided = replace(verdict('R{"gender"}=? [ I=2 ]', 0.25), certain=NUMBERS)
    table = tables.build_table2([answer("gemma3-270m", open_sided)])
    write_csv(table, tmp_path / "table2.csv")
    back = pd.read_csv(tmp_path / "table2.csv")
    assert back[["lower", "upper"]].to_numpy().tolist() == [[float("-inf"), float("inf")]]


def test_witnesses_show_the_start_string_once():
    """A prompt of system and user messages stands above the continuations, not in each."""
    start = "<system>Be brief.</system><user>Who?</user>"
    texts = (start + " He", start + " She")
    found = [Witness(1, text, 0.25, "witness", rest=False, kept=len(start)) for text in texts]
    shown = replace(verdict(POSITIVE, 0.5), witnesses=tuple(found))
    page = tables.format_witnesses([answer("gemma3-270m", shown)])
    assert page.count("Be brief.") == 1
    assert "| ` He` |" in page
    assert format_rows(build_rows(shown)).count("Be brief.") == 1
    assert render_rows(build_rows(shown)).count("Be brief.") == 1


@pytest.mark.parametrize(
    ("query", "bounds"), [(POSITIVE, ["0.0", "1.0"]), ("P>=0.5 [ X step = 1 ]", ["False", "True"])]
)
def test_what_is_unknown_is_told(query, bounds, tmp_path):
    """A value that is not known is "unknown", and bounds that are not are those of anything."""
    trivial = select_trivial_interval(parse(query))
    found = replace(verdict(query, 0.0), bounded=None, certain=trivial, notes=("It is hard.",))
    unknown = answer("gemma3-270m", found)
    paths = [tmp_path / f"table2.{suffix}" for suffix in ("csv", "md", "tex")]
    write_table(tables.build_table2([unknown]), paths)
    csv, markdown, latex = (path.read_text(encoding="utf-8") for path in paths)
    assert csv.splitlines()[1].split(",")[-17:-9] == [*bounds, *NOTHING, "unknown"]
    assert "| unknown " in markdown
    assert "& unknown &" in latex
    page = tables.format_witnesses([unknown])
    assert "(bounded) unknown." in page
    assert page.endswith("\n\nIt is hard.\n")


def test_an_unknown_value_of_a_noun_is_an_empty_cell():
    """In the numbers of Figure 4 an unknown value is absent, and its bounds are there."""
    unknown = replace(verdict(POSITIVE, 0.25), bounded=None)
    table = tables.build_noun_table([answer("gemma3-270m", verdict(POSITIVE, 0.5))] * 2)
    assert table["value"].tolist() == [0.5, 0.5]
    table = tables.build_noun_table([answer("gemma3-270m", unknown)])
    assert table["value"].isna().all()
    assert table[["lower", "upper"]].to_numpy().tolist() == [[0.125, 0.5]]


def test_table2_without_experiments_has_its_columns(tmp_path):
    """Without experiments Table II is its header."""
    paths = [tmp_path / f"table2.{suffix}" for suffix in ("csv", "md", "tex")]
    write_table(tables.build_table2([]), paths)
    csv, markdown, latex = (path.read_text(encoding="utf-8") for path in paths)
    assert csv == ",".join(TABLE2) + "\n"
    assert len(markdown.splitlines()) == 2
    assert r"\midrule" in latex


def test_figure3_has_the_mean_and_the_quartiles_over_prompts():
    """A row has the mean and the quartiles of a model's prompts, the models in the order given."""
    frames = {
        "B": pd.DataFrame(
            {"prompt": [0, 0, 1, 1], "k": [1, 2, 1, 2], "mass": [0.5, 0.75, 0.25, 1]}
        ),
        "A": pd.DataFrame({"prompt": [0, 0], "k": [1, 2], "mass": [0.125, 0.5]}),
    }
    table = tables.build_mass_table(frames)
    assert list(table.columns) == ["model", "k", "mass", "lower_quartile", "upper_quartile"]
    assert table.to_numpy().tolist() == [
        ["B", 1, 0.375, 0.3125, 0.4375],
        ["B", 2, 0.875, 0.8125, 0.9375],
        ["A", 1, 0.125, 0.125, 0.125],
        ["A", 2, 0.5, 0.5, 0.5],
    ]


def test_figure4_is_the_value_by_model_and_noun():
    """The noun is the name of the start string."""
    jock = answer("gemma3-270m", verdict(POSITIVE, 0.25), "jock")
    table = tables.build_noun_table([jock, answer("smollm2-135m", verdict(POSITIVE, 0.5), "champ")])
    assert list(table.columns) == FIGURE4
    assert cells(table) == [
        ["Gemma-3-270M", "jock", 0.125, 0.5, *NOTHING, 0.25],
        ["SmolLM2-135M", "champ", 0.25, 1.0, *NOTHING, 0.5],
    ]
