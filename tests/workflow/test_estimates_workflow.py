"""`estimate` and `refine` in the workflow, run as a person runs it on a small random model."""

import json

import pandas as pd
import pytest
from helpers.project import ROOT, Project, jobs, read_config, stats

pytestmark = pytest.mark.slow

READABLE = "P=? [ F readability > 8000 ]"
ALWAYS = "A [ F readability > 8000 ]"
SHAPE = {"alpha": 0.5, "k": 2, "L": 2}
AFTER_ESTIMATES = dict.fromkeys(("provenance", "table2", "comparison", "figure4", "report"), 1)


def experiment(label: str, **settings: object) -> dict:
    """An experiment with a query that can be estimated."""
    return {"label": label, "interest": "Test", "start": "player", "queries": [READABLE]} | settings


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after its first run, and what that run printed."""
    config = {
        "models": {"gpt2": {"label": "A", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": "The player"},
        "quantifiers": {"gender": {}, "readability": {}},
        "estimate": {"samples": 40},
        "experiments": [
            experiment("Cut", **SHAPE, queries=[READABLE, ALWAYS]),
            experiment("Refined", L=2, refine={"passes": 6}, estimate={"samples": 30, "seed": 5}),
        ],
        "figure4": {"starts": ["player"], **SHAPE, "k": 3, "query": READABLE},
    }
    project = Project(tmp_path_factory.mktemp("estimates"), config)
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project, run.stdout


@pytest.fixture
def project(finished) -> Project:
    return finished[0]


def estimates(project: Project) -> list[dict]:
    return [json.loads(path.read_text()) for path in project.found("estimates/**/*.json")]


def test_one_job_draws_all_samples_of_a_model(finished):
    """Every check has its estimate, from a single job that loads the model once."""
    project, printed = finished
    assert stats(printed)["estimates_gpt2"] == 1
    assert stats(printed)["refined_gpt2"] == 1
    assert sorted(record["samples"] or 0 for record in estimates(project)) == [0, 30, 40, 40]
    (without,) = (record for record in estimates(project) if record["samples"] is None)
    assert without["query"] == ALWAYS
    assert without["note"].startswith("E and A ask for some path or every path")


def test_table_and_figure_show_the_estimates(project):
    """Rows and bars have the estimates of their trees, within their bounds; what cannot be
    estimated has empty cells."""
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    assert table["samples"].fillna(0).tolist() == [40, 0, 30]
    shown = table[table["samples"].notna()].astype({"lower": float, "upper": float})
    shown = pd.concat([shown, pd.read_csv(project.directory / "results/tables/figure4.csv")])
    for _, row in shown.astype({"estimate": float}).iterrows():
        assert row["confidence"] == 0.99
        assert row["lower"] <= row["low"] <= row["estimate"] <= row["high"] <= row["upper"]
    found = {(r["samples"], r["low"], r["high"]) for r in estimates(project)}
    assert set(shown[["samples", "low", "high"]].itertuples(index=False, name=None)) <= found
    page = (project.directory / "results/report.html").read_text(encoding="utf-8")
    assert page.count("With confidence 0.99: ") == 2
    assert "There is no estimate: E and A ask" in page


def test_a_refined_tree_is_a_tree_like_any_other(project):
    """It has scores, chains in both languages, a verdict that Storm's front end confirms, and a row
    without alpha and k."""
    (tree,) = project.found("trees/gpt2/player/refined_passes6_L2_*.parquet")
    record = json.loads(tree.with_suffix(".json").read_text())
    assert record["nodes"] > 0
    assert len(record["makings"]) == 1
    for pattern in ("scores/gpt2/player/refined*/readability.parquet", "prism/**/refined*/*.prism"):
        assert len(project.found(pattern)) == 1
    (outcome,) = project.found("crosschecks/gpt2/player/refined*/*.json")
    assert json.loads(outcome.read_text())["compared"] is True
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    assert table["alpha"].isna().tolist() == table["k"].isna().tolist() == [False, False, True]
    assert "refined by 6 passes, L=2" in (project.directory / "results/report.html").read_text()


def test_a_changed_estimate_regrows_no_tree(project):
    """Other samples make the estimates again and what shows them, but no tree, score or verdict."""
    config = read_config(project)
    config["estimate"]["samples"] = 41
    with project.configured(config):
        assert project.planned() == jobs(["estimates"], ["gpt2"]) | AFTER_ESTIMATES


def test_changed_sampling_code_regrows_no_tree(project):
    """A change of how samples are drawn makes the estimates again, and no tree."""
    with project.appended("src/llmchecker/checking/anytime/path_sampler.py", "\n# changed\n"):
        assert project.planned() == jobs(["estimates"], ["gpt2"]) | AFTER_ESTIMATES


def test_a_changed_refinement_leaves_other_trees(project):
    """More passes refine the tree again that they are for; trees with an alpha and a k stay."""
    config = read_config(project)
    config["experiments"][1]["refine"]["passes"] = 7
    with project.configured(config):
        planned = project.planned()
    stages = ("refined", "scores", "prism", "checks", "crosschecks", "estimates")
    assert planned == jobs(stages, ["gpt2"]) | AFTER_ESTIMATES


def test_without_estimates_no_model_is_loaded_for_them(project):
    """A configuration that estimates nothing has no such job, and its tables empty cells."""
    config = read_config(project)
    del config["estimate"], config["experiments"][1]["estimate"]
    with project.configured(config):
        planned = project.planned()
    assert planned == AFTER_ESTIMATES


def test_the_profile_of_slurm_needs_nothing_new():
    """The rules that ask models name their time and memory as those of trees do."""
    text = (ROOT / "workflow/rules/estimates.smk").read_text(encoding="utf-8")
    assert "runtime=" in text
    assert "**get_model_resources(model)," in text
