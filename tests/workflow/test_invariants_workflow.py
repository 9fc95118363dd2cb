"""The target `invariants`, run as a person runs it, on few small programs and a random model."""

import json
import os
from copy import deepcopy

import pandas as pd
import pytest
from helpers.fake_server import running
from helpers.fake_writer import FakeWriter
from helpers.forked_snakemake import run_snakemake
from helpers.imports import SCRIPTS, imported_by, script_of
from helpers.parsed_source import find_file
from helpers.project import EMPTY, ROOT, Project, read_config, stats

pytestmark = [pytest.mark.slow, pytest.mark.long]

MAIN = "#include <assert.h>\nint main(void) {{ {} return 0; }}\n"
PROGRAMS = {
    "counts": '#include "limit.h"\n'
    + MAIN.format("int i = 0; while (i < LIMIT) i = i + 1; assert(i == LIMIT);"),
    "overshoots": MAIN.format("int i = 0; while (i < 9) i = i + 2; assert(i == 9);"),
    "percents": MAIN.format("int i = 0; float x; assert(i == 0);"),
    "prose": "This is no program.\n",
}
EXPECTED = {
    "counts": "verified",
    "overshoots": "false",
    "percents": "unsupported",
    "prose": "unreadable",
}
MODEL, LABEL = "llama", "A {small} model"
FOLDER = "own programs {1}"
WAYS = {"variants": 6, "baselines": 5, "sources": 2, "tools": 3}
VERIFYING = {"attempts", "attempts_without_model"}
OF_MODEL = ("variants", "sources")
OF_SOURCES = WAYS["baselines"] + WAYS["sources"]
TABLES = ("variants", "used", "tools", "sources", "provable")
FIGURES = (f"variants_{MODEL}", "tools", "times")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_model) -> tuple[Project, str]:
    """A project after the first run of the target, and what that run printed."""
    directory = tmp_path_factory.mktemp("project")
    folder = directory / FOLDER
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / f"{name}.c").write_text(text, encoding="utf-8")
    (folder / "limit.h").write_text("#define LIMIT 10\n", encoding="utf-8")
    config = deepcopy(EMPTY)
    config["models"] = {MODEL: {"label": LABEL, "source": f"path:{random_model(MODEL)}"}}
    config["experiments"] = []
    config["invariants"] = {
        "programs": f"path:{FOLDER}",
        "semantics": ["integers"],
        "seconds": 30,
        "iterations": 2,
        "candidates": 10,
        "provable": {"alpha": 0.5, "k": 2, "L": 2},
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
    for folder, names in (("tables", tables), ("figures", drawn)):
        sums = [f"{name}.sha256" for name in names if name.endswith((".csv", ".svg"))]
        found = [path.name for path in project.found(f"{folder}/*")]
        assert found == sorted([*names, *sums])
    assert all(path.stat().st_size > 0 for path in project.found("*s/invariants_*"))


def test_every_program_has_an_attempt_in_every_way(project):
    """What is false, not supported or no C is an outcome of its own, and never verified."""
    for experiment in (*(f"{kind}/{MODEL}" for kind in OF_MODEL), "baselines", "tools"):
        made = attempts(project, f"{experiment}/integers")
        found = {(attempt["way"], attempt["program"]) for attempt in made}
        assert len(made) == len(found) == WAYS[experiment.partition("/")[0]] * len(PROGRAMS)
        solved = {a["program"] for a in made if a["outcome"] == "verified"}
        assert solved <= {"counts"}
    made = attempts(project, f"sources/{MODEL}/integers")
    ours = {a["program"]: a["outcome"] for a in made if a["way"] == "program + sampled"}
    assert ours == EXPECTED


def test_tables_count_every_program(project):
    """Rows are those of models, ways and semantics; each counts all four programs."""
    tables = {
        name: pd.read_csv(project.directory / f"results/tables/invariants_{name}.csv")
        for name in TABLES
    }
    rows = {"variants": WAYS["variants"], "sources": OF_SOURCES}
    for name in ("variants", "sources"):
        assert tables[name]["model"].unique().tolist() == [LABEL]
        assert len(tables[name]) == rows[name]
        assert set(tables[name]["programs"]) == {len(PROGRAMS)}
    assert set(tables["used"]["program"]) == set(PROGRAMS)
    assert set(tables["provable"]["program"]) == {"counts", "overshoots"}
    measured = tables["tools"].dropna(subset="semantics").set_index("tool")
    assert measured.loc["this method", "solved"] == 1
    published = tables["tools"].set_index("tool")["published_solved"].dropna()
    assert published["SeaHorn"] == 115
    assert published["VeriAbs"] == 73


def test_logs_say_what_was_left_out_and_how_far_a_job_is(project):
    """The log of the model's job names what it leaves out; every job tells each program."""
    logs = project.directory / "results/logs/invariants"
    asked = (logs / f"proposals/{MODEL}.log").read_text(encoding="utf-8")
    assert "percents is left out: percents.c:2: the type float is not supported" in asked
    assert "prose is left out" in asked
    assert "counts: program" in asked
    for log in (f"variants/{MODEL}", f"sources/{MODEL}", "baselines", "tools"):
        text = (logs / f"{log}/integers.log").read_text(encoding="utf-8")
        assert all(f"{name}: verified" in text for name in PROGRAMS)


def test_the_other_target_stays_as_it_is(project):
    """Without a target no job on programs runs, and a second run of `invariants` has none."""
    assert not [rule for rule in project.planned() if "invariant" in rule or "program" in rule]
    assert project.planned("invariants") == {}


@pytest.mark.parametrize(
    ("key", "value", "again"),
    [
        ("seconds", 20, VERIFYING),
        ("seed", 1, {"proposals", *VERIFYING}),
        ("semantics", ["int32"], {*VERIFYING, "provable", "provable_table"}),
    ],
)
def test_a_setting_makes_again_what_depends_on_it(project, key, value, again):
    """What a model proposed is kept where only the proofs change."""
    config = read_config(project)
    config["invariants"][key] = value
    with project.configured(config):
        planned = project.planned("invariants")
    drawn = {"invariants_tables", "invariants_sets", "invariants_times"}
    assert set(planned) == {f"invariants_{name}" for name in again} | drawn | {"invariants"}


@pytest.mark.parametrize(
    "module",
    [
        "loop_invariants/proposals/sampling.py",
        "loop_invariants/experiments/provable_quantifier.py",
    ],
)
def test_a_changed_module_makes_again_what_imports_it(finished, module):
    """A result on programs is made again when a module changes that its script imports."""
    project, printed = finished
    file = find_file(module).relative_to(ROOT)
    with project.appended(str(file), "\n# changed\n"):
        planned = set(project.planned("invariants"))
    scripts = {rule: script_of(rule) for rule in stats(printed) if rule != "invariants"}
    demanded = {
        rule
        for rule, script in scripts.items()
        if not script.startswith("fetch_") and module in imported_by(SCRIPTS[script], set())
    }
    assert demanded
    assert demanded <= planned
    assert "invariants_proposals" not in planned - demanded


@pytest.mark.parametrize("name", ["limit.h", "new.c"])
def test_a_changed_or_new_program_is_asked_again(project, name):
    """What becomes of a program is found again when it, its header or the set of them changes."""
    path = project.directory / FOLDER / name
    before = path.read_text(encoding="utf-8") if path.exists() else None
    text = "#define LIMIT 11\n" if path.suffix == ".h" else "int main(){return 0;}\n"
    path.write_text(text, encoding="utf-8")
    planned = project.planned("invariants")
    if before is None:
        path.unlink()
    else:
        path.write_text(before, encoding="utf-8")
    assert planned["fetch_programs"] == planned["invariants_proposals"] == 1


def test_a_configuration_without_programs_says_so(project):
    """Asked for `invariants`, a configuration without the section names what is missing."""
    config = read_config(project)
    del config["invariants"]
    with project.configured(config):
        run = project.snakemake("--dry-run", "--cores", "1", "invariants")
    assert run.returncode != 0
    assert run.stdout.count("has no section `invariants`") == 1


def test_a_server_proposes(tmp_path):
    """A server that only writes fills the tables, and is asked once."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    count = MAIN.format("int x = 0; while (x < 7) x = x + 1; assert(x == 7);")
    (folder / "counts.c").write_text(count, encoding="utf-8")
    server = FakeWriter(lambda prompt: "invariant(x <= 7);")
    config = deepcopy(EMPTY) | {"experiments": []}
    with running(server) as address:
        asked = {"label": LABEL, "source": f"server:{address}", "api": "openai-chat"}
        config["models"] = {"asked": asked}
        config["invariants"] = {
            **{"programs": f"path:{FOLDER}", "models": ["asked"], "semantics": ["integers"]},
            "iterations": 2,
        }
        project = Project(tmp_path, config)
        run = project.snakemake("--cores", "1", "invariants")
        assert run.returncode == 0, run.stdout
        made = attempts(project, "sources/asked/integers")
        found = {attempt["way"]: attempt for attempt in made}
        assert found["sampled alone"]["outcome"] == "verified"
        assert found["sampled alone"]["invariants"][0]["sources"] == ["sampled"]
        sources = pd.read_csv(tmp_path / "results/tables/invariants_sources.csv")
        ways = set(sources["sources"])
        assert {"sampled alone", "program + sampled"} <= ways
        questions = len(server.questions)
        # what was answered is kept, so that proofs made again ask nobody
        config["invariants"]["seconds"] = 50
        project.write_config(config)
        again = project.snakemake("--cores", "1", "results/invariants/sources/asked/integers.json")
        assert again.returncode == 0, again.stdout
    assert len(server.questions) == questions
    assert len(list((tmp_path / "results/invariants/answers/asked").iterdir())) == questions


def test_the_configuration_of_the_published_programs_can_run(tmp_path):
    """config/code2inv.yaml plans every job, from its archive and from a directory instead."""
    arguments = ["--nocolor", "--dry-run", "--cores", "1"]
    arguments += ["--directory", str(tmp_path), "--configfile", "config/code2inv.yaml"]
    expected = {"fetch_model": 2, "fetch_programs": 1, "invariants_proposals": 2}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.c").write_text("int main(){return 0;}\n", encoding="utf-8")
    instead = ("--config", f'invariants={{"programs": "path:{elsewhere}"}}')
    for more in ((), instead):
        run = run_snakemake([*arguments, *more, "--", "invariants"], ROOT, os.environ)
        assert run.returncode == 0, run.stdout
        assert stats(run.stdout).items() >= expected.items()
