"""The paper's claims: published figures, those of a run, and the verdict from both."""

from pathlib import Path

import pandas as pd
import pytest

from llmchecker.checking.answer import Answer, Costs
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import InvalidTable
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting.paper.audit import audit
from llmchecker.reporting.paper.claims import (
    build_claims_table,
    count_tokens,
    is_figure4,
    rank_nouns,
)
from llmchecker.reporting.paper.published_table import read_published_figure, read_published_rows
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.interval import PROBABILITIES

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "resources/published"
MASSES = read_published_figure(PUBLISHED / "figure3.csv", ["model", "k", "mass"])
NOUNS = read_published_figure(PUBLISHED / "figure4.csv", ["model", "noun", "value"])
FINDINGS = audit(read_published_rows(PUBLISHED / "table2.csv"))
POSITIVE = "P=? [ F gender > 0 ]"


def build(answers=(), **figures: pd.DataFrame) -> list[tuple]:
    """The claim, model, published figure, figure of the run and verdict of each row."""
    table = build_claims_table(FINDINGS, answers, MASSES, NOUNS, **figures)
    columns = ["claim", "model", "published", "here", "verdict"]
    return list(table[columns].itertuples(index=False, name=None))


def masses(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"model": "One", "k": range(1, len(values) + 1), "mass": values})


def answer(model: str, truncation: Truncation, value: float, **costs: int) -> tuple:
    check = Check(TreeSpec("name", "player", truncation), parse(POSITIVE))
    found = Answer(
        check.query, truncation.length, PROBABILITIES, bounded=value, costs=Costs(**costs)
    )
    return TableRow("Player", "Gender", check, model), found


@pytest.mark.parametrize(
    ("values", "here", "verdict"),
    [
        ((0.8, 0.9), "2", "contradicts"),
        ((0.8, 0.85, 0.9), "3", "agrees"),
        ((0.8, 0.85, 0.89, 0.95), "4", "agrees"),
        ((0.5, 0.6, 0.7), "more than 3, which hold 0.7", "agrees"),
        ((0.5,), "more than 1, which hold 0.5", "not run"),
    ],
)
def test_the_tokens_that_hold_most_are_counted(values, here, verdict):
    """Fewer tokens than of any of the paper's models contradict; too few tokens decide nothing."""
    (row,) = (row for row in build(masses=masses(*values)) if row[0] == "C3")
    assert row == ("C3", "One", "3 to more than 25", here, verdict)


def test_a_published_range_with_an_upper_end_is_closed():
    """Without the models of which 25 tokens hold less, more than 15 tokens contradict."""
    known = MASSES[~MASSES["model"].isin(["Llama-2-7b", "Mistral-7B"])]
    for size, verdict in ((14, "not run"), (15, "contradicts")):
        table = build_claims_table(FINDINGS, (), known, NOUNS, masses(*[0.5] * size))
        assert table.iloc[0][["published", "verdict"]].tolist() == ["3 to 15", verdict]


def test_a_model_is_compared_with_its_family():
    """A Gemma has the range of the paper's Gemmas, which it contradicts where all models agree."""
    run = pd.concat([masses(0.8, 0.82, 0.84, 0.86, 0.88, 0.9)] * 2)
    run["model"] = ["Other-1B"] * 6 + ["gemma-3-270M"] * 6
    rows = [row for row in build(masses=run) if row[0] == "C3"]
    assert [row[1:] for row in rows] == [
        ("Other-1B", "3 to more than 25", "6", "agrees"),
        ("gemma-3-270M", "3 to 5", "6", "contradicts"),
    ]


def test_a_noun_of_another_rank_contradicts():
    """Each noun has its rank by falling probability, which must be one of the published ranks."""
    nouns = ["champ", "jock", "athlete", "player", "contestant"]
    values = [0.5, 0.4, 0.3, 0.2, 0.1]
    run = pd.DataFrame({"model": "One", "noun": nouns, "value": values})
    rows = [row for row in build(nouns=run) if row[0] == "C7"]
    assert [row[2:] for row in rows] == [
        ("1", "1 (0.5)", "agrees"),
        ("2 to 3", "2 (0.4)", "agrees"),
        ("2 to 3", "3 (0.3)", "agrees"),
        ("5", "4 (0.2)", "contradicts"),
        ("4", "5 (0.1)", "contradicts"),
    ]
    assert not [row for row in build(nouns=run[:3]) if row[0] == "C7"]


def test_values_of_the_same_model_are_compared_in_the_printed_digits():
    """A value agrees that rounds to the published one, and without a run nothing is claimed."""
    truncation = Truncation(0.8, 15, 5)
    for value, here, verdict in (
        (0.00204, "1 of 1 row with a run have the value", "agrees"),
        (0.0021, "0 of 1 row with a run have the value", "contradicts"),
    ):
        rows = build([answer("Gemma-2B", truncation, value)])
        assert rows[0][2:] == ("23 rows", here, verdict)
    assert build([answer("Other", truncation, 0.002)])[0][2:] == ("23 rows", "0 rows", "not run")


def test_sizes_of_the_uncut_tree_are_compared():
    """The tree that nothing cuts has the published size with the L of the audit, or contradicts."""
    truncation = Truncation(1.0, 9, 3)
    for states, verdict in ((911, "agrees"), (910, "contradicts")):
        rows = build([answer("Other", truncation, 0, states=states, transitions=1730)])
        assert rows[1][2:] == ("911 and 1730", f"{states} and 1730", verdict)
    assert build()[-1][2:] == ("23", "20", "contradicts")


def test_the_page_has_the_published_figures():
    """The page on the paper names the number of tokens of each of the paper's models."""
    counts = count_tokens(MASSES)
    assert counts.pop("Gemma-7B") == 3 == min(n for n in [3, *counts.values()] if n is not None)
    text = " ".join((ROOT / "docs/explanation/paper.md").read_text(encoding="utf-8").split())
    told = "BERT needs {BERT}, Gemma-2B {Gemma-2B} and Genstruct-7B {Genstruct-7B}; Llama-2-7b and "
    told += f"Mistral-7B need more than {MASSES['k'].max()}"
    assert told.format(**counts) in text
    assert counts["Llama-2-7b"] is counts["Mistral-7B"] is None
    ranks = rank_nouns(NOUNS)
    assert f"The range of C7 is that of {['four', 'five', 'six'][len(ranks) - 4]} models" in text
    assert all((of["champ"], of["player"]) == (1, 5) for of in ranks.values())


def test_another_question_is_not_figure_4():
    """Nouns are compared only if the run asks the query of the paper's Figure 4 on its trees."""
    (asked, _), (other, _) = (answer("One", Truncation(0.95, 9, n), 0) for n in (3, 4))
    assert is_figure4([asked.check])
    assert not is_figure4([asked.check, other.check])
    assert not is_figure4([])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,k,mas\nOne,1,0.5\n", "the columns are model, k, mas; expected model, k, mass"),
        ("model,k,mass\nOne,1,0.5\nOne,2,1.5\n", "line 3: mass: 1.5 is not a probability"),
        ("model,k,mass\nOne,1,0.5", "line 2: no end of line"),
    ],
)
def test_damaged_data_of_a_figure_are_refused(content, message, tmp_path):
    """Other columns, an impossible probability and a cut line are errors that name the file."""
    path = tmp_path / "figure3.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidTable, match=f"{path}.*{message}"):
        read_published_figure(path, ["model", "k", "mass"])
