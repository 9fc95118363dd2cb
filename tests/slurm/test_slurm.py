"""The workflow on a Slurm cluster of one node, through its profile, beside a local run."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from cluster import logs, one_node
from helpers.project import PROMPTS, SHARDS, STAGES, Project, configuration, jobs

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
    return [job for job in jobs if job["WorkDir"] == str(project.directory)]


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
