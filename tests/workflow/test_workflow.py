"""The workflow, run as a person runs it, on small random models, one for each kind of tokenizer."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.project import (
    CHECKS,
    EMPTY,
    FIGURE,
    GENDER,
    LABELS,
    LAST,
    MODELS,
    PROMPTS,
    ROOT,
    ROWS,
    SHARDS,
    STAGES,
    START_STRINGS,
    TABLE,
    TREES,
    Project,
    configuration,
    jobs,
    read_config,
    stats,
)

from llmchecker.models.sources.prompt_set import read_prompts
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import TextTree, Truncation

pytestmark = pytest.mark.slow

MADE_OF_CHECKS = dict.fromkeys(
    ("provenance", "table2", "comparison", "figure3", "figure4", "report"),
    1,
)

QUANTIFIERS = "src/llmchecker/properties/quantifiers"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after its first run, and what that run printed."""
    directory = tmp_path_factory.mktemp("project")
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.csv"
    pd.DataFrame({"prompt": PROMPTS}).to_csv(prompts, index=False)
    models = {architecture: random_model(architecture) for architecture in MODELS}
    project = Project(directory, configuration(models, prompts))
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project, run.stdout


@pytest.fixture
def project(finished) -> Project:
    return finished[0]


def test_a_small_run_has_the_tree_and_the_chance_of_one_process(tmp_path, random_model):
    """The verdict has the tree's size and the sum of its paths, and a second run does nothing."""
    config = deepcopy(EMPTY)
    config["models"]["one"]["source"] = f"path:{random_model('gpt2')}"
    config["experiments"][0]["queries"] = [LAST]
    project = Project(tmp_path, config)
    run = project.snakemake("--cores", "2", "--until", "checks_one")
    assert run.returncode == 0, run.stdout
    start = config["start_strings"]["player"]
    tree = build_tree(load_model(random_model("gpt2")), start, Truncation(0.8, 3, 2))
    reached = [1.0]
    for parent, probability in zip(tree.parent[1:], tree.probability[1:], strict=True):
        reached.append(reached[parent] * probability)
    (verdict,) = (json.loads(path.read_text()) for path in project.found("checks/**/*.json"))
    assert verdict["states"] == len(tree)
    assert verdict["bounded"] == pytest.approx(sum(np.array(reached)[tree.step == 2]))
    assert project.planned("--until", "checks_one") == {}


@pytest.mark.long
def test_every_result_is_written(project):
    """One command writes every table, figure, tree, PRISM file and verdict of the configuration."""
    names = [
        *(f"figures/figure{number}.{suffix}" for number in (3, 4) for suffix in FIGURE),
        *(f"tables/table{number}.{suffix}" for number in (1, 2) for suffix in TABLE),
        *("tables/figure3.csv", "tables/figure4.csv", "tables/witnesses.md"),
        *("tables/audit.csv", "tables/audit.md"),
        *(f"tables/comparison.{suffix}" for suffix in TABLE),
        *("tables/claims.csv", "tables/claims.md"),
        *(f"topk/{model}.parquet" for model in MODELS),
    ]
    names += [f"{name}.sha256" for name in names if name.endswith((".csv", ".svg"))]
    folders = ("figures", "tables", "topk")
    written = [path for folder in folders for path in project.found(f"{folder}/*")]
    assert written == [project.directory / "results" / name for name in sorted(names)]
    assert all(path.stat().st_size > 0 for path in written)
    grown = project.found("trees/*/*/*.parquet")
    assert grown == sorted(project.tree(model, start) for model, start in TREES)
    programs = [path.name for path in project.found("prism/*/*/*/*.prism")]
    assert sorted(programs) == [
        "gender-similarity.prism",
        *["gender.prism"] * len(MODELS),
        "step.prism",
    ]
    assert len(project.found("checks/*/*/*/*.json")) == CHECKS
    assert len(project.found("report.html")) == 1


@pytest.mark.long
def test_both_routes_agree_on_every_check(project):
    """Every verdict was compared with what Storm says about a file of the chain."""
    outcomes = [json.loads(path.read_text()) for path in project.found("crosschecks/**/*.json")]
    assert len(outcomes) == CHECKS
    for outcome in outcomes:
        assert outcome["compared"] is True
        assert outcome["value_of_file"] == pytest.approx(outcome["value"], abs=1e-12)


