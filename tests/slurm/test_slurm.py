"""The workflow on a Slurm cluster of one node, through its profile, beside a local run."""

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import yaml
from cluster import logs, one_node
from helpers.project import PROMPTS, SHARDS, STAGES, Project, configuration, jobs, stats

from llmchecker.utils.atomic_files import _DIGEST_KEY

pytestmark = pytest.mark.slow

MODELS = ("llama", "gpt2")
PROFILE = "workflow/profiles/slurm"
# this cluster has one small node and no accounting, and nobody else asks it anything
ON_THIS_CLUSTER = (
    f"--workflow-profile={PROFILE}",
    f"--cores={os.cpu_count()}",
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=2",
)


@pytest.fixture(scope="module")
def models(random_model) -> dict[str, Path]:
    return {name: random_model(name) for name in MODELS}


@pytest.fixture(scope="module")
def prompts(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.csv"
    pd.DataFrame({"prompt": PROMPTS}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def local(tmp_path_factory, models, prompts) -> Project:
    """A project after a run on this machine."""
    project = Project(tmp_path_factory.mktemp("local"), configuration(models, prompts))
    run = project.snakemake("--cores", str(os.cpu_count()))
    assert run.returncode == 0, run.stdout
    return project


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Path]:
    """The directory of a running Slurm, which every command started by these tests finds."""
    directory = tmp_path_factory.mktemp("slurm")
    with one_node(directory) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield directory


@pytest.fixture(scope="module")
def distributed(tmp_path_factory, models, prompts, cluster) -> tuple[Project, list[dict[str, str]]]:
    """A project after a run through the profile, and the jobs that Slurm had of it."""
    project = Project(tmp_path_factory.mktemp("distributed"), configuration(models, prompts))
    run = project.snakemake(*ON_THIS_CLUSTER)
    slurm_logs = project.directory / ".snakemake/slurm_logs"
    assert run.returncode == 0, "\n".join([run.stdout, logs(slurm_logs), logs(cluster)])
    return project, slurm_jobs(project)


def slurm_jobs(project: Project) -> list[dict[str, str]]:
    """What Slurm knows of every job of a project, finished ones included."""
    shown = subprocess.run(
        ["scontrol", "--oneliner", "show", "jobs"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown.stdout.splitlines()]
    # without any job, scontrol prints a sentence
    return [job for job in jobs if job.get("WorkDir") == str(project.directory)]


def results(project: Project, pattern: str) -> dict[str, Path]:
    """The files among the results that match a pattern, by their place."""
    found = project.found(pattern)
    assert found, pattern
    return {str(path.relative_to(project.directory)): path for path in found}


def without_seconds(path: Path) -> object:
    """A JSON object or a CSV table without what was measured with a clock."""
    if path.suffix == ".csv":
        table = pd.read_csv(path)
        return table.drop(columns=table.filter(regex="seconds$")).astype(str).to_dict("records")
    record = json.loads(path.read_text(encoding="utf-8"))
    return {
        key: v for key, v in record.items() if not key.endswith("seconds") and key != _DIGEST_KEY
    }


SUITE = "results/suites/rows/llama.jsonl"
ROWS, PARTS = 1_000, 8


def write_suite_project(directory: Path, models: dict[str, Path], prompts: Path) -> Project:
    """A project with a suite of a table of rows, which jobs of one core divide."""
    config = configuration(models, prompts)
    config["expansion"] = {"threads": 1}
    config["suites"] = {"rows": {"file": "suite.yaml", "models": ["llama"], "shards": PARTS}}
    project = Project(directory, config)
    pd.DataFrame({"number": range(ROWS)}).to_csv(directory / "rows.csv", index=False)
    case = {"start": "Player {number}", "prompts": "rows.csv", "length": 2}
    suite = {
        "properties": {"found": {"type": "pattern", "pattern": "e"}},
        "budget": {"passes": 10},
        "cases": [case | {"require": ["P>=0.5 [ F found = 1 ]"]}],
    }
    (directory / "suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")
    return project


def find_begun_shards(project: Project, known: list[str]) -> list[str]:
    """The ids of running jobs with a shard, if more shards than the known have results of cases."""
    begun = 0
    for log in project.found("suites/rows/llama/*.unfinished"):
        # a finished shard renames its file
        with suppress(FileNotFoundError):
            begun += log.read_bytes().count(b"\n") > 1
    jobs = [job for job in slurm_jobs(project) if job["JobState"] == "RUNNING"]
    shards = [job["JobId"] for job in jobs if rule_of(job) == "suite_shard"]
    return [job for job in shards if job not in known] if begun > len(known) else []


def read_cases(project: Project) -> list[dict]:
    """The lines of the suite's results without what a clock measured."""
    lines = map(json.loads, (project.directory / SUITE).read_text().splitlines())
    return [remove_seconds(line) for line in lines]


def remove_seconds(value):
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if "seconds" not in k and k != _DIGEST_KEY}
        return {key: remove_seconds(each) for key, each in kept.items()}
    return [remove_seconds(each) for each in value] if isinstance(value, list) else value


def test_a_suite_of_many_rows_survives_killed_jobs(tmp_path, models, prompts, cluster):
    """Two of eight jobs are killed; the next run decides their rows alone, with the same bits."""
    local = write_suite_project(tmp_path / "local", models, prompts)
    run = local.snakemake("--cores", str(os.cpu_count()), SUITE)
    assert run.returncode == 0, run.stdout
    project = write_suite_project(tmp_path / "distributed", models, prompts)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(project.snakemake, *ON_THIS_CLUSTER, "--keep-going", SUITE)
        killed: list[str] = []
        while len(killed) < 2 and not first.done():
            for job in find_begun_shards(project, killed)[:1]:
                subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True)
                killed.append(job)
            time.sleep(0.2)
        assert len(killed) == 2, first.result().stdout
        assert first.result().returncode != 0
    done = len(project.found("suites/rows/llama/*-of-*.jsonl"))
    assert done == PARTS - len(killed)
    second = project.snakemake(*ON_THIS_CLUSTER, SUITE)
    assert second.returncode == 0, second.stdout
    assert stats(second.stdout) == {"suite_shard": len(killed), "suite": 1}
    assert read_cases(project) == read_cases(local)
    assert sum("case" in line for line in read_cases(project)) == ROWS


