"""The published table beside a run's."""

from pathlib import Path

import pandas as pd
import pytest

from llmchecker.checking.answer import Answer, Costs
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.paper.audit import AuditRow, audit
from llmchecker.reporting.paper.comparison import _COMPARISON_COLUMNS, build_comparison_table
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


def of_runs(table: pd.DataFrame) -> list[dict]:
    """The rows of a table that show a run, without their empty cells."""
    records = table.astype(object).to_dict("records")
    filled = [{c: cell for c, cell in r.items() if not pd.isna(cell)} for r in records]
    return [r for r in filled if "value" in r]


def test_without_a_run_every_published_row_stands_alone(findings):
    """With nothing run, the comparison has each of the published rows once, as it was printed."""
    table = build_comparison_table(findings, [])
    assert list(table.columns) == _COMPARISON_COLUMNS
    assert sorted(table["row"]) == list(range(1, 24))
    assert set(table["match"]) == {"no run of this model"}
    by_number = table.set_index("row")
    for row in (finding.row for finding in findings):
        shown = by_number.loc[row.number]
        assert (shown["model"], shown["published_L"], shown["query"]) == (
            row.model,
            row.truncation.length,
            row.query.text,
        )
        assert shown["published_states"] == row.states
        assert shown["published_value"] == row.value
    assert set(by_number.query("audit == 'contradiction'").index) == {19, 22, 23}


def test_a_run_of_the_same_model_stands_beside_its_row(findings):
    """A run with the model, label, query and parameters of a row is beside it, with differences."""
    table = build_comparison_table(
        findings, [run("gemma-7b", Truncation(0.8, 15, 5), "P=?[F gender>0]")]
    )
    assert len(table) == 23
    (shown,) = of_runs(table)
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
    assert of_runs(build_comparison_table(findings, [unlike])) == []


def test_a_run_of_another_model_follows_the_rows_without_a_difference(findings):
    """Another model's run stands once, below the rows with its parameters, as another model's."""
    table = build_comparison_table(findings, [run("SmolLM2-135M", Truncation(0.8, 15, 5))])
    assert len(table) == 24
    assert table["model"][:7].tolist() == [
        *("BERT", "Gemma-2B", "Gemma-7B", "Llama-2-7b", "Mistral-7B", "Genstruct-7B"),
        "SmolLM2-135M",
    ]
    (shown,) = of_runs(table)
    assert shown["match"] == "parameters, another model"
    about_both = {
        c for c in _COMPARISON_COLUMNS if c.startswith("published_") or c.endswith("_difference")
    }
    assert about_both & set(shown) == {"published_L"}
    assert not {"row", "audit"} & set(shown)


def test_an_impossible_l_is_compared_with_the_one_that_fits(findings):
    """For a row whose L cannot be, the run with the smallest L that can stands there, labelled."""
    runs = [run(model, Truncation(1.0, 9, 3)) for model in ("Gemma-2B", "SmolLM2-135M")]
    own, other = of_runs(build_comparison_table(findings, runs))
    assert (own["row"], own["published_L"], own["L"]) == (22, 2, 3)
    assert own["match"] == "model and parameters, L from the audit"
    assert own["states_difference"] == 90 - 911
    assert (other["published_L"], other["L"]) == (2, 3)
    assert other["match"] == "parameters, another model, L from the audit"


def test_an_absent_figure_is_an_empty_cell(findings, tmp_path):
    """What was not run or not published is empty in every format, and whole numbers stay whole."""
    paths = [tmp_path / f"comparison.{suffix}" for suffix in ("csv", "md", "tex")]
    write_table(build_comparison_table(findings, [run("Gemma-7B", Truncation(0.8, 15, 5))]), paths)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not {"nan", "NaN", "None", "<NA>"} & set(text.replace(",", " ").split())
    csv, md, tex = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    assert csv[1].endswith("model,0.0000,,,0.8,15,5,,11,,,,16,,,2,,0.03,,,consistent")
    figures = "0.0000,0.25,0.25,0.8,15,5,5,94,90,-4,500,156,150,-6,7,1.5,0.3,0.0625"
    assert csv[3].endswith(f",model and parameters,{figures},The player won because,consistent")
    cells = [cell.strip() for cell in md[2].strip("|").split("|")]
    assert [cells[6], *cells[13:20]] == ["0.0000", "11", "", "", "", "16", "", ""]
    assert tex[0] == r"\begin{tabular}{rlllll" + 18 * "r" + "ll}"
