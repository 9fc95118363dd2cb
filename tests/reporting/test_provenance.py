"""Results say how they were made, truly, and what is made again alike is the same."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest
import yaml
from helpers.project import GENDER, Project

from llmchecker.checking import storm
from llmchecker.config.config import Config
from llmchecker.errors import ChecksumMismatch
from llmchecker.models import run_metadata
from llmchecker.reporting import provenance
from llmchecker.reporting.table_io import write_table
from llmchecker.trees.top_k_mass import write_masses
from llmchecker.utils.atomic_files import (
    _DIGEST_KEY,
    read_json_with_digest,
    write_json,
    write_json_with_digest,
)

TIMES = {"date", "first", "last", "seconds", "encode_seconds", "check_seconds"}
STAMPS = {"stamp", "read"}
"""Metadata of files, by which one that is unchanged is not read again."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def configuration(model: Path, prompts: Path) -> dict:
    """One experiment on one model, and both figures."""
    truncation = {"alpha": 0.8, "k": 3, "L": 2}
    return {
        "models": {"one": {"label": "One", "source": f"path:{model}", "mem_mb": 500}},
        "start_strings": {"player": "The player won because"},
        "quantifiers": {"gender": {}},
        "topk": {"source": f"path:{prompts}", "column": "prompt", "maximum_k": 5},
        "experiments": [
            {"label": "Player", "interest": "Gender", "start": "player"}
            | truncation
            | {"queries": [GENDER]}
        ],
        "figure4": {"starts": ["player"], **truncation, "query": GENDER},
    }


@pytest.fixture(scope="module")
def config(tmp_path_factory, random_model) -> dict:
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.csv"
    pd.DataFrame({"prompt": ["I want you to act as a poet.", "Leave."]}).to_csv(prompts)
    return configuration(random_model("llama"), prompts)


def finished(directory: Path, config: dict, hash_seed: str) -> Project:
    """A project after a run."""
    project = Project(directory, config)
    run = project.snakemake("--cores", "1", hash_seed=hash_seed)
    assert run.returncode == 0, run.stdout
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory, config) -> Project:
    return finished(tmp_path_factory.mktemp("first"), config, "random")


@pytest.fixture(scope="module")
def projects(tmp_path_factory, project, config) -> list[Project]:
    """Two projects of the same configuration, each after a run of its own.

    The jobs of the second have other hashes of texts, so that no order is one by chance.
    """
    return [project, finished(tmp_path_factory.mktemp("second"), config, "1")]


@pytest.fixture
def run(project) -> dict:
    return read_json_with_digest(project.directory / "results/provenance.json")


def without_times(content: object) -> object:
    """JSON without what differs when the same is done at another time, on other files."""
    if isinstance(content, Mapping):
        return {
            name: without_times(v)
            for name, v in content.items()
            if name not in (*TIMES, *STAMPS, _DIGEST_KEY)
        }
    return [without_times(item) for item in content] if isinstance(content, list) else content


def contents(project: Project, suffix: str) -> dict[str, bytes]:
    """The results of one format, by their path among the results.

    What is kept is no result: files of distributions are named by chance, for jobs to share them,
    and those of crosschecks by the verdict with its times.
    """
    results = project.directory / "results"
    found = {str(path.relative_to(results)): path for path in results.rglob(f"*.{suffix}")}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if not name.startswith(("distributions/", "cached/"))
    }


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "folders"),
    [
        ("parquet", {"trees", "scores", "topk"}),
        ("prism", {"prism"}),
        ("jani", {"jani"}),
        ("pdf", {"figures"}),
        ("png", {"figures"}),
        ("svg", {"figures"}),
    ],
)
def test_two_runs_write_the_same_bytes(projects, suffix, folders):
    """Trees, scores, masses, chains and figures of two runs are equal byte for byte."""
    first, second = (contents(project, suffix) for project in projects)
    assert {name.partition("/")[0] for name in first} >= folders
    assert first == second


