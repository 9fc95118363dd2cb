"""Jobs that cover several results compute only what is new, and lose nothing that is done."""

import json
import re

import pytest
from helpers.project import GENDER, Project, read_config

pytestmark = [pytest.mark.slow, pytest.mark.long]

OWN = """
import os

class Letters:
    minimum, maximum = 0, None

    def __call__(self, start, continuation):
        if os.path.exists("kill"):
            os.kill(os.getpid(), 9)
        return continuation.count("e")
"""
LETTERS, LONGER = "P=? [ F letters > 0 ]", "P=? [ F letters > 1 ]"
STAGES = ("scores", "prism", "checks", "crosschecks", "answers")


@pytest.fixture
def project(tmp_path, random_model) -> Project:
    """A project with a query on a tree and queries without one, whose answers are one job's."""
    (tmp_path / "own.py").write_text(OWN)
    whole = {"label": "Whole", "interest": "Test", "start": "player", "L": 2}
    config = {
        "models": {"one": {"label": "One", "source": f"path:{random_model('gpt2')}"}},
        "start_strings": {"player": "The player"},
        "quantifiers": {
            "gender": {},
            "letters": {"type": "python", "file": "own.py", "class": "Letters"},
        },
        "answer": {"passes": 20},
        "experiments": [
            whole | {"alpha": 0.8, "k": 2, "queries": [GENDER]},
            whole | {"queries": [GENDER, LETTERS]},
        ],
    }
    return Project(tmp_path, config)


def read_dates(project: Project) -> dict[str, str]:
    """When each answer was computed, by its check."""
    records = [json.loads(path.read_text()) for path in project.found("answers/**/*.json")]
    return {record["check"]: record["making"]["date"] for record in records}


def test_a_job_that_is_killed_at_its_last_answer_loses_no_other(project):
    """The next run takes the answers that were known, and computes the last one."""
    (project.directory / "kill").touch()
    run = project.snakemake("--cores", "1", "answers_one")
    assert run.returncode != 0
    # snakemake deletes all outputs of a failed job
    assert project.found("answers/**/*.json") == []
    (project.directory / "kill").unlink()
    run = project.snakemake("--cores", "1", "answers_one")
    assert run.returncode == 0, run.stdout
    log = (project.directory / "results/logs/answers/one.log").read_text(encoding="utf-8")
    assert log.count(": kept\n") == 2
    assert len(re.findall(r"one/player/L2/P-eq-F-letters-\S+: certain", log)) == 1
    assert len(read_dates(project)) == 3


def test_a_new_query_computes_its_own_results_alone(project):
    """All other scores, chains, verdicts, comparisons and answers are the files that were there."""
    targets = ("crosschecks_one", "answers_one")
    assert project.snakemake("--cores", "2", *targets).returncode == 0
    before = {
        path: path.read_bytes()
        for stage in STAGES
        for path in project.found(f"{stage}/one/**/*")
        if path.is_file()
    }
    config = read_config(project)
    config["experiments"][0]["queries"].append(LONGER)
    project.write_config(config)
    run = project.snakemake("--cores", "2", *targets)
    assert run.returncode == 0, run.stdout
    assert all(path.read_bytes() == content for path, content in before.items())
    for stage, kept in zip(STAGES, (1, 1, 1, 1, 3), strict=True):
        log = (project.directory / f"results/logs/{stage}/one.log").read_text(encoding="utf-8")
        assert log.count(": kept\n") == kept, log
    assert project.planned(*targets) == {}


def test_results_of_other_inputs_are_not_taken(project):
    """A changed budget, class, start string or code computes the answers that depend on it."""
    assert project.snakemake("--cores", "1", "answers_one").returncode == 0
    config = read_config(project)
    changes = [
        (lambda: config["answer"].update(passes=21), 0),
        (lambda: config["start_strings"].update(player="The players"), 0),
        (lambda: (project.directory / "own.py").write_text(OWN.replace('"e"', '"a"')), 2),
        (lambda: config["models"]["one"].update(decoding={"top_k": 3}), 0),
    ]
    for change, kept in changes:
        change()
        project.write_config(config)
        run = project.snakemake("--cores", "1", "answers_one")
        assert run.returncode == 0, run.stdout
        log = (project.directory / "results/logs/answers/one.log").read_text(encoding="utf-8")
        assert log.count(": kept\n") == kept, log
    with project.appended("src/llmchecker/checking/anytime/path_sampler.py", "\n# changed\n"):
        run = project.snakemake("--cores", "1", "answers_one")
        assert ": kept\n" not in run.stdout
