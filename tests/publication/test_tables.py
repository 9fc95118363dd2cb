"""Tables: which numbers, in which columns, in which letters."""

import csv
import struct
from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.checking.verdicts import Interval, Verdict
from llmchecker.config.checks import Check, TableRow, TreeSpec
from llmchecker.publication import tables
from llmchecker.queries.parser import parse
from llmchecker.trees.text_tree import Truncation

LABELS = {"smollm2-135m": "SmolLM2-135M", "gemma3-270m": "Gemma-3-270M"}
POSITIVE = "P=? [ F gender > 0 ]"
NEGATIVE = "P=? [ F gender < 0 ]"
TABLE2 = [
    *("label", "interest", "model", "alpha", "k", "L", "query", "states", "transitions"),
    *("states_explored", "transitions_explored", "encode_seconds", "check_seconds", "value"),
    *("lower", "upper"),
]


def check(model: str, query: str, start: str = "player") -> Check:
    return Check(TreeSpec(model, start, Truncation(0.9, 5, 4)), parse(query))


def verdict(query: str, value: float | bool) -> Verdict:
    found = Verdict(query, value, 911, 1730, 499, 950, 1.5, 0.0625, {"storm": "2.0.0"})
    return found.bounded(Interval(value / 2, value * 2))


def written(table: pd.DataFrame, suffix: str, directory) -> str:
    path = directory / f"table.{suffix}"
    tables.write(table, [path])
    return path.read_bytes().decode("utf-8")


def test_table1_is_the_start_strings():
    """Table I has every start string under its name, in the order of the config."""
    table = tables.table1({"story": "Once upon a time", "empty": ""})
    assert list(table.columns) == ["name", "start_string"]
    assert table.to_numpy().tolist() == [["story", "Once upon a time"], ["empty", ""]]


def test_table2_has_a_row_for_every_verdict():
    """Table II has the columns that are promised, and each row what was asked and answered."""
    rows = [
        TableRow("Player", "Gender", check("gemma3-270m", POSITIVE)),
        TableRow("Exam", "Sentiment", check("smollm2-135m", NEGATIVE)),
    ]
    verdicts = [verdict(POSITIVE, 0.25), verdict(NEGATIVE, 0.125)]
    table = tables.table2(rows, verdicts, LABELS)
    assert list(table.columns) == TABLE2
    measured = [911, 1730, 499, 950, 1.5, 0.0625]
    assert table.to_numpy().tolist() == [
        ["Player", "Gender", "Gemma-3-270M", 0.9, 5, 4, POSITIVE, *measured, 0.25, 0.125, 0.5],
        ["Exam", "Sentiment", "SmolLM2-135M", 0.9, 5, 4, NEGATIVE, *measured, 0.125, 0.0625, 0.25],
    ]


def test_table2_needs_a_verdict_for_every_row():
    """A verdict too few is an error, not a shorter table."""
    with pytest.raises(ValueError, match="shorter"):
        tables.table2([TableRow("Player", "Gender", check("gemma3-270m", POSITIVE))], [], LABELS)


def test_an_unbounded_expected_score_reaches_infinity(tmp_path):
    """A verdict without bounds on its sides has infinite ones in the table, which read back."""
    open_sided = verdict(POSITIVE, 0.25).bounded(Interval(None, None))
    row = TableRow("Player", "Gender", check("gemma3-270m", POSITIVE))
    tables.write_csv(tables.table2([row], [open_sided], LABELS), tmp_path / "table2.csv")
    back = pd.read_csv(tmp_path / "table2.csv")
    assert back[["lower", "upper"]].to_numpy().tolist() == [[float("-inf"), float("inf")]]


def test_table2_without_experiments_has_its_columns(tmp_path):
    """Without experiments Table II is its header."""
    table = tables.table2([], [], LABELS)
    assert written(table, "csv", tmp_path) == ",".join(TABLE2) + "\n"
    assert len(written(table, "md", tmp_path).splitlines()) == 2
    assert r"\midrule" in written(table, "tex", tmp_path)


def test_figure3_is_the_mean_over_prompts():
    """The mass of a model and k is the mean over its prompts, the models in the order given."""
    frames = {
        "B": pd.DataFrame(
            {"prompt": [0, 0, 1, 1], "k": [1, 2, 1, 2], "mass": [0.5, 0.75, 0.25, 1]}
        ),
        "A": pd.DataFrame({"prompt": [0, 0], "k": [1, 2], "mass": [0.125, 0.5]}),
    }
    table = tables.figure3(frames)
    assert list(table.columns) == ["model", "k", "mass"]
    assert table.to_numpy().tolist() == [
        ["B", 1, 0.375],
        ["B", 2, 0.875],
        ["A", 1, 0.125],
        ["A", 2, 0.5],
    ]


def test_figure4_is_the_value_by_model_and_noun():
    """The noun is the name of the start string."""
    checks = [check("gemma3-270m", POSITIVE, "jock"), check("smollm2-135m", POSITIVE, "champ")]
    table = tables.figure4(checks, [verdict(POSITIVE, 0.25), verdict(POSITIVE, 0.5)], LABELS)
    assert list(table.columns) == ["model", "noun", "value", "lower", "upper"]
    assert table.to_numpy().tolist() == [
        ["Gemma-3-270M", "jock", 0.25, 0.125, 0.5],
        ["SmolLM2-135M", "champ", 0.5, 0.25, 1.0],
    ]