@pytest.mark.long
def test_sums_and_storm_agree_on_every_check(project):
    """Each answer has the numbers of both evaluators, since each query is a path formula."""
    outcomes = [json.loads(path.read_text()) for path in project.found("checks/**/*.json")]
    assert len(outcomes) == CHECKS
    for evaluators in (outcome["evaluators"] for outcome in outcomes):
        assert evaluators["compared"] is True
        assert evaluators["sums"][0] == pytest.approx(evaluators["storm"][0])


@pytest.mark.long
def test_sizes_follow_from_the_trees(project):
    """In every verdict there are 2 N - 1 - I transitions, N and I being counted in the tree."""
    verdicts = project.found("checks/**/*.json")
    for path in verdicts:
        place = path.parent.relative_to(project.directory / "results/checks")
        tree = pd.read_parquet(project.directory / f"results/trees/{place}.parquet")
        internal = tree["parent"][1:].nunique()
        verdict = json.loads(path.read_text(encoding="utf-8"))
        assert verdict["states"] == len(tree)
        assert verdict["transitions"] == 2 * len(tree) - 1 - internal


@pytest.mark.long
def test_table2_shows_the_verdicts(project):
    """Table II has the rows in the order of the configuration, with the numbers of the verdicts."""
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    rows = list(zip(table["label"], table["model"], table["query"], strict=True))
    assert rows == [(label, LABELS[model], query) for label, model, query in ROWS]
    verdicts = [json.loads(path.read_text()) for path in project.found("checks/*/*/*/*.json")]
    numbers = {(v["query"], v["states"], v["transitions"], v["bounded"]) for v in verdicts}
    shown = table[["query", "states", "transitions", "value"]].itertuples(index=False, name=None)
    assert set(shown) <= numbers


@pytest.mark.long
def test_figures_have_a_row_for_every_model(project):
    """The numbers of the figures cover all models; the mass within k grows with k."""
    table = pd.read_csv(project.directory / "results/tables/figure3.csv")
    assert table["model"].unique().tolist() == list(LABELS.values())
    for _, rows in table.groupby("model"):
        assert rows["k"].tolist() == [1, 2, 3, 4, 5]
        assert rows["mass"].is_monotonic_increasing
        assert 0 < rows["mass"].iloc[0] < rows["mass"].iloc[4] <= 1
    nouns = pd.read_csv(project.directory / "results/tables/figure4.csv")
    assert nouns["model"].tolist() == list(LABELS.values())
    assert set(nouns["noun"]) == {"awkward"}


@pytest.mark.long
def test_texts_survive_the_workflow(project):
    """Start strings and prompts arrive letter for letter, empty ones and emoji included."""
    table = pd.read_csv(project.directory / "results/tables/table1.csv", keep_default_na=False)
    assert dict(zip(table["name"], table["start_string"], strict=True)) == START_STRINGS
    for model, start in TREES:
        if model != "bert":  # whose tokenizer knows neither capitals nor most characters
            assert pd.read_parquet(project.tree(model, start))["text"][0] == START_STRINGS[start]
    assert read_prompts(project.directory / "resources/datasets/prompts.csv", "prompt") == PROMPTS


@pytest.mark.long
def test_progress_is_visible(finished):
    """For every tree the run prints, and its log keeps, the nodes and the nodes a second."""
    project, printed = finished
    for model, start in TREES:
        said = re.compile(rf"{model}/{start}/alpha0\.8_k3_L2: (\d+) nodes in [\d.]+ s, \d+ nodes/s")
        log = project.directory / f"results/logs/trees/{model}.log"
        tree = pd.read_parquet(project.tree(model, start))
        counted = str(tree["parent"][1:].nunique())
        assert said.findall(printed) == [counted]
        assert said.findall(log.read_text(encoding="utf-8")) == [counted]


@pytest.mark.long
def test_trees_are_those_that_one_process_grows(project, random_model):
    """Jobs that share cores and stored distributions grow the trees of one process without them."""
    for model, start in TREES:
        kind = "masked" if model == "bert" else "causal"
        whole = load_model(random_model(model), kind=kind)
        expected = build_tree(whole, START_STRINGS[start], Truncation(0.8, 3, 2))
        tree = TextTree.read(project.tree(model, start))
        assert tree.text.tolist() == expected.text.tolist()
        assert tree.probability.tobytes() == expected.probability.tobytes()


@pytest.mark.long
def test_one_job_a_model_and_stage(finished):
    """However many trees, scores and queries a model has, its run has one job for each stage."""
    _, printed = finished
    assert stats(printed) == {
        **jobs(STAGES),
        **{"fetch_model": len(MODELS), "topk": len(MODELS), "fetch_prompts": 1, "shard": 2},
        **{"table1": 1, "audit": 1},
        **MADE_OF_CHECKS,
    }


