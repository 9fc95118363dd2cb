"""Commands of Snakemake that only read the workflow leave the project as it is."""

import os
from pathlib import Path

import pandas as pd
import pytest
import yaml
from helpers.marks import long
from helpers.project import GENDER, PROMPTS, ROOT, Project

pytestmark = pytest.mark.slow

COMMANDS = [
    ["--dry-run", "--cores", "1"],
    ["--summary"],
    *long(
        ["--lint"],
        ["--list-rules"],
        ["--dag"],
        ["--list-input-changes"],
    ),
]
OWNED = (".snakemake", "__pycache__")
"""The folders that Snakemake and Python keep for themselves."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, random_model) -> Project:
    """A project with damaged, missing and unfinished results, which never ran."""
    folder = tmp_path_factory.mktemp("damaged")
    prompts = folder / "prompts.csv"
    pd.DataFrame({"prompt": PROMPTS}).to_csv(prompts, index=False)
    truncation = {"alpha": 0.8, "k": 3, "L": 2}
    experiment = {"label": "Player", "interest": "Gender", "start": "player", "queries": [GENDER]}
    config = {
        "models": {"gpt2": {"label": "GPT-2", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": "The player won because"},
        "quantifiers": {"gender": {}},
        "topk": {"source": f"path:{prompts}", "column": "prompt", "maximum_k": 5},
        "experiments": [experiment | truncation],
    }
    directory = folder / "project"
    directory.mkdir()
    project = Project(directory, config)
    for name in (
        "results/tables/table2.csv",
        "results/provenance.json",
        "results/report.html",
        "results/figures/figure3.svg",
        "results/trees/gpt2/player/alpha0.8_k3_L2.parquet",
        "results/trees/gpt2/player/alpha0.8_k3_L2.json",
        "results/trees/.partial-other-1-a.parquet",
        f"results/trees/.partial-{os.uname().nodename}-99999999-a.parquet",
        "resources/datasets/prompts.csv",
        "resources/models/gpt2/source.json",
        "resources/models/gpt2/config.json",
    ):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{" if name.endswith("source.json") else "{}")
    return project


def state(directory: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """The size, time and contents of all files, folders and links of a project."""
    found = {}
    for path in sorted(directory.rglob("*")):
        place = path.relative_to(directory)
        if not set(place.parts) & set(OWNED):
            stat = path.lstat()
            held = str(path.readlink()) if path.is_symlink() else ""
            held = path.read_bytes() if path.is_file() else held
            size = stat.st_size if path.is_file() else 0
            # Python's own folder of bytecode changes the time of the folder around it
            time = stat.st_mtime_ns if path.is_file() else 0
            found[str(place)] = (size, time, held)
    return found


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_reading_the_workflow_changes_nothing(command, damaged):
    """No command that only reads the workflow makes, changes or deletes anything."""
    before = state(damaged.directory)
    run = damaged.snakemake(*command)
    assert "Traceback" not in run.stdout, run.stdout
    assert run.returncode == 0, run.stdout
    assert state(damaged.directory) == before


@pytest.mark.long
def test_a_run_repairs_nothing_that_no_job_reads(damaged):
    """A real run of one job leaves all other damaged files as they are."""
    before = state(damaged.directory)
    run = damaged.snakemake("--cores", "1", "results/tables/table1.csv")
    assert run.returncode == 0, run.stdout
    after = state(damaged.directory)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.long
def test_the_configuration_of_chats_plans_a_suite_of_two_turns(tmp_path):
    """config/chat.yaml has results and a page of its conversation, and a table of suites."""
    directory = tmp_path / "project"
    directory.mkdir()
    config = yaml.safe_load((ROOT / "config/chat.yaml").read_text(encoding="utf-8"))
    project = Project(directory, config)
    (directory / "resources").mkdir(exist_ok=True)
    (directory / "resources/suites").symlink_to(ROOT / "resources/suites")
    target = "results/suites/turns/smollm2-135m.html"
    planned = project.planned(target)
    assert planned["suite"] == 1
    assert planned["fetch_model"] == 1
    (directory / "resources/suites").unlink()
    lost = project.snakemake("--dry-run", "--cores", "1", target)
    assert lost.returncode != 0
    assert "resources/suites/turns.yaml" in lost.stdout