AWKWARD = pd.DataFrame(
    {
        "name": ["a_b", "c|d"],
        "start_string": ['"x",\ny 50% & #1 $\\{}~^_', "`*<b>*[l] | 🙂"],
        "states": [911, 12],
        "value": [1 / 3, 0.00005],
        "check_seconds": [0.0625, 2.0],
    }
)


def test_csv_has_every_digit_and_character(tmp_path):
    """The CSV is plain: all digits, quotes doubled, line breaks kept inside of quotes."""
    assert written(AWKWARD, "csv", tmp_path) == (
        "name,start_string,states,value,check_seconds\n"
        'a_b,"""x"",\ny 50% & #1 $\\{}~^_",911,0.3333333333333333,0.0625\n'
        "c|d,`*<b>*[l] | 🙂,12,5e-05,2.0\n"
    )


def test_markdown_shows_every_cell_as_one_line(tmp_path):
    """In Markdown a cell is one line, its markup is shown and not obeyed, numbers stand right."""
    assert written(AWKWARD, "md", tmp_path).split("\n") == [
        r"| name   | start_string              |   states |   value |   check_seconds |",
        r"|:-------|:--------------------------|---------:|--------:|----------------:|",
        r'| `a_b`  | `"x", y 50% & #1 $\{}~^_` |      911 |  0.3333 |           0.062 |',
        r"| `c\|d` | `` `*<b>*[l] \| 🙂 ``      |       12 |   5e-05 |           2.000 |",
        "",
    ]


def test_latex_escapes_what_latex_would_obey(tmp_path):
    """In LaTeX every special character of a cell is escaped, and the header has no underscore."""
    assert written(AWKWARD, "tex", tmp_path).split("\n") == [
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"name & start string & states & value & check seconds \\",
        r"\midrule",
        r'a\_b & "x", y 50\% \& \#1 \$\textbackslash \{\}\textasciitilde \textasciicircum \_'
        r" & 911 & 0.3333 & 0.062 \\",
        r"c$|$d & `*$<$b$>$*[l] $|$ 🙂 & 12 & 5e-05 & 2.000 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "",
    ]


@pytest.mark.parametrize("suffix", ["md", "tex"])
def test_yes_and_no_are_shown_as_such(suffix, tmp_path):
    """The answer to a query with a threshold is shown as true or false beside probabilities."""
    text = written(pd.DataFrame({"value": [True, 1.0, False, 0.25]}), suffix, tmp_path)
    shown = [word for word in text.split() if word in ("true", "false", "0.25", "1")]
    assert shown == ["true", "1", "false", "0.25"]


def test_an_absent_figure_is_an_empty_cell_and_a_decimal_keeps_its_digits(tmp_path):
    """What a column lacks is empty, and decimals stand right with the digits that they have."""
    table = pd.DataFrame({"value": [Decimal("0.0000"), None], "note": [None, "n"]})
    table["states"] = pd.array([911, None], dtype="Int64")
    assert written(table, "csv", tmp_path) == "value,note,states\n0.0000,,911\n,n,\n"
    assert written(table, "md", tmp_path).split("\n")[1:4] == [
        "|--------:|:-------|---------:|",
        "|  0.0000 |        |      911 |",
        "|         | n      |          |",
    ]
    assert r"\begin{tabular}{rlr}" in written(table, "tex", tmp_path)


@pytest.mark.parametrize(("text", "shown"), [("", "''"), (" ", "' '"), ("\n", r"`'\n'`")])
def test_a_text_of_nothing_to_see_is_shown_in_quotes(text, shown, tmp_path):
    """A start string without a visible character is shown in quotes, not as an empty cell."""
    assert written(pd.DataFrame({"s": [text]}), "md", tmp_path).split("|")[-2].strip() == shown


@pytest.mark.parametrize(
    "text", ["two\nlines", "two\r\nlines", "two\rlines", "two\u2028lines", "two\x0blines"]
)
def test_a_line_break_of_any_kind_is_a_space(text, tmp_path):
    """For people, a text of several lines is one line."""
    table = pd.DataFrame({"s": [text]})
    assert "two lines" in written(table, "md", tmp_path)
    assert "two lines" in written(table, "tex", tmp_path)


def test_several_formats_at_once(tmp_path):
    """One call writes a file for each path, in the format of its suffix, and leaves no other."""
    paths = [tmp_path / f"t.{suffix}" for suffix in ("csv", "md", "tex")]
    tables.write(AWKWARD, paths)
    assert sorted(tmp_path.iterdir()) == paths
    assert [path.read_text(encoding="utf-8")[0] for path in paths] == ["n", "|", "\\"]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_read_back_bit_for_bit(tmp_path_factory, numbers):
    """Every float of a CSV reads back as the very same 64 bits."""
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    tables.write_csv(pd.DataFrame({"value": numbers}), path)
    with path.open(newline="") as file:
        back = [float(row["value"]) for row in csv.DictReader(file)]
    assert [struct.pack("d", number) for number in back] == [
        struct.pack("d", number) for number in numbers
    ]


@given(st.lists(st.text(), min_size=1))
def test_texts_read_back(tmp_path_factory, texts):
    """Every start string of a CSV reads back, whatever characters it has."""
    path = tmp_path_factory.getbasetemp() / "texts.csv"
    tables.write_csv(tables.table1({str(i): text for i, text in enumerate(texts)}), path)
    with path.open(encoding="utf-8", newline="") as file:
        assert [row["start_string"] for row in csv.DictReader(file)] == texts