@pytest.mark.long
def test_the_profile_is_used(finished):
    """A plain call of snakemake takes the options of profiles/default."""
    assert "Using workflow specific profile profiles/default" in finished[1]


@pytest.mark.long
def test_a_second_run_does_nothing(project):
    """When nothing has changed, not even a file that was written again, nothing is to be done."""
    for file in (
        "src/llmchecker/trees/expansion.py",
        "src/llmchecker/properties/quantifiers/gender_words/male.txt",
    ):
        (project.directory / file).touch()
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0
    assert "Nothing to be done" in run.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "again"),
    [
        (["trees/gpt2"], jobs(STAGES, ["gpt2"])),
        (
            ["figures/figure3.png", "crosschecks/gpt2/empty"],
            {"figure3": 1} | jobs(["crosschecks"], ["gpt2"]),
        ),
    ],
    ids=["trees", "for people and outcomes"],
)
def test_lost_files_are_made_again(project, lost, again):
    """Files that were deleted are made again, of the model alone to which they belong."""
    paths = [project.directory / "results" / name for name in lost]
    for path in paths:
        path.rename(path.with_suffix(".kept"))
    planned = project.planned()
    for path in paths:
        path.with_suffix(".kept").rename(path)
    assert planned.items() >= again.items()
    dear = {f"{stage}_{model}" for stage in (*STAGES, "topk") for model in MODELS} | {"fetch_model"}
    assert not (planned.keys() & dear) - again.keys()


@pytest.mark.long
def test_a_new_query_and_a_new_start_string_concern_their_models_alone(project):
    """A query costs the model that it asks its checks; a start string costs another its tree."""
    config = read_config(project)
    config["experiments"][0]["queries"].append("P=? [ G gender <= 0 ]")
    config["start_strings"]["new"] = "A new text"
    config["experiments"].append(
        {"label": "New", "interest": "Test", "start": "new", "models": ["bert"]}
        | {"alpha": 0.5, "k": 2, "L": 2, "queries": [GENDER]}
    )
    with project.configured(config):
        planned = project.planned()
    of_query, of_start = jobs(["checks", "crosschecks"], ["llama"]), jobs(STAGES, ["bert"])
    assert planned == of_query | of_start | {"table1": 1} | MADE_OF_CHECKS


@pytest.mark.long
def test_a_new_protected_text_and_a_larger_k_of_the_statistics_grow_no_tree(project):
    """A changed setting of a quantifier makes the scores again of the models that are asked it;
    the settings of the statistics are of no concern to trees, though one job asks both."""
    config = read_config(project)
    config["quantifiers"]["similarity"]["protected"].append("fire of my loins")
    config["topk"]["maximum_k"] += 1
    with project.configured(config):
        planned = project.planned()
    assert planned == jobs(STAGES[1:], ["llama"]) | {"topk": len(MODELS)} | MADE_OF_CHECKS


@pytest.mark.long
def test_a_changed_source_is_fetched(project):
    """A model or data set that is to come from elsewhere is fetched, and all of it made again."""
    config = read_config(project)
    config["models"]["bert"]["source"] += "/."
    config["topk"]["source"] = "path:elsewhere.csv"
    with project.configured(config):
        planned = project.planned()
    again = {"fetch_model": 1, "fetch_prompts": 1, "topk": len(MODELS)} | jobs(STAGES, ["bert"])
    assert planned.items() >= again.items()
    assert not {f"trees_{model}" for model in MODELS if model != "bert"} & planned.keys()


