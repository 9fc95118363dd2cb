"""Tables as files: which letters they are written in, and that they read back or are refused."""

import csv
import struct
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import DamagedFile
from llmchecker.reporting.table_io import (
    _unguard,
    format_heading,
    read_csv,
    read_table,
    write_csv,
    write_table,
)
from llmchecker.reporting.tables import build_table1


def written(table: pd.DataFrame, suffix: str, directory) -> str:
    path = directory / f"table.{suffix}"
    write_table(table, [path])
    return path.read_bytes().decode("utf-8")


AWKWARD = pd.DataFrame(
    {
        "name": ["a_b", "c|d"],
        "start_string": ['"x",\ny 50% & #1 $\\{}~^_', "`*<b>*[l] | é"],
        "states": [911, 12],
        "share": [1 / 3, 0.00005],
        "check_seconds": [0.0625, 2.0],
    }
)


def test_csv_has_every_digit_and_character(tmp_path):
    """The CSV is plain: all digits, quotes doubled, line breaks kept inside of quotes."""
    assert written(AWKWARD, "csv", tmp_path) == (
        "name,start_string,states,share,check_seconds\n"
        'a_b,"""x"",\ny 50% & #1 $\\{}~^_",911,0.3333333333333333,0.0625\n'
        "c|d,`*<b>*[l] | é,12,5e-05,2.0\n"
    )


def test_markdown_shows_every_cell_as_one_line(tmp_path):
    """In Markdown a cell is one line, its markup is shown and not obeyed, numbers stand right."""
    assert written(AWKWARD, "md", tmp_path).split("\n") == [
        r"| name   | start string              |   states |   share |   check seconds |",
        r"|:-------|:--------------------------|---------:|--------:|----------------:|",
        r'| a_b    | `"x", y 50% & #1 $\{}~^_` |      911 |  0.3333 |           0.062 |',
        r"| `c\|d` | `` `*<b>*[l] \| é ``      |       12 |   5e-05 |           2.000 |",
        "",
    ]


def test_latex_escapes_what_latex_would_obey(tmp_path):
    """In LaTeX every special character of a cell is escaped, and the header has no underscore."""
    assert written(AWKWARD, "tex", tmp_path).split("\n") == [
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"name & start string & states & share & check seconds \\",
        r"\midrule",
        r'a\_b & "x", y 50\% \& \#1 \$\textbackslash \{\}\textasciitilde \textasciicircum \_'
        r" & 911 & 0.3333 & 0.062 \\",
        r"c$|$d & `*$<$b$>$*[l] $|$ é & 12 & 5e-05 & 2.000 \\",
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
    table = pd.DataFrame({"share": [Decimal("0.0000"), None], "note": [None, "n"]})
    table["states"] = pd.array([911, None], dtype="Int64")
    assert written(table, "csv", tmp_path) == "share,note,states\n0.0000,,911\n,n,\n"
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
    """One call writes a file for each path, in the format of its suffix, and a checksum of one."""
    paths = [tmp_path / f"t.{suffix}" for suffix in ("csv", "md", "tex")]
    write_table(AWKWARD, paths)
    assert sorted(tmp_path.iterdir()) == sorted([*paths, tmp_path / "t.csv.sha256"])
    assert [path.read_text(encoding="utf-8")[0] for path in paths] == ["n", "|", "\\"]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_read_back_bit_for_bit(tmp_path_factory, numbers):
    """Every float of a CSV reads back as the very same 64 bits."""
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    write_csv(pd.DataFrame({"value": numbers}), path)
    with path.open(newline="") as file:
        back = [float(row["value"]) for row in csv.DictReader(file)]
    assert [struct.pack("d", number) for number in back] == [
        struct.pack("d", number) for number in numbers
    ]


@given(st.lists(st.text(), min_size=1))
def test_texts_read_back(tmp_path_factory, texts):
    """Every start string of a CSV reads back, whatever characters it has."""
    path = tmp_path_factory.getbasetemp() / "texts.csv"
    write_csv(build_table1({str(i): text for i, text in enumerate(texts)}), path)
    with path.open(encoding="utf-8", newline="") as file:
        assert [_unguard(row["start_string"]) for row in csv.DictReader(file)] == texts


@pytest.mark.parametrize("text", ["=1+1", "+1", "@SUM(A1)", "-a", "\t=1", "'=1", "''", "'"])
def test_no_cell_is_a_formula(text, tmp_path):
    """A text that a spreadsheet would compute stands behind an apostrophe, and reads back."""
    path = tmp_path / "table.csv"
    write_csv(pd.DataFrame({"label": [text, "a"], "value": [-1.5, 2]}), path)
    with path.open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert first["label"] == f"'{text}"
    assert (first["value"], second["label"]) == ("-1.5", "a")
    assert read_csv(path)["label"].tolist() == [text, "a"]


@pytest.mark.parametrize("character", ["\0", "\x1b", "\u202e", "\x9b", "\u2066"])
@pytest.mark.parametrize("suffix", ["md", "tex"])
def test_what_a_terminal_obeys_is_shown(suffix, character, tmp_path):
    """A character that moves, colours or turns a text around is shown and does not act."""
    text = written(pd.DataFrame({"label": [f"a{character}b"]}), suffix, tmp_path)
    assert character not in text
    shown = repr(character)[1:-1]
    assert f"a{shown}b" in text.replace(r"\textbackslash ", "\\")


@pytest.mark.parametrize("read", [read_csv, read_table])
def test_a_table_that_was_cut_is_refused_wherever_it_was_cut(read, tmp_path):
    """No beginning of a table is read, not even one that ends with a row, and the file is named."""
    path: Path = tmp_path / "table.csv"
    write_csv(AWKWARD, path)
    assert len(read_csv(path)) == len(read_table(path).rows) == len(AWKWARD)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile, match=f"{path}: damaged or from an older version"):
            read(path)


@pytest.mark.parametrize(
    ("column", "heading"),
    [
        ("lower", "certain from"),
        ("proof_upper", "proof certain to"),
        ("published_value", "published probability (bounded)"),
        ("states_explored", "states explored"),
        ("L", "L"),
    ],
)
def test_columns_have_the_words_of_the_answers(column, heading):
    """A heading names certain bounds, estimate and bounded figure as the answers do."""
    assert format_heading(column) == heading


def test_bounds_of_several_figures_in_a_row_are_rounded_outwards(tmp_path):
    """The bounds of `proof_lower` and `proof_upper` are as sound as those of `lower`."""
    table = pd.DataFrame({"proof_lower": [0.123456], "proof_upper": [0.123412]})
    assert "0.1234 " in written(table, "md", tmp_path)
    assert "0.1235 " in written(table, "md", tmp_path)