@pytest.mark.long
@pytest.mark.slow
def test_two_runs_write_the_same_records_but_for_times(projects):
    """Verdicts, their cross-checks, records and provenance of two runs differ in times alone."""
    first, second = (contents(project, "json") for project in projects)
    folders = {"checks", "crosschecks", "trees", "provenance.json"}
    assert {name.partition("/")[0] for name in first} >= folders
    assert first.keys() == second.keys()
    for name in first:
        once, again = (without_times(json.loads(files[name])) for files in (first, second))
        assert json.dumps(once) == json.dumps(again), name


@pytest.mark.long
@pytest.mark.slow
def test_two_runs_write_the_same_tables_but_for_times(projects):
    """The CSV tables of two runs differ in columns of seconds alone."""
    names = {path.name for path in projects[0].found("tables/*.csv")}
    assert names >= {"table1.csv", "table2.csv", "comparison.csv", "figure3.csv", "figure4.csv"}
    for name in names:
        once, again = (pd.read_csv(p.directory / "results/tables" / name) for p in projects)
        timeless = [column for column in once if not column.endswith("_seconds")]
        pd.testing.assert_frame_equal(once[timeless], again[timeless], check_exact=True)


@pytest.mark.long
@pytest.mark.slow
def test_provenance_tells_the_models(project, run, random_model):
    """The checksums are those of the model's files; every tree counts with its run metadata."""
    (model,) = run["models"].values()
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in random_model("llama").iterdir()
    }
    assert model["files"].items() <= files.items()
    assert {"model.safetensors", "tokenizer.json"} <= model["files"].keys()
    assert model["revision"] == f"sha256 {files['model.safetensors']}"
    assert model["source"] == f"path:{random_model('llama')}"
    (trees,) = model["trees"]
    assert trees["number"] == len(project.found("trees/*/*/*.parquet"))
    assert trees["files"] == model["files"]
    asked = {"kind": "causal", "dtype": "float32", "device": "cpu", "threads": 1}
    assert trees.items() >= asked.items()
    for package in ("torch", "transformers", "tokenizers"):
        assert trees["versions"][package] == version(package)


@pytest.mark.long
@pytest.mark.slow
def test_provenance_tells_the_run(project, run):
    """Versions are those installed, Storm's that of the verdicts, and the date is of today."""
    assert run["versions"]["snakemake"] == version("snakemake")
    (verdicts,) = run["verdicts"]
    assert verdicts == {"number": len(project.found("checks/**/*.json")), **storm.VERSIONS}
    age = datetime.now(UTC) - datetime.fromisoformat(run["date"])
    assert 0 <= age.total_seconds() < 24 * 3600
    prompts = (project.directory / "resources/datasets/prompts.csv").read_bytes()
    assert run["prompts"] == hashlib.sha256(prompts).hexdigest()
    assert run["config"] == Config.read(project.directory / "config.yaml").sha256
    assert run["program"]["commit"] is None  # the project is no git repository


@pytest.mark.long
@pytest.mark.slow
def test_every_table_for_people_has_a_footer(project, run):
    """Markdown and LaTeX tables end with how they were made, in which CSV files have no part."""
    for name in ("table2", "comparison"):
        path = project.directory / f"results/tables/{name}"
        assert (
            path.with_suffix(".tex").read_text().endswith(f"\n% {provenance.format_footer(run)}\n")
        )
    for path in project.found("tables/*.md"):
        footer = path.read_text(encoding="utf-8").rstrip("\n").splitlines()[-1]
        assert footer.startswith("LLMChecker "), path
        models = path.stem not in ("table1", "audit")
        assert (run["models"]["one"]["revision"][:19] in footer) == models, path
    for path in project.found("tables/*.csv"):
        assert "LLMChecker" not in path.read_text(encoding="utf-8"), path


@pytest.mark.long
@pytest.mark.slow
def test_nothing_is_made_again_without_need(project):
    """A second run does nothing; a setting that changes no result rewrites how they were made."""
    assert project.planned() == {}
    config = yaml.safe_load((project.directory / "config.yaml").read_text(encoding="utf-8"))
    (project.directory / "results/provenance.json").touch()
    assert project.planned() == {}
    telling = ("table2", "comparison", "figure3", "figure4", "report")
    changed = deepcopy(config)
    changed["models"]["one"]["mem_mb"] = 600
    with project.configured(changed):
        assert project.planned() == dict.fromkeys(("provenance", *telling), 1)
    with project.configured({name: config[name] for name in reversed(config)}):
        assert project.planned() == {}