@pytest.mark.long
def test_statistics_are_asked_by_the_job_that_has_loaded_the_model(project):
    """When trees have been grown, the job of the statistics finds its answers in the store."""
    grown = project.tree("llama", "awkward")
    statistics = project.directory / "results/topk/llama.parquet"
    for path in (grown, statistics, project.directory / "results/distributions"):
        path.rename(path.with_suffix(".kept"))
    try:
        target = str(statistics.relative_to(project.directory))
        for targets in (["trees_llama"], [target]):
            run = project.snakemake("--cores", "1", *targets)
            assert run.returncode == 0, run.stdout
        log = project.directory / "results/logs/topk/llama.log"
        assert "worked 0.00 s" in log.read_text(encoding="utf-8")
        assert statistics.read_bytes() == statistics.with_suffix(".kept").read_bytes()
    finally:
        for path in (grown, statistics, project.directory / "results/distributions"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            path.with_suffix(".kept").rename(path)


@pytest.mark.long
def test_wrong_settings_of_the_statistics_cost_no_tree(project):
    """Where the prompts cannot be read trees are grown all the same, and the log says why.

    Prompts of this machine are looked at before any job; here only what was fetched is left.
    """
    config = read_config(project)
    source = Path(config["topk"]["source"].removeprefix("path:"))
    config["topk"]["column"] = "text"
    grown = project.tree("llama", "awkward")
    grown.rename(grown.with_suffix(".kept"))
    source.rename(source.with_suffix(".kept"))
    try:
        with project.configured(config):
            run = project.snakemake("--cores", "1", "trees_llama")
        assert run.returncode == 0, run.stdout
        assert grown.read_bytes() == grown.with_suffix(".kept").read_bytes()
        assert "not asked for the top-k statistics" in run.stdout
        assert "no column 'text'" in run.stdout
    finally:
        source.with_suffix(".kept").rename(source)
        grown.with_suffix(".kept").rename(grown)


@pytest.mark.long
def test_a_model_without_experiments_has_no_jobs_but_its_statistics(project):
    """Experiments may leave a model out, which then appears in Figure 3 alone."""
    config = read_config(project)
    del config["figure4"]
    with project.configured(config):
        planned = project.planned("--forceall")
    stages = jobs(STAGES, ["llama"]) | jobs(STAGES, ["gpt2"])
    del stages["scores_gpt2"]  # of its texts only the step is asked
    assert stages.items() <= planned.items()
    assert not [rule for rule in planned if rule.endswith("_bert")]
    assert planned["topk"] == planned["fetch_model"] == len(MODELS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "text", "again"),
    [
        (f"{QUANTIFIERS}/gender_words/female.txt", "\nchampioness\n", STAGES[1:]),
        ("src/llmchecker/trees/expansion.py", "\n# changed\n", STAGES),
    ],
    ids=["word list", "expansion"],
)
def test_a_change_reruns_what_depends_on_it(project, file, text, again):
    """A changed file makes the results again that depend on it, and leaves the dearer ones."""
    with project.appended(file, text):
        planned = project.planned()
    shards = {"shard": SHARDS["gpt2"]} if "trees" in again else {}
    assert planned == jobs(again) | shards | MADE_OF_CHECKS


@pytest.mark.long
def test_triggers_without_params_do_not_see_changed_code(project):
    """With `--rerun-triggers mtime` Snakemake compares no digest, as CONTRIBUTING.md says."""
    with project.appended("src/llmchecker/checking/storm.py", "\n# changed\n"):
        assert "checks_gpt2" not in project.planned("--rerun-triggers", "mtime")


@pytest.mark.long
def test_a_bad_configuration_stops_before_any_job(tmp_path):
    """A configuration that cannot run ends with one message and without a job or a traceback."""
    config = deepcopy(EMPTY)
    config["experiments"][0]["alhpa"] = 0.8
    project = Project(tmp_path, config)
    run = project.snakemake("--cores", "1")
    assert run.returncode != 0
    assert "experiments[0]: unknown key 'alhpa', did you mean 'alpha'?" in run.stdout
    assert run.stdout.count("experiments[0]") == 1
    assert "config.yaml, line " in run.stdout
    assert "common.smk" not in run.stdout
    assert "Traceback" not in run.stdout
    assert "Job stats" not in run.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.long
def test_a_model_that_cannot_be_had_fails_its_job(tmp_path, random_model):
    """A wrong checksum and a truncated weight file are told, logged, and leave no directory."""
    whole = random_model("gpt2")
    digest = hashlib.sha256((whole / "model.safetensors").read_bytes()).hexdigest()
    truncated = shutil.copytree(whole, tmp_path / "gpt2")
    weights = (truncated / "model.safetensors").read_bytes()
    (truncated / "model.safetensors").write_bytes(weights[:-1000])
    config = deepcopy(EMPTY)
    config["models"] = {
        "digest": {"label": "A", "source": f"path:{whole}", "sha256": "0" * 64},
        "truncated": {"label": "B", "source": f"path:{truncated}"},
    }
    del config["experiments"][0]["models"]
    project = Project(tmp_path / "project", config)
    run = project.snakemake("--cores", "2", "--keep-going")
    assert run.returncode != 0
    for model, reason in (
        ("digest", f"error: path:{whole}: sha256 is {digest}, not the expected {'0' * 64}"),
        ("truncated", "model.safetensors: truncated or damaged"),
    ):
        log = project.directory / f"results/logs/fetch_model/{model}.log"
        assert reason in log.read_text(encoding="utf-8")
        assert reason in run.stdout
        assert "Traceback" not in log.read_text(encoding="utf-8")
    assert list(project.directory.glob("resources/models/*")) == []
    assert not (project.directory / "results/trees").exists()


