"""Copies of a project with its results, which are as good as the original."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from helpers.project import Project, read_config
from helpers.project_of_files import WORDS, write_project
from helpers.undisturbed import at

pytestmark = [pytest.mark.slow, pytest.mark.long]

KEPT = ("results", ".snakemake")
"""The folders of results and of Snakemake's records."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> Project:
    """A project with its model in a folder of its own, after its first run."""
    directory = tmp_path_factory.mktemp("original") / "project"
    shutil.copytree(random_model("gpt2"), directory / "weights")
    project = write_project(directory, "path:weights")
    config = read_config(project)
    config["quantifiers"]["gender"] = {}
    config["experiments"][0]["queries"].append("P=? [ F gender > 0 ]")
    project.write_config(config)
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project


def archive(project: Path, copy: Path) -> None:
    """Copy the files of a checkout with new times, and unpack an archive of its results."""
    shutil.copytree(
        project,
        copy,
        copy_function=shutil.copyfile,
        ignore=lambda folder, names: {*KEPT, "models", "datasets"} if "src" not in folder else (),
    )
    packed = subprocess.run(
        ["tar", "--create", "--file", "-", "results", ".snakemake/metadata"],
        cwd=project,
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "--extract", "--file", "-"], cwd=copy, input=packed.stdout, check=True)


def move(project: Path, copy: Path) -> None:
    """Copy a checkout, as if it were moved; a link to the original leads nowhere."""
    subprocess.run(["cp", "--archive", project, copy], check=True)
    for link in (copy / "resources/models/one").iterdir():
        if link.is_symlink():
            assert link.resolve().is_relative_to(copy)


def copy_results_first(project: Path, copy: Path) -> None:
    """Copy a checkout without the times of its files: all sources are newer than results."""
    move(project, copy)
    begin = time.time()
    order = ("results", "config", "resources", "weights")
    for age, folder in enumerate(order):
        for path in (copy / folder).rglob("*"):
            os.utime(path, (begin + age, begin + age), follow_symlinks=False)


@pytest.mark.parametrize("make_copy", [archive, copy_results_first], ids=lambda f: f.__name__)
def test_a_copy_has_nothing_to_do(make_copy, finished, tmp_path):
    """Wherever a project is and however it came there, no job is planned."""
    make_copy(finished.directory, tmp_path / "elsewhere")
    assert at(tmp_path / "elsewhere").planned() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--snakefile", "workflow/Snakefile"],
        ["--configfile", "../elsewhere/config.yaml", "--snakefile", "../elsewhere/Snakefile"],
    ],
    ids=" ".join,
)
def test_a_run_that_names_its_files_has_nothing_to_do(arguments, finished, tmp_path):
    """The same files by other paths are no change."""
    subprocess.run(["cp", "--archive", finished.directory, tmp_path / "elsewhere"], check=True)
    assert at(tmp_path / "elsewhere").planned(*arguments) == {}


def test_a_moved_project_answers_a_new_query(finished, tmp_path):
    """A model in a folder of the project moves with it, and answers there."""
    project = at(tmp_path / "elsewhere")
    move(finished.directory, project.directory)
    config = read_config(project)
    config["experiments"][0]["queries"].append(WORDS)
    project.write_config(config)
    away = finished.directory.with_name("away")
    finished.directory.rename(away)
    try:
        run = project.snakemake("--cores", "2", "answers_one")
    finally:
        away.rename(finished.directory)
    assert run.returncode == 0, run.stdout
    assert len(project.found("answers/**/*.json")) == 4


def test_a_changed_checkout_with_old_results_is_no_copy(finished, tmp_path):
    """Code, a script and a table of the checkout count by their content."""
    archive(finished.directory, tmp_path / "elsewhere")
    project = at(tmp_path / "elsewhere")
    with (
        # no job makes the audit again but for this table
        project.appended("resources/published/table2.csv", "\n"),
        project.appended("workflow/scripts/checks.py", "\n# changed\n"),
    ):
        planned = project.planned().keys()
    assert {"audit", "comparison", "checks_one", "crosschecks_one"} <= planned
    with (
        project.appended("workflow/report/table1.rst", "\n"),
        # a comment is no change of a suite
        project.appended("suite.yaml", "\n# changed\n"),
    ):
        assert project.planned() == {"report": 1}


def test_two_configurations_have_folders_of_their_own(finished, tmp_path):
    """Each folder has its results and stays current, whatever the other one does."""
    project = at(tmp_path / "elsewhere")
    subprocess.run(["cp", "--archive", finished.directory, project.directory], check=True)
    other = project.directory / "runs/other"
    (other / "resources").mkdir(parents=True)
    (other / "resources/models").symlink_to("../../../resources/models")
    for name in ("own.py", "list.txt", "prompts.csv", "suite.yaml", "weights"):
        (other / name).symlink_to(f"../../{name}")
    config = read_config(project)
    config["experiments"][0]["k"] = 2
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    arguments = ["--directory", "runs/other", "--configfile", "runs/other/config.yaml", "--"]
    arguments.append("checks_one")
    run = project.snakemake("--cores", "1", *arguments)
    assert run.returncode == 0, run.stdout
    assert "fetch_model" not in run.stdout.split("Job stats:")[1].split("\n\n")[0]
    assert project.planned(*arguments) == project.planned() == {}
    assert [path.name for path in at(other).found("trees/one/player/*.parquet")] == [
        "alpha0.8_k2_L2.parquet"
    ]


def test_a_run_in_a_folder_without_a_configuration_names_the_option(finished, tmp_path):
    """The message has the option, and a folder that works."""
    snakefile = str(finished.directory / "Snakefile")
    run = at(tmp_path).snakemake("--dry-run", "--cores", "1", "--snakefile", snakefile)
    assert run.returncode != 0
    assert f"--directory {finished.directory}" in run.stdout
    assert "Traceback" not in run.stdout
    assert list(tmp_path.glob("results")) == []
