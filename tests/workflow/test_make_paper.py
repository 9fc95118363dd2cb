"""`make paper`, by tiny random models of the architectures of config/paper.yaml."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.project import ROOT, Project
from helpers.random_models import save_as_published

from llmchecker.config.yaml_reader import read_yaml
from llmchecker.reporting.table_io import read_csv

PAPER = ROOT / "config/paper.yaml"
FORMS = {
    "bert-base": "bert",
    "gemma-2b": "gemma",
    "gemma-7b": "gemma",
    "llama-2-7b": "llama-2",
    "mistral-7b": "mistral",
    "genstruct-7b": "mistral",
}
"""The form in which each model is published."""
SMALL = {"alpha": 0.001, "k": 2}
"""Trees of one text, of the published lengths."""


def make_paper(project: Project, file: str) -> str:
    """Run the commands of `make paper` with this installation to their end; return their output.

    Snakemake runs in a fork, without `show_stages.py` in front, since its jobs mostly import.
    """
    arguments = [f"BIN={Path(sys.executable).parent}", f"PAPER={file}", "-o", ".venv/installed"]
    (project.directory / ".venv").mkdir(exist_ok=True)
    (project.directory / ".venv/installed").touch()
    listed = run_here(project, ["make", "--dry-run", "--no-print-directory", "paper", *arguments])
    output = ""
    for command in map(shlex.split, listed.splitlines()):
        if command[1] == "workflow/show_stages.py":
            run = project.snakemake(*command[3:])
            assert run.returncode == 0, run.stdout
            output += run.stdout
        else:
            output += run_here(project, command)
    return output


def run_here(project: Project, command: list[str]) -> str:
    """Run a command in a project, and return its output."""
    run = subprocess.run(
        command,
        cwd=project.directory,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


@pytest.fixture
def project(tmp_path) -> Project:
    """The paper's configuration with tiny models, two prompts and small trees, on a processor."""
    config = read_yaml(PAPER).content
    project = Project(tmp_path / "project", config)
    shutil.copy(ROOT / "Makefile", project.directory)
    for number, (name, model) in enumerate(config["models"].items()):
        weights = save_as_published(FORMS[name], tmp_path / name, seed=number)
        model.update(source=f"path:{weights}", device="cpu", mem_mb=500)
        del model["gpu_mem_mb"]
    (tmp_path / "prompts.csv").write_text("prompt\nSay it.\nWho are you?\n")
    config["topk"].update(source=f"path:{tmp_path}/prompts.csv", rows=2, maximum_k=5)
    del config["topk"]["file"]
    for entry in (*config["experiments"], config["figure4"]):
        entry.update(SMALL)
    project.write_config(config)
    return project


@pytest.mark.long
@pytest.mark.slow
def test_six_tiny_models_of_the_papers_architectures_write_its_tables(project):
    """One command forecasts, fetches and computes, and again it computes nothing."""
    forecast, _, rest = make_paper(project, "config.yaml").partition("Job stats:")
    for name in FORMS:
        assert re.search(rf"^ *{name} +[\d.]+ GB +[\d.]+ GB +[\d,]+ +[\d.]+$", forecast, re.M)
    assert rest.count("Fetching the model") == len(FORMS)
    tables = project.directory / "results/tables"
    assert set(read_csv(tables / "table2.csv")["model"]) == {
        model["label"] for model in read_yaml(PAPER).content["models"].values()
    }
    claims = read_csv(tables / "claims.csv")
    assert {"C3", "C6", "C4"} <= set(claims["claim"])
    assert make_paper(project, "config.yaml").count("Nothing to be done") == 2


@pytest.mark.long
@pytest.mark.slow
def test_a_machine_without_a_gpu_is_told_so_before_anything_is_fetched(tmp_path):
    """Where torch finds no GPU the forecast ends with the key at fault, and nothing begins."""
    run = subprocess.run(
        [sys.executable, ROOT / "workflow/forecast_paper.py", PAPER],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 1
    assert "models.bert-base.device: torch finds no GPU here" in run.stderr