EXPANSION = "src/llmchecker/trees/expansion.py"
# stops before the second of two trees: the first is deeper and grown before it
STOPPED = """

def build_tree(*arguments, whole=build_tree):
    if arguments[2].length == 1:
        import os
        {stop}
    return whole(*arguments)
"""


def experiment(start: str, k: int, length: int) -> dict:
    """An experiment that asks for a tree and no score."""
    bounds = {"alpha": 0.8, "k": k, "L": length}
    return {"label": start, "interest": "Test", "start": start, **bounds} | {
        "queries": ["P=? [ F step = 1 ]"]
    }


@pytest.fixture(scope="module")
def growing(tmp_path_factory, random_model) -> Project:
    """A project of one model, of which trees are asked and nothing else."""
    model = shutil.copytree(random_model("gpt2"), tmp_path_factory.mktemp("model") / "gpt2")
    config = {
        "models": {"gpt2": {"label": "A", "source": f"path:{model}"}},
        "start_strings": {"first": "The player", "second": "Once upon"},
        "quantifiers": {"gender": {}},
        "experiments": [experiment("first", 3, 2), experiment("second", 3, 1)],
    }
    project = Project(tmp_path_factory.mktemp("growing"), config)
    grow_trees(project)
    return project


@pytest.fixture
def trees(growing) -> Iterator[dict[str, bytes]]:
    """The trees of that project and their records, by place; what a test adds is removed."""
    grow_trees(growing)
    before = tree_files(growing)
    yield before
    for place in tree_files(growing).keys() - before.keys():
        (growing.directory / place).unlink()


def grow_trees(project: Project) -> None:
    """Run what grows trees, which must succeed."""
    run = project.snakemake("--cores", "1", "trees_gpt2")
    assert run.returncode == 0, run.stdout


def tree_files(project: Project) -> dict[str, bytes]:
    """All that lies beside trees, by place: trees, records, and what a job may have left."""
    paths = [path for path in project.found("trees/gpt2/**/*") if path.is_file()]
    return {str(path.relative_to(project.directory)): path.read_bytes() for path in paths}


def without_records(files: dict[str, bytes]) -> dict[str, bytes]:
    return {place: content for place, content in files.items() if place.endswith(".parquet")}


def computed(files: dict[str, bytes]) -> dict[str, int]:
    """For how many texts of each tree its record says that the model was asked."""
    records = {Path(place): content for place, content in files.items() if place.endswith(".json")}
    return {
        f"{place.parent.name} {place.stem}": json.loads(content)["computed"]
        for place, content in records.items()
    }


@pytest.mark.long
def test_only_a_new_tree_is_grown(growing, trees):
    """Trees that are there stay byte for byte; a smaller one of a known text asks no model."""
    config = read_config(growing)
    config["start_strings"]["new"] = "A new text"
    config["experiments"] += [experiment("new", 2, 1), experiment("first", 2, 1)]
    with growing.configured(config):
        grow_trees(growing)
        files = tree_files(growing)
        assert growing.planned("trees_gpt2") == {}
    assert files.items() >= trees.items()
    added = {name: count for name, count in computed(files).items() if name not in computed(trees)}
    assert added == {"new alpha0.8_k2_L1": 1, "first alpha0.8_k2_L1": 0}


@pytest.mark.long
def test_a_tree_that_was_deleted_costs_no_forward_pass(growing, trees):
    """It comes back from stored distributions, byte for byte; others are left as they are."""
    (lost,) = (place for place in without_records(trees) if "first/alpha0.8_k3_L2" in place)
    (growing.directory / lost).unlink()
    run = growing.snakemake("--cores", "1", "trees_gpt2")
    assert run.returncode == 0, run.stdout
    files = tree_files(growing)
    assert without_records(files) == without_records(trees)
    record = str(Path(lost).with_suffix(".json"))
    assert computed(files)["first alpha0.8_k3_L2"] == 0
    assert {place for place in files if files[place] != trees[place]} == {record}


