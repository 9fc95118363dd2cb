"""The target `invariants`, run as a person runs it, on few small programs and a random model."""

import json
from copy import deepcopy

import pytest
from test_workflow import EMPTY, Project

pytestmark = pytest.mark.slow

PROGRAMS = {
    "counts": "#include <assert.h>\nint main(){int i=0; while(i<10) i=i+1; assert(i==10); return 0;}\n",
    "overshoots": "#include <assert.h>\nint main(){int i=0; while(i<9) i=i+2; assert(i==9); return 0;}\n",
    "points": "#include <assert.h>\nint main(){int i=0; int *p=&i; *p=1; assert(i==1); return 0;}\n",
    "prose": "This is no program.\n",
}
EXPECTED = {
    "counts": "verified",
    "overshoots": "false",
    "points": "unsupported",
    "prose": "unreadable",
}
MODEL = "llama"
WAYS = {"variants": 6, "sources": 12, "tools": 3}
TABLES = ("variants", "used", "tools", "sources")
FIGURES = (f"variants_{MODEL}", "tools", "times")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after the first run of the target, and what that run printed."""
    directory = tmp_path_factory.mktemp("project")
    folder = directory / "own programs {1}"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / f"{name}.c").write_text(text, encoding="utf-8")
    config = deepcopy(EMPTY)
    config["models"] = {
        MODEL: {"label": "A {small} model", "source": f"path:{random_model(MODEL)}"}
    }
    config["experiments"] = []
    config["invariants"] = {
        "programs": "path:own programs {1}",
        "semantics": ["integers"],
        "seconds": 30,
        "nodes": 8,
        "candidates": 10,
    }
    project = Project(directory, config)
    run = project.snakemake("--cores", "1", "invariants")
    assert run.returncode == 0, run.stdout
    return project, run.stdout


@pytest.fixture
def project(finished) -> Project:
    return finished[0]


def attempts(project: Project, path: str) -> list[dict]:
    text = (project.directory / f"results/invariants/{path}.json").read_text(encoding="utf-8")
    return json.loads(text)["attempts"]


def test_every_table_and_figure_is_written(project):
    """One command writes every table and figure on programs, and nothing of the other target."""
    tables = [f"invariants_{name}.{s}" for name in TABLES for s in ("csv", "md")]
    tables += [f"invariants_figure_{name}.csv" for name in FIGURES]
    drawn = [f"invariants_{name}.{s}" for name in FIGURES for s in ("pdf", "svg", "png")]
    assert [path.name for path in project.found("tables/*")] == sorted(tables)
    assert [path.name for path in project.found("figures/*")] == sorted(drawn)
    assert all(path.stat().st_size > 0 for path in project.found("*s/invariants_*"))