def rule_of(job: dict[str, str]) -> str:
    """The rule that a job of Slurm runs: its comment without the wildcards."""
    return re.fullmatch(r"rule_(\w+?)(_wildcards_.*)?", job["Comment"])[1]


def test_every_stage_of_a_model_is_a_job_of_slurm(distributed):
    """Slurm ran one job for each model, stage, top-k table and part of a tree; no others."""
    submitted = distributed[1]
    assert {job["JobState"] for job in submitted} == {"COMPLETED"}
    ran = Counter(rule_of(job) for job in submitted)
    assert ran == jobs(STAGES, MODELS) | {
        **dict.fromkeys(("fetch_model", "topk"), len(MODELS)),
        "shard": SHARDS["gpt2"],
    }


@pytest.mark.parametrize(
    ("rule", "minutes", "memory"),
    [
        ("trees_llama", 480, "500M"),  # the memory is that of the model in the configuration
        ("topk", 120, "500M"),
        ("fetch_model", 120, "500M"),
        ("scores_llama", 60, "2000M"),  # the memory is the profile's default
        ("checks_gpt2", 60, "4000M"),
    ],
)
def test_slurm_is_asked_for_what_rules_configuration_and_profile_say(
    distributed, rule, minutes, memory
):
    """A job asks for the minutes of its rule, and for the memory of the model, rule or profile."""
    asked = [job for job in distributed[1] if rule_of(job) == rule]
    assert asked
    for job in asked:
        assert pd.Timedelta(job["TimeLimit"]) == pd.Timedelta(minutes=minutes)
        assert job["MinMemoryNode"].replace("G", "000M") == memory


@pytest.mark.parametrize(
    "pattern",
    [
        *("trees/**/*.parquet", "scores/**/*.parquet", "topk/*.parquet"),
        *("prism/**/*.prism", "jani/**/*.jani", "crosschecks/**/*.json"),
    ],
)
def test_files_equal_those_of_a_local_run(local, distributed, pattern):
    """Trees, scores, top-k tables and chains are the same, byte for byte."""
    expected, found = results(local, pattern), results(distributed[0], pattern)
    assert found.keys() == expected.keys()
    for place, path in found.items():
        assert path.read_bytes() == expected[place].read_bytes(), place


@pytest.mark.parametrize("pattern", ["checks/**/*.json", "tables/*.csv"])
def test_records_equal_those_of_a_local_run_but_for_seconds(local, distributed, pattern):
    """Verdicts, with their witnesses, and tables are the same in all that no clock measured."""
    expected, found = results(local, pattern), results(distributed[0], pattern)
    assert found.keys() == expected.keys()
    for place, path in found.items():
        assert without_seconds(path) == without_seconds(expected[place]), place


def test_a_model_on_cuda_gets_a_gpu(tmp_path, models, prompts, cluster):
    """The trees of a model whose device is cuda is submitted with a GPU, others without."""
    config = configuration(models, prompts)
    config["models"]["llama"]["device"] = "cuda"
    project = Project(tmp_path, config)
    trees = [str(project.tree(name, "awkward").relative_to(tmp_path)) for name in MODELS]
    # where there is no GPU behind the one that Slurm grants, the job itself fails
    project.snakemake(*ON_THIS_CLUSTER, "--keep-going", *trees)
    granted = {rule_of(job): job.get("TresPerJob") for job in slurm_jobs(project)}
    assert granted == {"trees_llama": "gres:gpu:1", "trees_gpt2": None, "shard": None}