@pytest.mark.long
def test_changed_code_grows_trees_from_stored_distributions(growing, trees):
    """Code that only selects may change and change back: no forward pass is paid twice."""
    with growing.appended(EXPANSION, "\n# changed\n"):
        grow_trees(growing)
        changed = tree_files(growing)
    (growing.directory / EXPANSION).touch()
    assert growing.planned("trees_gpt2") == {"trees_gpt2": 1}
    grow_trees(growing)
    for files in (changed, tree_files(growing)):
        assert without_records(files) == without_records(trees)
        assert set(computed(files).values()) == {0}
    assert changed.keys() == trees.keys()
    assert growing.planned("trees_gpt2") == {}


@pytest.mark.long
def test_a_model_that_does_not_load_costs_no_tree(growing, trees):
    """A job that cannot grow its new tree fails, keeps the others, and grows it when it can."""
    config = read_config(growing)
    config["start_strings"]["later"] = "A later text"
    config["experiments"].append(experiment("later", 3, 1))
    with growing.configured(config):
        source = Path(config["models"]["gpt2"]["source"].removeprefix("path:"))
        with growing.appended(source / "model.safetensors", "damage"):
            run = growing.snakemake("--cores", "1", "trees_gpt2")
        assert run.returncode != 0
        assert "cannot be loaded: model.safetensors: truncated or damaged" in run.stdout
        assert {place: tree_files(growing).get(place) for place in trees} == trees
        assert "later alpha0.8_k3_L1" not in computed(tree_files(growing))
        grow_trees(growing)
        assert tree_files(growing).items() >= trees.items()
        assert computed(tree_files(growing))["later alpha0.8_k3_L1"] == 1


@pytest.mark.long
def test_a_job_that_fails_midway_leaves_what_was_there(growing, trees):
    """Trees are as before the job, nothing is left half-written, and none passes for a new one."""
    stop = 'raise RuntimeError("midway")'
    with growing.appended(EXPANSION, STOPPED.format(stop=stop)):
        run = growing.snakemake("--cores", "1", "trees_gpt2")
        assert run.returncode != 0
        assert "first/alpha0.8_k3_L2: 4 nodes" in run.stdout
        assert "RuntimeError: midway" in run.stdout
        assert tree_files(growing) == trees
        assert growing.planned("checks_gpt2") == {"trees_gpt2": 1, "checks_gpt2": 1}
    grow_trees(growing)
    assert tree_files(growing) == trees


@pytest.mark.long
def test_a_run_that_was_killed_goes_on(growing, trees):
    """After --unlock the same command makes what is missing, and pays for nothing again."""
    with growing.appended(EXPANSION, STOPPED.format(stop="os.killpg(0, 9)")):
        assert growing.snakemake("--cores", "1", "trees_gpt2").returncode == -9
    assert growing.snakemake("--cores", "1", "--unlock").returncode == 0
    grow_trees(growing)
    files = tree_files(growing)
    assert without_records(files) == without_records(trees)
    assert computed(files)["first alpha0.8_k3_L2"] == 0
    assert growing.planned("trees_gpt2") == {}


RULE = re.compile(r"( *)(?:use )?rule ?(?:(\w+) as )?(\w*)(?: with)?:")


def rules() -> dict[str, tuple[str | None, set[str]]]:
    """The parent, if any, and the directives of every rule but `all` and `invariants`, by name."""
    found = {}
    for file in sorted((ROOT / "workflow/rules").glob("*.smk")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if match := RULE.fullmatch(line):
                inside = " " * (len(match[1]) + 4)
                block = []
                for below in lines[number + 1 :]:
                    if below and not below.startswith(inside):
                        break
                    block.append(below)
                directive = re.compile(rf"{inside}(\w+):")
                matches = map(directive.match, block)
                # a rule that there is for each model gets its name below
                name = match[3] or re.search(r'f"(\w+)_\{', "\n".join(block))[1]
                found[name] = match[2], {match[1] for match in matches if match}
    return found


def test_every_rule_has_a_log_a_message_and_an_environment():
    """Every rule states its output, log and message; a rule inherits its script or has its own."""
    found = rules()
    assert len(found) == 32
    for name, (parent, directives) in found.items():
        assert {"log", "message", "output"} <= directives, name
        inherited = found[parent][1] if parent else directives
        assert {"conda", "script"} <= inherited, name


def test_every_script_writes_the_log_of_its_job():
    """Every script does its work under the job's log, so that a failure says why."""
    scripts = sorted((ROOT / "workflow/scripts").glob("*.py"))
    assert len(scripts) == 30
    for script in scripts:
        assert "\nwith job_log(snakemake.log[0])" in script.read_text(encoding="utf-8"), script