@pytest.mark.long
@pytest.mark.slow
def test_a_table_is_made_after_the_provenance_that_it_tells(project):
    """Whatever makes verdicts again rewrites provenance, and then the tables that show them."""
    with project.appended("src/llmchecker/checking/bounds.py", "\n# changed\n"):
        planned = project.planned()
    assert planned.items() >= {"checks_one": 1, "provenance": 1, "table2": 1}.items()
    assert "trees_one" not in planned
    assert "table1" not in planned


def test_a_configuration_is_known_by_what_it_says(tmp_path):
    """Comments, order and written defaults change no checksum; another value does."""
    config = configuration(Path("/model"), Path("/prompts.csv"))
    written = tmp_path / "config.yaml"

    def checksum(config: dict, comment: str = "") -> str:
        written.write_text(comment + yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return Config.read(written).sha256

    before = checksum(config)
    assert checksum({name: config[name] for name in reversed(config)}, "# a comment\n") == before
    spelt = deepcopy(config)
    spelt["models"]["one"]["dtype"] = "float32"
    spelt["expansion"] = {"memory_gb": 2.0}
    assert checksum(spelt) == before
    spelt["models"]["one"]["dtype"] = "bfloat16"
    assert checksum(spelt) != before


@pytest.fixture
def repository(tmp_path) -> Path:
    """A git repository with one file and one commit."""
    (tmp_path / "tracked.py").write_text("1")
    identity = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    for command in (["init", "-q"], ["add", "tracked.py"], [*identity, "commit", "-qm", "One"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def test_the_commit_is_that_of_the_code(repository):
    """The commit is told, and whether tracked files differ from it; other files do not count."""
    head = (repository / ".git/HEAD").read_text().removeprefix("ref: ").strip()
    commit = (repository / ".git" / head).read_text().strip()
    file = repository / "tracked.py"
    (repository / "result.txt").write_text("untracked")
    assert run_metadata.find_code_version(file) == run_metadata._CodeVersion(
        storm.VERSIONS["llmchecker"], commit, False
    )
    file.write_text("2")
    assert run_metadata.find_code_version(file).changed is True


def test_without_a_repository_there_is_no_commit(repository, tmp_path_factory, monkeypatch):
    """No git, no repository, and a repository that does not track the code give no commit."""
    apart = tmp_path_factory.mktemp("apart") / "module.py"
    for file in (repository / "untracked.py", apart):
        file.write_text("")
        assert run_metadata.find_code_version(file).commit is None
    monkeypatch.setenv("PATH", "")
    assert asdict(run_metadata.find_code_version(repository / "tracked.py")).items() >= {
        ("commit", None),
        ("changed", None),
    }


def told(tmp_path: Path, label: str = "One", **about: object) -> dict:
    """The provenance of a run with two trees of one model, grown with two versions of torch."""
    model = tmp_path / "model"
    write_json({"source": "path:/model", "files": {}} | about, model / "source.json")
    grown = [
        {"date": f"2026-01-0{day}T00:00:00+00:00", "versions": {"torch": torch}, "threads": 1}
        for day, torch in ((2, "2.1"), (1, "2.1"), (3, "2.2"))
    ]
    growths = [tmp_path / f"{number}.json" for number in range(len(grown))]
    for made, path in zip(grown, growths, strict=True):
        write_json_with_digest({"makings": [made]}, path)
    loading = {"label": label, "kind": "causal", "dtype": "float32", "device": "cpu"}
    return provenance.collect_provenance(
        "c" * 64, {"m": loading}, {"m": model}, {"m": growths}, {}, []
    )


def test_trees_that_were_kept_are_told_as_they_were_grown(tmp_path):
    """Trees that were grown alike are one entry with first and last date, others another."""
    run = told(tmp_path)
    assert run["models"]["m"]["trees"] == [
        {
            "number": 2,
            "first": "2026-01-01T00:00:00+00:00",
            "last": "2026-01-02T00:00:00+00:00",
            "versions": {"torch": "2.1"},
            "threads": 1,
        },
        {
            "number": 1,
            "first": "2026-01-03T00:00:00+00:00",
            "last": "2026-01-03T00:00:00+00:00",
            "versions": {"torch": "2.2"},
            "threads": 1,
        },
    ]
    assert ", torch 2.1 and 2.2, " in provenance.format_footer(run)


@pytest.mark.parametrize(
    ("about", "revision"),
    [
        ({"source": f"hf:owner/name@{COMMIT}"}, f"commit {COMMIT[:12]}"),
        ({"sha256": "d" * 64, "files": {"model.safetensors": "e" * 64}}, "sha256 dddddddddddd"),
        ({"files": {"model.safetensors": "e" * 64}}, "sha256 eeeeeeeeeeee"),
    ],
    ids=["commit", "given checksum", "weights"],
)
def test_a_model_is_named_by_commit_or_checksum(tmp_path, about, revision):
    """A footer names the commit, else the given checksum, else that of the weights."""
    assert f"One ({revision}, float32, cpu)" in provenance.format_footer(told(tmp_path, **about))


def test_a_label_breaks_no_footer(tmp_path):
    """A label with line breaks and markup stays in the footer's line and is shown as it is."""
    footer = provenance.format_footer(told(tmp_path, label="<b>A</b>\n\n| \\end{x} |\r# 100%"))
    paths = [tmp_path / f"table.{suffix}" for suffix in ("csv", "md", "tex")]
    table = pd.DataFrame({"a": [1]})
    write_table(table, paths, footer)
    csv, markdown, latex = (path.read_text(encoding="utf-8") for path in paths)
    assert csv == "a\n1\n"
    assert latex.splitlines()[-1] == f"% {footer}"
    assert latex.splitlines()[-2].endswith(r"\end{tabular}")
    below = markdown.split("\n\n", 1)[1]
    # one line of code, in which no mark has a meaning
    assert below == f"`{footer}`\n"
    assert "`" not in footer


@pytest.mark.parametrize("result", ["tree", "answer", "masses", "verdict"])
def test_results_of_another_model_or_tree_are_refused(tmp_path, result):
    """A footer names one model, so a result that was computed from other files is named."""
    files, other = {"model.safetensors": "e" * 64}, {"model.safetensors": "f" * 64}
    model, file = tmp_path / "model", tmp_path / f"{result}.json"
    write_json({"source": "path:/model", "files": files}, model / "source.json")
    making = {"date": "2026-01-01T00:00:00+00:00", "versions": {}}
    tree = tmp_path / "grown.json"

    def collect(found: dict, inputs: str) -> dict:
        write_json_with_digest({"fingerprint": "new", "makings": [making | {"files": files}]}, tree)
        if result == "tree":
            write_json_with_digest(
                {"fingerprint": "", "makings": [making | {"files": found}]}, file
            )
        elif result == "answer":
            write_json_with_digest({"versions": {}, "making": making | {"files": found}}, file)
        elif result == "masses":
            columns = {"prompt": [0], "k": [1], "mass": [1.0]}
            write_masses(pd.DataFrame(columns), file, found)
        else:
            write_json_with_digest({"versions": {}, "inputs": {str(tree): inputs}}, file)
        return provenance.collect_provenance(
            "c" * 64,
            {"m": {"label": "One", "kind": "causal", "dtype": "float32", "device": "cpu"}},
            {"m": model},
            {"m": [tree, file] if result == "tree" else [tree]},
            {"m": [file]} if result == "answer" else {},
            [file] if result == "verdict" else [],
            {"m": file} if result == "masses" else None,
        )

    assert "sha256 eeeeeeeeeeee" in provenance.format_footer(collect(files, "new"))
    with pytest.raises(ChecksumMismatch, match=rf"{result}\.json: .*delete the file and run"):
        collect(other, "old")
