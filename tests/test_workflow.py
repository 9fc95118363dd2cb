"""The workflow, run as a person runs it, on small random models of five architectures."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pandas as pd
import pytest
import yaml
from random_models import ARCHITECTURES

from llmchecker.topk import read_prompts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
COPIED = (
    *("Snakefile", "environment.yml", "src", "workflow"),
    *("resources/word_lists", "resources/published"),
)
GENDER = "P=? [ F gender > 0 ]"
BOTH = "P=? [ F gender > 0 & similarity > 10 ]"
LAST = "P=? [ F step = 2 ]"
START_STRINGS = {"awkward": '"He\'s", she\nsaid: \\ {x} $HOME | 100% 🙂👩‍👩‍👧 選手', "empty": ""}
TREES = [(model, "awkward") for model in ARCHITECTURES] + [("gpt2", "empty")]
ROWS = [("Awkward", "llama", BOTH), ("Empty", "gpt2", LAST)]
CHECKS = len(ARCHITECTURES) + len(ROWS)
FIGURE = ("pdf", "png", "svg")
TABLE = ("csv", "md", "tex")
PROMPTS = ["I want you to act as a poet.", 'Say "no",\nthen leave.', "Wer bist du?"]


class Project:
    """A directory from which a person runs snakemake, with a configuration of its own."""

    def __init__(self, directory: Path, config: dict) -> None:
        self.directory = directory
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, directory / name)
        self.write_config(config)

    def write_config(self, config: dict) -> None:
        text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
        (self.directory / "config.yaml").write_text(text, encoding="utf-8")

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run snakemake to its end; what it prints, to either stream, is in `stdout`."""
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--nocolor", *arguments],
            cwd=self.directory,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "", "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )

    def planned(self) -> dict[str, int]:
        """How many jobs of each rule the next run would have; empty when there is nothing to do."""
        run = self.snakemake("--dry-run", "--cores", "1")
        assert run.returncode == 0, run.stdout
        if "Nothing to be done" in run.stdout:
            return {}
        stats = run.stdout.split("Job stats:")[1].split("\n\n")[0]
        jobs = dict(re.findall(r"^(\w+) +(\d+)$", stats, flags=re.MULTILINE))
        del jobs["total"], jobs["all"]
        return {rule: int(count) for rule, count in jobs.items()}

    @contextmanager
    def appended(self, file: str, text: str) -> Iterator[None]:
        """Change a file, and give it back as it was."""
        path = self.directory / file
        content, stat = path.read_bytes(), path.stat()
        path.write_bytes(content + text.encode())
        try:
            yield
        finally:
            path.write_bytes(content)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    @contextmanager
    def configured(self, config: dict) -> Iterator[None]:
        """Change the configuration, and give it back as it was."""
        before = yaml.safe_load((self.directory / "config.yaml").read_text(encoding="utf-8"))
        self.write_config(config)
        try:
            yield
        finally:
            self.write_config(before)

    def tree(self, model: str, start: str) -> Path:
        """The file of a tree."""
        return self.directory / f"results/trees/{model}/{start}/alpha0.8_k3_L2.parquet"

    def found(self, pattern: str) -> list[Path]:
        """The files among the results that match a pattern."""
        return sorted((self.directory / "results").glob(pattern))


