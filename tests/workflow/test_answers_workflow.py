"""`answer` in the workflow, run as a person runs it on a small random model."""

import json

import pandas as pd
import pytest
from helpers.project import ROOT, Project, read_config, stats

from llmchecker.utils.atomic_files import _DIGEST_KEY

pytestmark = pytest.mark.slow

READABLE = "P=? [ F readability > 8000 ]"
ALWAYS = "A [ F readability > 8000 ]"
SHAPE = {"alpha": 0.5, "k": 2, "L": 2}
AFTER_ANSWERS = dict.fromkeys(("provenance", "table2", "comparison", "figure4", "report"), 1)
LAYERS = ["lower", "low", "estimate", "high", "upper"]


def experiment(label: str, **settings: object) -> dict:
    """An experiment with a query that samples can estimate."""
    return {"label": label, "interest": "Test", "start": "player", "queries": [READABLE]} | settings


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after its first run, and what that run printed."""
    config = {
        "models": {"gpt2": {"label": "A", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": "The player"},
        "quantifiers": {"gender": {}, "readability": {}},
        "answer": {"passes": 40},
        "experiments": [
            experiment("Cut", **SHAPE, queries=[READABLE, ALWAYS]),
            experiment("Whole", L=2, answer={"passes": 30, "seed": 5, "confidence": 0.9}),
        ],
        "figure4": {"starts": ["player"], **SHAPE, "k": 3, "query": READABLE},
    }
    project = Project(tmp_path_factory.mktemp("answers"), config)
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project, run.stdout


@pytest.fixture
def project(finished) -> Project:
    return finished[0]


def read_answers(project: Project) -> list[dict]:
    return [json.loads(path.read_text()) for path in project.found("answers/**/*.json")]


@pytest.mark.long
def test_one_job_computes_all_answers_of_a_model(finished):
    """Every check has its answer within its passes, from a single job that loads the model once."""
    project, printed = finished
    assert stats(printed)["answers_gpt2"] == 1
    records = read_answers(project)
    assert sorted(record["limits"]["passes"] for record in records) == [30, 40, 40, 40]
    assert all(record["passes"] <= record["limits"]["passes"] for record in records)
    (without,) = (record for record in records if record["samples"] is None)
    assert without["query"] == ALWAYS
    assert not any(without["history"].values())
    assert without["outcome"] in ("HOLDS", "VIOLATED", "UNKNOWN")
    (note,) = without["notes"]
    assert note.startswith("There is no estimate: E and A ask for some path or every path")


@pytest.mark.long
def test_every_interval_of_a_history_holds_within_its_bounds(project):
    """The certain bounds only narrow, and the interval after each round is within them."""
    for record in read_answers(project):
        if record["samples"] is None:
            continue
        history = pd.DataFrame(record["history"])
        assert history["passes"].is_monotonic_increasing
        assert history["lower"].is_monotonic_increasing
        assert history["upper"].is_monotonic_decreasing
        sampled = history.dropna()
        assert len(sampled) > 0
        assert (sampled["lower"] <= sampled["low"]).all()
        assert (sampled["high"] <= sampled["upper"]).all()


@pytest.mark.long
def test_table_and_figure_show_three_layers(project):
    """Rows and bars have the interval of their answer within bounds that tree and answer share;
    what samples cannot estimate has empty cells."""
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    assert table["samples"].notna().tolist() == [True, False, True]
    assert table["confidence"].fillna(0).tolist() == [0.99, 0, 0.9]
    shown = table[table["samples"].notna()].astype({"lower": float, "upper": float})
    shown = pd.concat([shown, pd.read_csv(project.directory / "results/tables/figure4.csv")])
    for _, row in shown.astype({"estimate": float}).iterrows():
        layers = row[LAYERS].tolist()
        assert layers == sorted(layers)
    verdicts = [json.loads(path.read_text()) for path in project.found("checks/**/*.json")]
    ends = {end: {each[end] for each in (*verdicts, *read_answers(project))} for end in LAYERS[::4]}
    assert set(shown["lower"]) <= ends["lower"]
    assert set(shown["upper"]) <= ends["upper"]
    page = (project.directory / "results/report.html").read_text(encoding="utf-8")
    assert [page.count(f">with confidence {level}, ") for level in (0.99, 0.9)] == [1, 1]
    assert "There is no estimate: E and A ask" in page


@pytest.mark.long
def test_an_answer_alone_has_no_tree_and_no_value(project):
    """It has one file, with its witnesses, and a row without value, alpha and k."""
    (path,) = project.found("answers/gpt2/player/L2/*.json")
    record = json.loads(path.read_text())
    assert all(witness["text"].startswith("The player") for witness in record["witnesses"])
    for folder in ("trees", "scores", "prism", "jani", "checks", "crosschecks"):
        assert project.found(f"{folder}/gpt2/player/L2/**/*") == []
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    for column in ("alpha", "k", "value", "states"):
        assert table[column].isna().tolist() == [False, False, True]
    with_tree = [r for r in read_answers(project) if r["check"] != record["check"]]
    assert all(each["witnesses"] == [] for each in with_tree)
    assert record["states"] is None


@pytest.mark.long
def test_a_seed_gives_the_same_bits_without_the_stored_distributions(project):
    """Computed again from nothing, an answer differs in its seconds and its date alone."""
    before = read_answers(project)
    (project.directory / "results/distributions").rename(project.directory / "moved")
    run = project.snakemake("--cores", "1", "--forcerun", "answers_gpt2", "--", "answers_gpt2")
    assert run.returncode == 0, run.stdout
    after = read_answers(project)
    for record in (*before, *after):
        # the digest is that of the whole file
        for name in ("seconds", "making", _DIGEST_KEY):
            del record[name]
        del record["history"]["seconds"]
    assert after == before


@pytest.mark.long
def test_without_answers_no_model_is_loaded_for_them(project):
    """A configuration without answers has no such job, and its tables empty cells."""
    config = read_config(project)
    del config["answer"], config["experiments"][1]
    with project.configured(config):
        planned = project.planned()
    assert planned == AFTER_ANSWERS


def test_the_profile_of_slurm_needs_nothing_new():
    """The rules that ask models name their time and memory as those of trees do."""
    text = (ROOT / "workflow/rules/answers.smk").read_text(encoding="utf-8")
    assert "runtime=" in text
    assert "**get_model_resources(model)," in text
