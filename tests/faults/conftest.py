"""A small project that has run undisturbed, and copies of it to do harm to."""

import fcntl
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from helpers.project import GENDER, PROMPTS, Project
from helpers.undisturbed import NAME, at, check_undisturbed, copied


@pytest.fixture(scope="session", autouse=True)
def _keep_bytecode_whole():
    """Let no process write bytecode, which a limit of files would cut: Python 3.11 then fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, worker_id, random_model) -> Project:
    """A project with one model, every kind of result and as little work as can be, after a run."""
    base = tmp_path_factory.getbasetemp()
    # the workers of one run share the project, which the first of them makes
    directory = (base if worker_id == "master" else base.parent) / "undisturbed"
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _read_or_run(directory, random_model)


def _read_or_run(directory: Path, random_model: Callable[[str], Path]) -> Project:
    place, clock = directory / "project", directory / "seconds"
    if clock.exists():
        project = at(place)
        project.seconds = float(clock.read_text())
        return project
    prompts = directory / "prompts.csv"
    pd.DataFrame({"prompt": PROMPTS}).to_csv(prompts, index=False)
    truncation = {"alpha": 0.8, "k": 3, "L": 2}
    config = {
        "models": {NAME: {"label": "GPT-2", "source": f"path:{random_model(NAME)}"}},
        "start_strings": {"player": "The player won because"},
        "quantifiers": {"gender": {}},
        "topk": {"source": f"path:{prompts}", "column": "prompt", "maximum_k": 5},
        "experiments": [
            {"label": "Player", "interest": "Gender", "start": "player", "queries": [GENDER]}
            | truncation
        ],
        "figure4": {"starts": ["player"], "query": GENDER} | truncation,
    }
    place.mkdir()
    project = Project(place, config)
    began = time.monotonic()
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    project.seconds = time.monotonic() - began
    clock.write_text(str(project.seconds))
    return project


@pytest.fixture(scope="session")
def undisturbed_seconds(undisturbed) -> float:
    """How long the undisturbed run took on this machine."""
    return undisturbed.seconds


@pytest.fixture
def project(undisturbed, tmp_path) -> Project:
    """A copy of the project with all its results, times of files included."""
    return copied(undisturbed, tmp_path)


@pytest.fixture
def fresh(undisturbed, tmp_path) -> Project:
    """A copy of the project that has never run."""
    project = copied(undisturbed, tmp_path)
    for folder in ("results", "resources/models", "resources/datasets", ".snakemake"):
        shutil.rmtree(project.directory / folder)
    return project


@pytest.fixture
def mended(undisturbed) -> Callable[[Project], None]:
    """Check that a further run of a project ends well, with the results of the undisturbed one."""

    def demand(project: Project) -> None:
        run = project.snakemake("--cores", "2")
        assert run.returncode == 0, run.stdout
        check_undisturbed(project, undisturbed)

    return demand