def configuration(models: dict[str, Path], prompts: Path) -> dict:
    """Every kind of model, every kind of result, and as little computation as can be."""
    bounds = {"alpha": 0.8, "k": 3, "L": 2}
    return {
        "models": {
            name: {
                "label": f"{name}-small",
                "source": f"path:{directory}",
                "kind": "masked" if name == "bert" else "causal",
                "mem_mb": 500,
            }
            for name, directory in models.items()
        },
        "start_strings": START_STRINGS,
        "quantifiers": {"gender": {}, "similarity": {"protected": ["Lolita, light of my life"]}},
        "topk": {"source": f"path:{prompts}", "column": "prompt", "maximum_k": 5},
        "experiments": [
            {"label": label, "interest": "Test", "start": label.lower(), "models": [model]}
            | bounds
            | {"queries": [query]}
            for label, model, query in ROWS
        ],
        "figure4": {"starts": ["awkward"], **bounds, "query": GENDER},
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after its first run, and what that run printed."""
    directory = tmp_path_factory.mktemp("project")
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.csv"
    pd.DataFrame({"prompt": PROMPTS}).to_csv(prompts, index=False)
    models = {architecture: random_model(architecture) for architecture in ARCHITECTURES}
    project = Project(directory, configuration(models, prompts))
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project, run.stdout


@pytest.fixture
def project(finished) -> Project:
    return finished[0]


def read_config(project: Project) -> dict:
    return yaml.safe_load((project.directory / "config.yaml").read_text(encoding="utf-8"))


def test_every_result_is_written(project):
    """One command writes every table, figure, tree, PRISM file and verdict of the configuration."""
    names = [
        *(f"figures/figure{number}.{suffix}" for number in (3, 4) for suffix in FIGURE),
        *(f"tables/table{number}.{suffix}" for number in (1, 2) for suffix in TABLE),
        *("tables/figure3.csv", "tables/figure4.csv", "tables/witnesses.md"),
        *("tables/audit.csv", "tables/audit.md"),
        *(f"tables/comparison.{suffix}" for suffix in TABLE),
        *(f"topk/{model}.parquet" for model in ARCHITECTURES),
    ]
    folders = ("figures", "tables", "topk")
    written = [path for folder in folders for path in project.found(f"{folder}/*")]
    assert written == [project.directory / "results" / name for name in sorted(names)]
    assert all(path.stat().st_size > 0 for path in written)
    grown = project.found("trees/*/*/*.parquet")
    assert grown == sorted(project.tree(model, start) for model, start in TREES)
    programs = [path.name for path in project.found("prism/*/*/*/*")]
    assert sorted(programs) == ["gender-similarity.prism", *["gender.prism"] * 5, "step.prism"]
    assert len(project.found("checks/*/*/*/*.json")) == CHECKS
    assert len(project.found("report.html")) == 1


def test_both_routes_agree_on_every_check(project):
    """Every verdict was compared with what Storm says about a file of the chain."""
    outcomes = [json.loads(path.read_text()) for path in project.found("crosschecks/**/*.json")]
    assert len(outcomes) == CHECKS
    for outcome in outcomes:
        assert outcome["compared"] is True
        assert outcome["value_of_file"] == pytest.approx(outcome["value"], abs=1e-12)


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


def test_table2_shows_the_verdicts(project):
    """Table II has the rows in the order of the configuration, with the numbers of the verdicts."""
    table = pd.read_csv(project.directory / "results/tables/table2.csv")
    rows = list(zip(table["label"], table["model"], table["query"], strict=True))
    assert rows == [(label, f"{model}-small", query) for label, model, query in ROWS]
    verdicts = [json.loads(path.read_text()) for path in project.found("checks/*/*/*/*.json")]
    numbers = {(v["query"], v["states"], v["transitions"], v["value"]) for v in verdicts}
    shown = table[["query", "states", "transitions", "value"]].itertuples(index=False, name=None)
    assert set(shown) <= numbers


def test_figures_have_a_row_for_every_model(project):
    """The numbers of the figures cover all models; the mass within k grows with k."""
    table = pd.read_csv(project.directory / "results/tables/figure3.csv")
    assert table["model"].unique().tolist() == [f"{model}-small" for model in ARCHITECTURES]
    for _, rows in table.groupby("model"):
        assert rows["k"].tolist() == [1, 2, 3, 4, 5]
        assert rows["mass"].is_monotonic_increasing
        assert 0 < rows["mass"].iloc[0] < rows["mass"].iloc[4] <= 1
    nouns = pd.read_csv(project.directory / "results/tables/figure4.csv")
    assert nouns["model"].tolist() == [f"{model}-small" for model in ARCHITECTURES]
    assert set(nouns["noun"]) == {"awkward"}


def test_texts_survive_the_workflow(project):
    """Start strings and prompts arrive letter for letter, empty ones and emoji included."""
    table = pd.read_csv(project.directory / "results/tables/table1.csv", keep_default_na=False)
    assert dict(zip(table["name"], table["start_string"], strict=True)) == START_STRINGS
    for model, start in TREES:
        if model != "bert":  # whose tokenizer knows neither capitals nor most characters
            assert pd.read_parquet(project.tree(model, start))["text"][0] == START_STRINGS[start]
    assert read_prompts(project.directory / "resources/datasets/prompts.csv", "prompt") == PROMPTS


def test_progress_is_visible(finished):
    """For every tree the run prints, and its log keeps, the nodes and the nodes a second."""
    project, printed = finished
    for model, start in TREES:
        said = re.compile(
            rf"{model} {start} alpha0\.8 k3 L2: (\d+) states, (\d+) nodes in [\d.]+ s, \d+ nodes/s"
        )
        log = project.directory / f"results/logs/trees/{model}/{start}/alpha0.8_k3_L2.log"
        tree = pd.read_parquet(project.tree(model, start))
        counted = (str(len(tree)), str(tree["parent"][1:].nunique()))
        assert said.findall(printed) == [counted]
        assert said.findall(log.read_text(encoding="utf-8")) == [counted]


def test_a_second_run_does_nothing(project):
    """When nothing has changed there is nothing to be done."""
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0
    assert "Nothing to be done" in run.stdout


def test_lost_files_are_made_again(project):
    """Tables and figures that were deleted in one format are written again, and nothing else."""
    names = ("figures/figure3.png", "tables/table2.tex")
    lost = [project.directory / "results" / name for name in names]
    for path in lost:
        path.rename(path.with_suffix(".kept"))
    planned = project.planned()
    for path in lost:
        path.with_suffix(".kept").rename(path)
    assert planned == {"figure3": 1, "table2": 1, "report": 1}


def test_a_new_query_costs_no_forward_pass(project):
    """A query on an old tree is checked on the scores that there are."""
    config = read_config(project)
    config["experiments"][0]["queries"].append("P=? [ G gender <= 0 ]")
    with project.configured(config):
        planned = project.planned()
    made_for_people = {"table2": 1, "witnesses": 1, "comparison": 1, "report": 1}
    assert planned == {"check": 1, "crosscheck": 1} | made_for_people


def test_a_new_protected_text_is_scored_alone(project):
    """A changed setting of one quantifier makes its scores again, and no other's and no tree."""
    config = read_config(project)
    config["quantifiers"]["similarity"]["protected"].append("fire of my loins")
    with project.configured(config):
        planned = project.planned()
    made_for_people = {"table2": 1, "witnesses": 1, "comparison": 1, "report": 1}
    assert planned == {"scores": 1, "prism": 1, "check": 1, "crosscheck": 1} | made_for_people


@pytest.mark.parametrize(
    ("file", "text", "again", "spared"),
    [
        (
            "src/llmchecker/quantifiers/gender.py",
            "\n# changed\n",
            {"scores": 5, "prism": 6, "check": 6},
            ["fetch_model", "topk", "tree"],
        ),
        (
            "resources/word_lists/female.txt",
            "\nchampioness\n",
            {"scores": 5, "prism": 6, "check": 6},
            ["fetch_model", "topk", "tree"],
        ),
        (
            "src/llmchecker/expansion.py",
            "\n# changed\n",
            {"tree": len(TREES), "scores": 6, "prism": CHECKS, "check": CHECKS},
            ["fetch_model", "topk"],
        ),
        (
            "src/llmchecker/formulas.py",
            "\n# changed\n",
            {"check": CHECKS, "crosscheck": CHECKS},
            ["fetch_model", "topk", "tree", "scores"],
        ),
    ],
    ids=["quantifier", "word list", "expansion", "formulas"],
)
def test_a_change_reruns_what_depends_on_it(project, file, text, again, spared):
    """A changed file makes the results again that depend on it, and leaves the dearer ones."""
    with project.appended(file, text):
        planned = project.planned()
    assert {rule: planned.get(rule, 0) for rule in again} == again
    assert not planned.keys() & set(spared)


def test_the_linter_is_content(project):
    """snakemake --lint has nothing to say."""
    run = project.snakemake("--lint")
    assert run.returncode == 0, run.stdout
    assert "Congratulations" in run.stdout


EMPTY = {
    "models": {"one": {"label": "One", "source": "path:one"}},
    "start_strings": {"player": "The player won because"},
    "quantifiers": {"gender": {}},
    "experiments": [
        {"label": "Player", "interest": "Gender", "start": "player", "models": ["one"]}
        | {"alpha": 0.8, "k": 3, "L": 2, "queries": [GENDER]}
    ],
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("alhpa", 0.8, "experiments[0]: unknown key 'alhpa', did you mean 'alpha'?"),
        ("alpha", 1.5, "experiments[0].alpha: 1.5 is too large; it must be at most 1"),
        ("models", ["two"], "experiments[0].models: no model 'two' is defined"),
        (
            "queries",
            ["P=? [ F sentiment > 0 ]"],
            "experiments[0].queries[0]: column 9 of the query",
        ),
    ],
)
def test_a_bad_configuration_stops_before_any_job(key, value, message, tmp_path):
    """A configuration that cannot run ends with one message and without a job or a traceback."""
    config = deepcopy(EMPTY)
    config["experiments"][0][key] = value
    project = Project(tmp_path, config)
    run = project.snakemake("--cores", "1")
    assert run.returncode != 0
    assert message in run.stdout
    assert run.stdout.count("experiments[0]") == 1
    assert "Traceback" not in run.stdout
    assert "Job stats" not in run.stdout
    assert not (tmp_path / "results").exists()


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
        ("digest", f"error: path:{whole}: expected sha256 {'0' * 64}, got {digest}"),
        ("truncated", f"error: path:{truncated} cannot be loaded: model.safetensors is"),
    ):
        log = project.directory / f"results/logs/fetch_model/{model}.log"
        assert reason in log.read_text(encoding="utf-8")
        assert reason in run.stdout
        assert "Traceback" not in log.read_text(encoding="utf-8")
    assert list(project.directory.glob("resources/models/*")) == []
    assert not (project.directory / "results/trees").exists()


def rules() -> dict[str, set[str]]:
    """The directives of every rule but `all`, by name."""
    found = {}
    for file in sorted((ROOT / "workflow/rules").glob("*.smk")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if match := re.fullmatch(r"( *)rule (\w+):", line):
                inside = " " * (len(match[1]) + 4)
                block = []
                for below in lines[number + 1 :]:
                    if below and not below.startswith(inside):
                        break
                    block.append(below)
                directive = re.compile(rf"{inside}(\w+):")
                matches = map(directive.match, block)
                found[match[2]] = {match[1] for match in matches if match}
    return found


def test_every_rule_has_a_log_a_message_and_an_environment():
    """Every rule says what it does, where it logs and what it runs in."""
    assert len(rules()) == 18
    for name, directives in rules().items():
        assert {"log", "message", "conda", "output", "script"} <= directives, name


def test_every_script_writes_the_log_of_its_job():
    """Every script does its work under the job's log, so that a failure says why."""
    scripts = sorted((ROOT / "workflow/scripts").glob("*.py"))
    assert len(scripts) == 18
    for script in scripts:
        assert "\nwith job_log(snakemake.log[0]):\n" in script.read_text(encoding="utf-8"), script
