"""The published table beside a run's."""

from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from llmchecker.checking.answer import Answer, Costs
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.paper.audit import AuditRow, audit
from llmchecker.reporting.paper.comparison import (
    _COMPARISON_COLUMNS,
    build_comparison_table,
    describe_rows_without_run,
)
from llmchecker.reporting.paper.published_table import read_published_rows
from llmchecker.reporting.table_io import write_table
from llmchecker.reporting.tables import AnsweredRow
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.interval import PROBABILITIES

TABLE2 = Path(__file__).parents[3] / "resources/published/table2.csv"
POSITIVE = "P=? [ F gender > 0 ]"


def run(
    model: str, truncation: Truncation, query: str = POSITIVE, label: str = "Player"
) -> AnsweredRow:
    """A run of a model, by its label, whose figures are all different."""
    asked = parse(query)
    check = Check(TreeSpec("name", "player", truncation), asked)
    row = TableRow(label, "Gender", check, model, "The player won because")
    costs = Costs(500, 900, 90, 150, 1.5, 0.0625)
    answer = Answer(asked, truncation.length, PROBABILITIES, bounded=0.25, costs=costs)
    return row, answer


@pytest.fixture(scope="module")
def findings() -> tuple[AuditRow, ...]:
    return audit(read_published_rows(TABLE2))


def rows_of(table: pd.DataFrame) -> list[dict]:
    """The rows of a table, without their empty cells."""
    records = table.astype(object).to_dict("records")
    return [{c: cell for c, cell in r.items() if not pd.isna(cell)} for r in records]


def test_published_rows_without_a_run_are_counted(findings):
    """The comparison has rows of runs alone, and a sentence counts the other published rows."""
    table = build_comparison_table(findings, [])
    assert list(table.columns) == _COMPARISON_COLUMNS
    assert len(table) == 0
    assert "Of the paper's 23 rows, 23 have no run" in describe_rows_without_run(findings, table)
    same, other = run("Gemma-7B", Truncation(0.8, 15, 5)), run("One", Truncation(0.8, 15, 5))
    table = build_comparison_table(findings, [same, other])
    assert "23 rows, 22 have no run" in describe_rows_without_run(findings, table)
    assert describe_rows_without_run(findings[4:5], table) == ""


def test_a_run_of_the_same_model_stands_beside_its_row(findings):
    """A run with the model, label, query and parameters of a row is beside it, with differences."""
    table = build_comparison_table(
        findings, [run("gemma-7b", Truncation(0.8, 15, 5), "P=?[F gender>0]")]
    )
    (shown,) = rows_of(table)
    assert (shown["row"], shown["model"], shown["match"]) == (5, "Gemma-7B", "model and parameters")
    assert (
        shown
        | {
            "published_states": 94,
            "published_transitions": 156,
            "published_value": 0,
            "states_explored": 90,
            "transitions_explored": 150,
            "states": 500,
            "value": 0.25,
            "states_difference": -4,
            "transitions_difference": -6,
            "value_difference": 0.25,
            "published_lowest": 0,
            "published_highest": Decimal("0.0365"),
            "encode_seconds": 1.5,
            "check_seconds": 0.0625,
            "start_string": "The player won because",
        }
        == shown
    )


@pytest.mark.parametrize(
    "unlike",
    [
        run("Gemma-7B", Truncation(0.9, 15, 5)),
        run("Gemma-7B", Truncation(0.8, 14, 5)),
        run("Gemma-7B", Truncation(0.8, 15, 4)),
        run("Gemma-7B", Truncation(0.8, 15, 5), "P=? [ F gender >= 0 ]"),
        run("Gemma-7B", Truncation(0.8, 15, 5), label="Athlete"),
    ],
)
def test_a_run_that_asks_something_else_is_left_out(findings, unlike):
    """A run that differs in one parameter, in the query or in the label is not compared."""
    assert rows_of(build_comparison_table(findings, [unlike])) == []


def test_a_run_of_another_model_has_the_published_range(findings):
    """Another model's run has no difference, but the range of the published values."""
    (shown,) = rows_of(build_comparison_table(findings, [run("Other", Truncation(0.8, 15, 5))]))
    assert (shown["model"], shown["match"]) == ("Other", "parameters, another model")
    about_both = {
        c for c in _COMPARISON_COLUMNS if c.startswith("published_") or c.endswith("_difference")
    }
    ranges = {"published_lowest", "published_highest"}
    assert about_both & set(shown) == {"published_L", *ranges}
    assert [str(shown[name]) for name in sorted(ranges)] == ["0.0365", "0.0000"]
    assert not {"row", "audit"} & set(shown)


def test_an_impossible_l_is_compared_with_the_one_that_fits(findings):
    """For a row whose L cannot be, the run with the smallest L that can stands there, labelled."""
    runs = [run(model, Truncation(1.0, 9, 3)) for model in ("Gemma-2B", "SmolLM2-135M")]
    own, other = rows_of(build_comparison_table(findings, runs))
    assert (own["row"], own["published_L"], own["L"]) == (22, 2, 3)
    assert own["match"] == "model and parameters, L from the audit"
    assert own["states_difference"] == 90 - 911
    assert (other["published_L"], other["L"]) == (2, 3)
    assert other["match"] == "parameters, another model, L from the audit"


def test_an_absent_figure_is_an_empty_cell(findings, tmp_path):
    """What was not run or not published is empty in every format, and whole numbers stay whole."""
    paths = [tmp_path / f"comparison.{suffix}" for suffix in ("csv", "md", "tex")]
    runs = [run(model, Truncation(0.8, 15, 5)) for model in ("Gemma-7B", "Other")]
    write_table(build_comparison_table(findings, runs), paths)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not {"nan", "NaN", "None", "<NA>"} & set(text.replace(",", " ").split())
    csv, md, tex = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    figures = "0.0000,0.25,0.25,0.0000,0.0365,0.8,15,5,5,94,90,-4,500,156,150,-6,7,1.5,0.3,0.0625"
    same = f"5,Player,Gender,Gemma-7B,{POSITIVE},model and parameters,{figures},"
    assert csv[1] == f"{same}The player won because,consistent"
    other = "parameters, another model"
    assert csv[2].startswith(f',Player,Gender,Other,{POSITIVE},"{other}",,0.25,,0.0000,0.0365,')
    cells = [cell.strip() for cell in md[3].strip("|").split("|")]
    assert cells[6:11] == ["", "0.25", "", "0.0000", "0.0365"]
    assert tex[0] == r"\begin{tabular}{rlllll" + 20 * "r" + "ll}"
