"""config/paper.yaml: what it asks for, and what its sources on the hub do to a run."""

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from helpers.fake_hub import COMMIT, Hub, serving
from helpers.project import Project
from helpers.random_models import save_as_published

from llmchecker.config.config import Config
from llmchecker.config.yaml_reader import read_yaml

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "config/paper.yaml"
PRINTED_L_THAT_CANNOT_BE = {("1.0", "9", "2"): 3, ("0.9", "9", "2"): 3}
"""Rows by alpha, k and L as printed, and the smallest L that can have their size."""
NEWER = "89abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture
def paper(monkeypatch) -> Config:
    monkeypatch.chdir(ROOT)
    return Config.read(PAPER)


def test_rows_are_the_published_ones(paper):
    """The config asks for the 23 rows of Table II, each once, with the L that their sizes allow."""
    with (ROOT / "resources/published/table2.csv").open(encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    expected = Counter()
    for row in published:
        printed = (row["alpha"], row["k"], row["L"])
        length = PRINTED_L_THAT_CANNOT_BE.get(printed, int(row["L"]))
        numbers = (float(row["alpha"]), int(row["k"]), length)
        expected[row["label"], row["interest"], row["model"], *numbers, row["query"]] += 1
    asked = Counter()
    for row in paper.table2:
        tree, query = row.check.tree, row.check.query
        truncation = (tree.truncation.alpha, tree.truncation.k, tree.truncation.length)
        asked[row.label, row.interest, paper.models[tree.model].label, *truncation, query.text] += 1
    assert asked == expected
    assert asked.total() == 23


def test_models_and_prompts_come_from_the_hub(paper):
    """Six models and the prompts are repositories of the hub, and no commit of one is invented."""
    sources = [model.source.source for model in paper.models.values()]
    assert len(sources) == 6
    assert all(source.needs_lock for source in [*sources, paper.prompts.dataset.source])
    assert [name for name, model in paper.models.items() if model.kind == "masked"] == ["bert-base"]
    assert paper.prompts.dataset.rows == 153
    assert {model.device for model in paper.models.values()} == {"cuda"}
    assert all(model.gpu_mem_mb > 0 for model in paper.models.values())


def test_figure_4_asks_every_noun(paper):
    """Figure 4 has the five nouns for every model."""
    starts = ["player", "athlete", "champ", "contestant", "jock"]
    asked = [(check.tree.model, check.tree.start) for check in paper.figure4]
    assert asked == [(model, start) for model in paper.models for start in starts]


@pytest.mark.parametrize("name", ["config.yaml", "config/quick.yaml"])
def test_start_strings_are_those_of_the_paper(paper, name):
    """Small models continue the paper's start strings, without the final space of some of them."""
    found = read_yaml(ROOT / name).content["start_strings"]
    assert found == {key: str(start).rstrip() for key, start in paper.start_strings.items()}


def snakemake(directory: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run snakemake to its end; its exit status, and what it printed to either stream."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", "--nocolor", "--cores", "1", *arguments],
        cwd=directory,
        env=inherited | {"PYTHONPATH": "", "PYTHONUTF8": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return run.returncode, run.stdout


def jobs(printed: str) -> dict[str, int]:
    """How many jobs of each rule a run has."""
    stats = printed.split("Job stats:")[1].split("\n\n")[0]
    return {rule: int(n) for rule, n in re.findall(r"^(\S+) +(\d+)$", stats, flags=re.MULTILINE)}


@pytest.fixture
def paper_project(tmp_path) -> Project:
    """A project with its config.yaml and the paper's configuration beside it."""
    project = Project(tmp_path, read_yaml(ROOT / "config.yaml").content)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/paper.yaml").write_bytes(PAPER.read_bytes())
    return project


@pytest.mark.long
@pytest.mark.slow
def test_dag_resolves(paper_project):
    """A dry run plans the locks, the paper's models and prompts, and nothing of config.yaml."""
    arguments = ("--dry-run", "--cores", "1", "--configfile", "config/paper.yaml")
    run = paper_project.snakemake(*arguments)
    assert run.returncode == 0, run.stdout
    planned = jobs(run.stdout)
    expected = {"lock_model": 6, "fetch_model": 6, "lock_prompts": 1, "fetch_prompts": 1, "topk": 6}
    assert {rule: planned[rule] for rule in expected} == expected
    models = {rule.removeprefix("trees_") for rule in planned if rule.startswith("trees_")}
    assert models == set(yaml.safe_load(PAPER.read_text(encoding="utf-8"))["models"])
    assert "smollm2" not in run.stdout


RESOURCES = """
import json
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

with SnakemakeApi(OutputSettings(dryrun=True)) as api:
    paper = ConfigSettings(configfiles=[Path("config/paper.yaml")])
    workflow = api.workflow(ResourceSettings(cores=1), paper, snakefile=Path("Snakefile"))
    workflow.dag().execute_workflow(executor="dryrun")
    jobs = workflow._workflow.dag.jobs
    names = ("mem_mb", "gpu", "gpu_mem_mb")
    asked = {
        str(job.output[0]): [job.resources.get(name, 0) for name in names]
        for job in jobs
        if job.output
    }
Path("resources.json").write_text(json.dumps(asked))
"""


@pytest.mark.long
@pytest.mark.slow
def test_jobs_ask_for_the_memory_of_their_model(paper_project):
    """A job that loads a model asks for its memory, one GPU and its GPU memory; no other does."""
    run = subprocess.run(
        [sys.executable, "-c", RESOURCES], cwd=paper_project.directory, check=False
    )
    assert run.returncode == 0
    asked = json.loads((paper_project.directory / "resources.json").read_text())
    for name, model in read_yaml(PAPER).content["models"].items():
        expected = [model["mem_mb"], 1, model["gpu_mem_mb"]]
        trees = [output for output in asked if output.startswith(f"results/trees/{name}/")]
        assert len(trees) == 1
        assert asked.pop(trees[0]) == asked.pop(f"results/topk/{name}.parquet") == expected
    assert all(gpu == gpu_mem_mb == 0 for _, gpu, gpu_mem_mb in asked.values())


TARGETS = ("resources/models/one", "resources/datasets/prompts.csv")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with a model and a data set of two rows."""
    model = save_as_published("llama-2", tmp_path_factory.mktemp("published"))
    with serving() as answering:
        answering.files = {file.name: file.read_bytes() for file in model.iterdir()}
        answering.files["prompts.csv"] = b'act,prompt\na,"two\nlines"\nb,one\n'
        yield answering


@pytest.fixture
def project(hub: Hub, tmp_path) -> Project:
    hub.commits, hub.members, hub.accounts = [COMMIT], None, frozenset()
    config = {
        "models": {"one": {"label": "One", "source": "hf:owner/one"}},
        "start_strings": {"player": "The player won because "},
        "quantifiers": {},
        "topk": {"source": "hf:owner/two", "file": "prompts.csv", "column": "prompt", "rows": 2},
        "experiments": [],
    }
    return Project(tmp_path / "project", config)


@pytest.fixture
def fetch(hub: Hub, project: Project, tmp_path):
    """Run snakemake for the prompts and the model, with the hub and a cache of its own."""

    def run(*arguments: str, **environment: str) -> tuple[int, str]:
        settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache")} | environment
        return snakemake(project.directory, *arguments, "--keep-going", "--", *TARGETS, **settings)

    return run


def fetched_from(project: Project) -> str:
    about = json.loads((project.directory / TARGETS[0] / "source.json").read_text())
    return about["source"]


@pytest.mark.long
@pytest.mark.slow
def test_a_run_locks_what_it_fetched(hub: Hub, project: Project, fetch):
    """The first run locks the newest commits, and later ones obey, of another checkout too.

    A lock that is edited is obeyed too, and only what it concerns is fetched again.
    """
    locks = project.directory / "config/locks"
    status, printed = fetch()
    assert status == 0, printed
    files = ("models/one.json", "datasets/prompts.json")
    assert [json.loads((locks / file).read_text())["commit"] for file in files] == [COMMIT] * 2
    assert fetched_from(project) == f"hf:owner/one@{COMMIT}"

    hub.commits.append(NEWER)
    assert "Nothing to be done" in fetch()[1]
    for made in (".snakemake", "resources/models", "resources/datasets", "results"):
        (project.directory / made).rename(project.directory.parent / made.replace("/", "-"))
    status, printed = fetch()
    assert (status, fetched_from(project)) == (0, f"hf:owner/one@{COMMIT}"), printed
    assert jobs(printed) == {"fetch_model": 1, "fetch_prompts": 1, "total": 2}

    lock = locks / files[0]
    lock.write_text(lock.read_text().replace(COMMIT, NEWER))
    status, printed = fetch()
    assert (status, fetched_from(project)) == (0, f"hf:owner/one@{NEWER}"), printed
    assert jobs(printed) == {"fetch_model": 1, "total": 1}
    assert "Nothing to be done" in fetch()[1]


@pytest.mark.long
@pytest.mark.slow
def test_a_run_without_access_says_how_to_get_it(hub: Hub, project: Project, fetch):
    """When a model is gated the run stops and says where to ask and how to give the token."""
    hub.members = frozenset({"hf_member"})
    status, printed = fetch()
    assert status != 0
    assert f"error: hf:owner/one@{COMMIT}: gated, and no token was sent" in printed
    assert f"open {hub.address}/owner/one and accept its terms" in printed
    assert "`hf auth login`, or set HF_TOKEN" in printed
    hub.accounts = hub.members
    status, printed = fetch(HF_TOKEN="hf_member")
    assert status == 0, printed
    assert "hf_member" not in printed


@pytest.mark.long
@pytest.mark.slow
def test_a_run_with_other_prompts_stops(project: Project, fetch):
    """When the data set has not the rows that it must have, the run stops and says so."""
    config = yaml.safe_load((project.directory / "config.yaml").read_text(encoding="utf-8"))
    config["topk"]["rows"] = 153
    project.write_config(config)
    status, printed = fetch()
    assert status != 0
    assert f"error: data set hf:owner/two@{COMMIT}: 2 rows instead of 153" in printed
    assert not (project.directory / TARGETS[1]).exists()
