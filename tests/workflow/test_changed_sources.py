"""Sources behind a path that change in place between two runs, or within one."""

import json
import re
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import yaml
from helpers.changes import overwrite
from helpers.project import Project, stats
from helpers.project_of_files import (
    COMPUTED,
    WORDS,
    add_sources,
    change_weights,
    read_figures,
    write_project,
)

from llmchecker.utils.atomic_files import compute_sha256

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, Path]:
    """A project with every kind of source after its first run, and the folder of its models."""
    # imported here: torch takes seconds to import
    from helpers.random_models import save_classifier, write_gguf

    folder = tmp_path_factory.mktemp("sources")
    shutil.copytree(random_model("gpt2"), folder / "model")
    judge = shutil.copytree(random_model("gpt2"), folder / "judge")
    (judge / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    write_gguf(folder / "packed.gguf")
    save_classifier(folder / "mood")
    project = write_project(folder / "project", f"path:{folder / 'model'}")
    add_sources(project, folder)
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    return project, folder


def flip_bit(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    return bytes(changed)


def add_line(content: bytes) -> bytes:
    return content + b"\n"


def replace(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new)

    return change


JOBS_OF_MODEL = {
    *("fetch_model", "trees_one", "scores_one", "checks_one", "answers_one", "suite", "topk"),
    *("provenance", "table2", "figure3", "suites"),
}
JOBS_OF_SCORES = {"scores_one", "checks_one", "answers_one", "provenance", "table2"}
JOBS_OF_SUITE = {"suite", "suites"}
JOBS_OF_GGUF = {"fetch_model", "trees_packed", "checks_packed", "answers_packed", "topk", "table2"}
JOBS_OF_JUDGE = JOBS_OF_SCORES | {"fetch_model", "topk"}
JOBS_OF_PROMPTS = {"fetch_prompts", "topk", "figure3", "provenance"}
TEMPLATE = b"label: judge\n    template: {x: 1}"
CHANGES = [
    [("model/model.safetensors", flip_bit, JOBS_OF_MODEL)],
    [("model/tokenizer.json", add_line, JOBS_OF_MODEL)],
    [("model/config.json", add_line, JOBS_OF_MODEL)],
    [("model/generation_config.json", add_line, JOBS_OF_MODEL)],
    [
        ("packed.gguf", flip_bit, JOBS_OF_GGUF),
        ("project/rows.csv", replace(b"exam", b"user"), JOBS_OF_SUITE),
    ],
    [
        ("judge/model.safetensors", flip_bit, JOBS_OF_JUDGE),
        ("project/suite.yaml", replace(b"0.9", b"0.8"), JOBS_OF_SUITE),
    ],
    [("judge/chat_template.jinja", replace(b"m.content", b"m['role']"), JOBS_OF_JUDGE)],
    [
        ("mood/model.safetensors", flip_bit, JOBS_OF_SCORES),
        ("project/list.txt", add_line, JOBS_OF_SUITE),
    ],
    [("project/config.yaml", replace(b"Is it polite?", b"Is it a threat?"), JOBS_OF_SCORES)],
    [("project/config.yaml", replace(b"label: judge", TEMPLATE), JOBS_OF_SCORES)],
    [("project/shape.json", replace(b"name", b"date"), JOBS_OF_SCORES | JOBS_OF_SUITE)],
    [
        ("project/own.py", add_line, JOBS_OF_SCORES),
        ("project/prompts.csv", replace(b"it", b"no"), JOBS_OF_PROMPTS),
    ],
]
"""Changes that one plan finds; each has a job that no other of them schedules."""


@pytest.mark.long
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: changes[0][0])
def test_a_change_in_place_plans_all_that_depends_on_it(finished, changes):
    """A change that keeps the time of a file is noticed."""
    project, folder = finished
    contents = {file: (folder / file).read_bytes() for file, _, _ in changes}
    for file, change, _ in changes:
        overwrite(folder / file, change(contents[file]))
    try:
        planned = project.planned()
    finally:
        for file, content in contents.items():
            overwrite(folder / file, content)
    for _, _, expected in changes:
        assert expected <= planned.keys()
    assert ("trees_one" in planned) == changes[0][0].startswith("model")


@pytest.mark.long
def test_contents_given_back_are_no_change(finished):
    """A file that was changed and has its old content again schedules no job."""
    project, folder = finished
    for file, change, _ in chain(*CHANGES):
        content = (folder / file).read_bytes()
        overwrite(folder / file, change(content))
        overwrite(folder / file, content)
    assert project.planned() == {}


@pytest.mark.long
def test_a_change_within_a_run_ends_it_with_the_cause(finished):
    """Jobs that find another model than the fetched one fail, also where nothing is compared."""
    project, folder = finished
    model = folder / "model"
    content = (model / "model.safetensors").read_bytes()
    answers = project.found("answers/**/*.json")
    change_weights(model)
    try:
        run = project.snakemake(
            *("--cores", "1", "--rerun-triggers", "mtime"),
            *("--force", str(answers[0].relative_to(project.directory))),
        )
    finally:
        overwrite(model / "model.safetensors", content)
    assert run.returncode != 0
    cause = r"model\.safetensors: the file changed after resources/models/one was fetched; run"
    assert re.search(cause, run.stdout)
    # snakemake gives the results of a failed job back
    assert project.snakemake("--cores", "1", "answers_one").returncode == 0


@pytest.mark.long
def test_a_run_after_a_change_of_the_weights_is_that_of_a_new_project(finished, tmp_path):
    """With a new query, every figure and the footer are of the new weights."""
    project, folder = finished
    model = folder / "model"
    before = read_figures(project)
    change_weights(model)
    config = yaml.safe_load((project.directory / "config.yaml").read_text())
    config["experiments"][0]["queries"].append(WORDS)
    project.write_config(config)
    targets = (*COMPUTED, "results/tables/table2.md")
    run = project.snakemake("--cores", "2", *targets)
    assert run.returncode == 0, run.stdout
    assert {"fetch_model", "trees_one", "answers_one", "suite"} <= stats(run.stdout).keys()
    fresh = write_project(tmp_path / "fresh", f"path:{model}")
    add_sources(fresh, folder)
    fresh.write_config(config)
    computed = (*COMPUTED, "checks_packed", "answers_packed")
    other = fresh.snakemake("--cores", "2", *computed)
    assert other.returncode == 0, other.stdout
    assert read_figures(project) == read_figures(fresh) != before
    digest = compute_sha256(model / "model.safetensors")
    record = json.loads((project.directory / "results/provenance.json").read_text())
    found = record["models"]["one"]
    assert found["revision"] == f"sha256 {digest}"
    for making in (*found["trees"], *found["answers"]):
        assert making["files"]["model.safetensors"] == digest
    assert digest[:12] in (project.directory / "results/tables/table2.md").read_text()
    assert project.planned(*targets) == {}


CHANGING = """
import os

class Letters:
    minimum, maximum = 0, None

    def __call__(self, start, continuation):
        if os.path.exists("change.py"):
            os.rename("change.py", "changed.py")
            exec(open("changed.py").read())
        return continuation.count("e")
"""
"""A class that makes a change when a job first scores a text."""
REPLACED = """
text = open("{file}").read()
assert {old!r} in text
open("{file}", "w").write(text.replace({old!r}, {new!r}))
"""
WITHIN = {
    "weights/model.safetensors": """
weights = open("weights/model.safetensors", "rb").read()
half = len(weights) // 8 * 4
data = bytearray(weights)
for at in range(len(data) - half + 3, len(data), 4):
    data[at] ^= 128
open("weights/model.safetensors", "r+b").write(data)
""",
    "own.py": REPLACED.format(file="own.py", old='"e"', new='"a"'),
    "config.yaml": REPLACED.format(file="config.yaml", old="passes: 20", new="passes: 21"),
    "suite.yaml": REPLACED.format(file="suite.yaml", old="The player", new="The nurse"),
    "prompts.csv": REPLACED.format(file="prompts.csv", old="Say it.", new="Say so."),
}
"""Code that changes a file while a job runs, by the file."""


@pytest.mark.long
@pytest.mark.parametrize(
    "files",
    [
        ["weights/model.safetensors"],
        ["config.yaml"],
        # no job reads two of these
        ["own.py", "suite.yaml", "prompts.csv"],
    ],
    ids=" ".join,
)
def test_a_change_while_jobs_run_is_never_half_in_the_results(files, tmp_path, random_model):
    """The run ends with the cause or without the change, and the next is that of a new project."""
    directory = tmp_path / "project"
    shutil.copytree(random_model("gpt2"), directory / "weights")
    project = write_project(directory, "path:weights")
    (directory / "own.py").write_text(CHANGING)
    config = yaml.safe_load((directory / "config.yaml").read_text())
    config["experiments"][0]["queries"].append(WORDS)
    project.write_config(config)
    (directory / "change.py").write_text("\n".join(WITHIN[file] for file in files))
    targets = (*COMPUTED, "results/provenance.json")
    run = project.snakemake("--cores", "1", "--keep-going", *targets)
    assert (directory / "changed.py").exists(), run.stdout
    if run.returncode != 0:
        assert "Traceback" not in run.stdout, run.stdout
        assert any(Path(file).stem in run.stdout for file in files)
        assert re.search("changed|of another suite", run.stdout), run.stdout
    again = project.snakemake("--cores", "2", *targets)
    assert again.returncode == 0, again.stdout
    assert project.planned(*targets) == {}
    figures = read_figures(project)
    for folder in ("results", ".snakemake", "resources/models", "resources/datasets"):
        shutil.rmtree(directory / folder)
    fresh = project.snakemake("--cores", "2", *COMPUTED)
    assert fresh.returncode == 0, fresh.stdout
    assert figures == read_figures(project)
